"""What the client tells is counted once, and breaker changes keep their order and time."""

from __future__ import annotations

from apps.scoring.measuring import Measurements
from apps.scoring.samples import Sample
from apps.scoring.told import MOST_CHANGES, ClientEars
from inference.hooks import AttemptEvent, BreakerEvent, HedgeEvent, RetryEvent


def attempt(outcome: str) -> AttemptEvent:
    return AttemptEvent("c", "triton-1", "moderation", outcome, 5.0, 1, 256, 1000)


def tell(ears: ClientEars) -> None:
    hooks = ears.hooks
    assert hooks.on_attempt
    assert hooks.on_retry
    assert hooks.on_hedge
    for outcome in ("ok", "overloaded", "queue_full", "queue_expired", "connect_failed"):
        hooks.on_attempt(attempt(outcome))
    hooks.on_retry(RetryEvent("c", "triton-1", "moderation", "connect_failed", 1, 2.0))
    hooks.on_hedge(HedgeEvent("c", "moderation", "triton-1", "triton-2", 9.0, "triton-2"))


def test_refusals_at_our_door_and_at_tritons_are_told_apart() -> None:
    ears = ClientEars()
    tell(ears)
    assert ears.take().counts == {"shed": 1, "rejected": 2, "retries": 1, "hedges": 1}
    assert ears.take().counts == {}


def test_breaker_changes_come_in_order_with_their_age() -> None:
    ears = ClientEars()
    assert ears.hooks.on_breaker
    for old, new in (("open", "half_open"), ("half_open", "ramping")):
        ears.hooks.on_breaker(BreakerEvent("triton-1", old, new, "probing", 0.0))
    changes = ears.take().breaker_changes
    assert [change["state"] for change in changes] == ["half_open", "ramping"]
    assert changes[0]["ago_s"] >= changes[1]["ago_s"] >= 0
    assert ears.take().breaker_changes == []


def test_a_flapping_breaker_does_not_grow_the_sample_without_bound() -> None:
    ears = ClientEars()
    assert ears.hooks.on_breaker
    for _ in range(10 * MOST_CHANGES):
        ears.hooks.on_breaker(BreakerEvent("triton-1", "open", "half_open", "", 0.0))
    assert len(ears.take().breaker_changes) == MOST_CHANGES


def test_a_sample_carries_it_to_the_dashboard() -> None:
    measurements = Measurements("worker")
    tell(measurements.ears)
    taken = measurements.take_sample([], 12.5)
    read = Sample.from_json(taken.at, taken.process, taken.to_json())
    assert (read.counters.rejected, read.counters.shed) == (2, 1)
    assert read.gauges.retry_budget == 12.5
    assert read.gauges.version
    assert read.gauges.memory_mb
    assert read.gauges.memory_mb > 10
