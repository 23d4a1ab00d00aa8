"""The page's numbers are those of all processes together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from django.utils import timezone

from apps.dashboard import selectors
from apps.dashboard.figures import make_figures, size_shares
from apps.scoring.models import StageSample
from inference.stats import RELATIVE_ERROR
from tests.dashboard.samples import replica, sample, store

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def test_percentiles_over_four_processes_are_those_of_the_raw_values() -> None:
    rng = np.random.default_rng(7)
    # Processes of different speed: the mean of their percentiles would be far off.
    raw = [rng.lognormal(mean, 0.6, 2_000) for mean in (0.5, 1.5, 2.5, 4.0)]
    samples = [sample(ago(1), f"worker-{n}", total_ms=list(values)) for n, values in enumerate(raw)]
    total = make_figures(samples, now=NOW).stages[-1]
    every = np.sort(np.concatenate(raw))
    for quantile, shown in ((0.5, total.p50_ms), (0.95, total.p95_ms), (0.99, total.p99_ms)):
        exact = every[int(quantile * (len(every) - 1))]
        assert shown == pytest.approx(exact, rel=RELATIVE_ERROR * 1.001)


def test_rates_are_sums_over_processes_in_the_last_ten_seconds() -> None:
    samples = [sample(ago(s), f"worker-{p}", verdicts=50) for s in (30, 5, 1) for p in (1, 2)]
    assert make_figures(samples, now=NOW).verdicts_per_s == pytest.approx(20)


def test_share_of_undetermined_is_unknown_without_verdicts() -> None:
    assert make_figures([sample(ago(1))], now=NOW).undetermined_share is None


def test_share_of_undetermined_counts_verdicts_without_a_label() -> None:
    samples = [sample(ago(1), verdicts=8, by_label={"ok": 6, "": 2})]
    assert make_figures(samples, now=NOW).undetermined_share == 0.25


@pytest.mark.parametrize(
    ("silent_s", "changes", "state"),
    [
        (1, {"in_flight": 5}, "busy"),
        (1, {"verdicts": 3}, "busy"),
        (1, {}, "idle"),
        (1, {"paused_because": "Triton is away", "in_flight": 5}, "paused"),
        (6, {"in_flight": 5}, "gone"),
    ],
)
def test_worker_state(silent_s: float, changes: dict[str, object], state: str) -> None:
    figures = make_figures([sample(ago(silent_s), **changes)], now=NOW)
    assert [worker.state for worker in figures.workers] == [state]


def test_worker_silent_for_a_minute_is_forgotten() -> None:
    assert make_figures([sample(ago(61))], now=NOW).workers == []


def test_a_replica_is_shown_as_its_worst_caller_sees_it() -> None:
    failing = replica(breaker="open", breaker_reason="9 of 12 failed", seconds_to_probe=3.2)
    samples = [
        sample(ago(1), "worker-1", replicas=[replica(in_flight=2)]),
        sample(ago(1), "worker-2", replicas=[failing]),
    ]
    (row,) = make_figures(samples, now=NOW).replicas
    assert (row.breaker, row.breaker_reason, row.seconds_to_probe) == (
        "open",
        "9 of 12 failed",
        3.2,
    )
    assert (row.in_flight, row.processes, row.processes_breaker_closed) == (3, 2, 1)
    assert (row.state, row.is_serving) == ("down", False)


@pytest.mark.parametrize(
    ("changes", "state", "serves"),
    [
        ({}, "healthy", True),
        ({"breaker": "half_open"}, "half-open", False),
        ({"breaker": "ramping"}, "half-open", True),
        ({"breaker": "open"}, "down", False),
        ({"breaker": "forced_open"}, "down", False),
        ({"state": "down"}, "down", False),
        ({"state": "ejected"}, "degraded", False),
        ({"state": "draining"}, "degraded", False),
        ({"state": "live"}, "degraded", False),
    ],
)
def test_replica_state(changes: dict[str, object], state: str, serves: bool) -> None:
    figures = make_figures([sample(ago(1), replicas=[replica(**changes)])], now=NOW)
    assert [(r.state, r.is_serving) for r in figures.replicas] == [(state, serves)]


def test_replicas_of_a_dead_worker_are_not_shown_as_if_known() -> None:
    assert make_figures([sample(ago(6), replicas=[replica()])], now=NOW).replicas == []


def test_only_the_newest_view_of_a_process_counts() -> None:
    samples = [
        sample(ago(2), replicas=[replica(breaker="open")]),
        sample(ago(1), replicas=[replica()]),
    ]
    assert make_figures(samples, now=NOW).serving == 1


def test_judging_is_paused_when_every_live_worker_says_so() -> None:
    paused = sample(ago(1), "worker-1", paused_because="Triton is away")
    dead = sample(ago(30), "worker-2")
    assert make_figures([dead, paused], now=NOW).paused_because == "Triton is away"
    assert make_figures([paused, sample(ago(1), "worker-2")], now=NOW).paused_because == ""


def test_batch_sizes_have_no_gap_in_their_axis() -> None:
    assert size_shares({"1": 1, "8": 3}) == [(1, 0.25), (2, 0.0), (4, 0.0), (8, 0.75)]
    assert size_shares({}) == []


def test_a_sample_of_the_future_counts_no_more_than_clocks_may_differ() -> None:
    samples = [sample(ago(-1), verdicts=10), sample(ago(-30), verdicts=1_000)]
    assert make_figures(samples, now=NOW).verdicts == 10


@pytest.mark.django_db
def test_samples_that_settled_are_read_once_and_newer_ones_each_time() -> None:
    selectors.forget_cached()
    now = timezone.now()
    for age_s in (90, 30, 3):
        store(sample(now - timedelta(seconds=age_s), verdicts=100))
    assert selectors.overview().figures.verdicts == 200
    late = now - timedelta(seconds=4)
    store(sample(late, "worker-2", verdicts=10), sample(now, verdicts=1))
    StageSample.objects.filter(at=now - timedelta(seconds=30)).delete()
    selectors._overview.forget()
    # The old one is remembered, the one that came late is seen, and none counts twice.
    assert selectors.overview().figures.verdicts == 211


@pytest.mark.django_db
def test_remembered_samples_leave_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    selectors.forget_cached()
    now = timezone.now()
    store(sample(now - timedelta(seconds=30), verdicts=100))
    assert selectors.overview().figures.verdicts == 100
    monkeypatch.setattr(timezone, "now", lambda: now + timedelta(seconds=31))
    selectors._overview.forget()
    assert selectors.overview().figures.verdicts == 0
