"""The pace follows what comes back: pure, so every course of events can be tried."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from apps.scoring.pacing import Limits, Pacer

LIMITS = Limits()
FAST_MS, SLOW_MS = LIMITS.latency_target_ms / 2, LIMITS.latency_target_ms * 2


def pacer() -> Pacer:
    return Pacer(chance=lambda: 1.0)


def test_full_fast_batches_grow_by_a_step_up_to_the_largest() -> None:
    pace = pacer()
    before = pace.batch
    pace.on_answer(pace.batch, FAST_MS, queue_ms=0)
    assert pace.batch == before + LIMITS.step
    for _ in range(50):
        pace.on_answer(pace.batch, FAST_MS, queue_ms=0)
    assert pace.batch == LIMITS.largest_batch


def test_batch_that_was_not_full_says_nothing() -> None:
    pace = pacer()
    before = pace.batch
    pace.on_answer(1, FAST_MS, queue_ms=0)
    assert pace.batch == before


def test_slow_answers_shrink_batches_only_while_nothing_waits() -> None:
    pace = pacer()
    before = pace.batch
    pace.on_answer(pace.batch, SLOW_MS, queue_ms=10_000)
    assert pace.batch > before
    shrunk = pacer()
    shrunk.on_answer(shrunk.batch, SLOW_MS, queue_ms=0)
    assert shrunk.batch < before


def test_answers_that_are_far_too_late_shrink_batches_whatever_waits() -> None:
    pace = pacer()
    before = pace.batch
    pace.on_answer(pace.batch, LIMITS.longest_latency_ms + 1, queue_ms=10_000)
    assert pace.batch < before


def test_overload_halves_and_sends_one_at_a_time() -> None:
    pace = pacer()
    before = pace.batch
    pause_s = pace.on_overload("queue_full", now_s=100.0)
    assert (pace.batch, pace.in_flight_batches) == (before // 2, 1)
    assert pace.pause_left_s(100.0) == pause_s == LIMITS.first_pause_s
    assert pace.pause_left_s(100.0 + pause_s) == 0


def test_outage_probes_small_and_waits_longer_each_time() -> None:
    pace = pacer()
    pauses_s = [pace.on_outage("no_replica", now_s=0.0) for _ in range(10)]
    assert pauses_s == sorted(pauses_s)
    assert pauses_s[-1] == LIMITS.longest_pause_s
    assert pace.batch == LIMITS.smallest_batch
    pace.on_answer(pace.batch, FAST_MS, queue_ms=10_000)
    assert pace.paused_because == ""
    assert pace.in_flight_batches == LIMITS.most_in_flight_batches
    assert pace.on_outage("no_replica", now_s=0.0) == LIMITS.first_pause_s


Step = tuple[str, float, float]
steps = st.tuples(
    st.sampled_from(["answer", "overload", "outage"]),
    st.floats(0, 5_000),
    st.floats(0, 60_000),
)


@given(st.lists(steps, max_size=60), st.floats(0, 1))
def test_pace_stays_within_its_limits(course: list[Step], chance: float) -> None:
    pace = Pacer(chance=lambda: chance)
    for what, latency_ms, queue_ms in course:
        if what == "answer":
            pace.on_answer(pace.batch, latency_ms, queue_ms)
        else:
            pause_s = (pace.on_overload if what == "overload" else pace.on_outage)(what, 0.0)
            assert LIMITS.first_pause_s / 2 <= pause_s <= LIMITS.longest_pause_s
        assert LIMITS.smallest_batch <= pace.batch <= LIMITS.largest_batch
        assert 1 <= pace.in_flight_batches <= LIMITS.most_in_flight_batches
