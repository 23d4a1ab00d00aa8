"""The history adds up: processes to seconds, seconds to hours, whoever comes twice or late."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from apps.dashboard.models import InflowSample, Rollup
from apps.dashboard.rollups import (
    BASE_STEP_S,
    KEPT_FOR,
    LATE_BY,
    STEPS_S,
    finest_step_s,
    roll_up,
)
from apps.scoring.models import StageSample
from inference.stats import RELATIVE_ERROR
from tests.dashboard.samples import sample, store

pytestmark = pytest.mark.django_db

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
COLUMNS = [f.name for f in Rollup._meta.concrete_fields if f.name != "payload"]


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def row(step_s: int, seconds: float = 0) -> Rollup:
    return Rollup.objects.get(step_s=step_s, at=at(seconds))


def shown() -> list[dict[str, Any]]:
    return list(Rollup.objects.order_by("step_s", "at").values(*COLUMNS))


def receive(
    second: int, received: int, waiting: int | None = None, age_s: float | None = None
) -> None:
    InflowSample.objects.create(
        second=at(second), received=received, high_id=0, waiting=waiting, oldest_age_s=age_s
    )


def rank_value(values: Sequence[float], q: float) -> float:
    return sorted(values)[math.floor(q * (len(values) - 1))]


# ---------- percentiles ----------


@pytest.mark.parametrize("step_s", STEPS_S)
def test_percentiles_of_four_processes_are_those_of_the_raw_values(step_s: int) -> None:
    random = np.random.default_rng(11)
    raw: dict[int, list[float]] = {}
    for second in range(120):
        # Four processes that differ: the mean of their percentiles would be far off.
        for process, scale in enumerate((0.0, 1.0, 2.5, 4.0)):
            values = random.lognormal(scale, 1.0, 1 + 5 * process)
            store(sample(at(second), f"worker-{process}", total_ms=values.tolist()))
            raw.setdefault(second // step_s, []).extend(values.tolist())
    roll_up(now=at(130))
    rows = Rollup.objects.filter(step_s=step_s).order_by("at")
    assert len(rows) == len(raw)
    for found, values in zip(rows, raw.values(), strict=True):
        for q, percentile in ((0.5, found.p50_ms), (0.95, found.p95_ms), (0.99, found.p99_ms)):
            true_ms = rank_value(values, q)
            assert percentile == pytest.approx(true_ms, rel=RELATIVE_ERROR * 1.0001)


# ---------- sums ----------


def test_a_bucket_holds_all_that_was_measured_in_it() -> None:
    counts: dict[str, Any] = {
        "verdicts": 40,
        "by_label": {"": 10, "ok": 30},
        "by_source": {"fallback": 4, "model": 36},
    }
    store(*(sample(at(s), f"worker-{p}", **counts) for s in range(10) for p in (1, 2)))
    for second in range(10):
        receive(second, 100, waiting=50 + second, age_s=float(second))
    roll_up(now=at(20))
    found = row(BASE_STEP_S, 5)
    assert (found.verdicts, found.undetermined, found.fallback) == (400, 100, 40)
    assert (found.received, found.counted_s, found.covered_s) == (500, 5, 5)
    assert (found.waiting, found.oldest_age_s) == (59, 9.0)
    minute = row(60)
    assert (minute.verdicts, minute.received, minute.waiting) == (800, 1000, 59)


def test_the_newest_bucket_says_how_much_of_it_is_there() -> None:
    store(*(sample(at(s), verdicts=10) for s in range(90)))
    roll_up(now=at(93))
    assert (row(60, 60).covered_s, row(60, 60).verdicts) == (30, 300)
    assert (row(3600).covered_s, row(3600).verdicts) == (90, 900)


def test_nothing_measured_leaves_no_bucket_or_nulls() -> None:
    receive(0, 5)
    roll_up(now=at(20))
    assert Rollup.objects.filter(step_s=BASE_STEP_S).count() == 1
    assert (row(BASE_STEP_S).verdicts, row(BASE_STEP_S).p99_ms) == (None, None)


# ---------- twice, late ----------


def test_rolling_up_again_changes_nothing() -> None:
    store(*(sample(at(s), verdicts=s, total_ms=[s + 1.0]) for s in range(100)))
    roll_up(now=at(110))
    before = shown()
    roll_up(now=at(110))
    assert shown() == before


def test_small_steps_end_with_what_one_run_makes() -> None:
    store(*(sample(at(s), verdicts=s, total_ms=[s + 1.0]) for s in range(200)))
    roll_up(now=at(210))
    at_once = shown()
    Rollup.objects.all().delete()
    for now_s in range(3, 211, 9):
        roll_up(now=at(now_s))
    roll_up(now=at(210))
    assert shown() == at_once


def test_what_is_written_late_is_in_the_next_run() -> None:
    store(sample(at(0), verdicts=1))
    receive(0, 1)
    roll_up(now=at(20))
    store(sample(at(1), "worker-2", verdicts=2))
    receive(1, 2)
    roll_up(now=at(LATE_BY.total_seconds()))
    for step_s in STEPS_S:
        assert (row(step_s).verdicts, row(step_s).received) == (3, 3)


def test_a_run_after_a_pause_catches_up() -> None:
    store(sample(at(0), verdicts=1))
    roll_up(now=at(20))
    store(*(sample(at(s), verdicts=1) for s in range(30, 1800, 10)))
    roll_up(now=at(1800))
    assert row(3600).verdicts == 1 + 177
    assert row(600, 600).verdicts == 60


def test_a_bucket_whose_parts_are_gone_stays_as_it_was() -> None:
    store(sample(at(0), verdicts=5))
    roll_up(now=at(20))
    StageSample.objects.all().delete()
    store(sample(at(1), verdicts=1))
    roll_up(now=at(7200))
    assert row(BASE_STEP_S).verdicts == 5


# ---------- keeping ----------


def test_each_length_is_kept_as_long_as_it_should() -> None:
    now = START + timedelta(days=500)
    for step_s, kept_for in KEPT_FOR.items():
        for age in (kept_for - timedelta(hours=1), kept_for + timedelta(hours=2)):
            Rollup.objects.create(step_s=step_s, at=now - age, covered_s=step_s, counted_s=0)
    roll_up(now=now)
    for step_s in STEPS_S:
        assert Rollup.objects.filter(step_s=step_s, at__gte=now - KEPT_FOR[step_s]).exists()
        assert not Rollup.objects.filter(step_s=step_s, at__lt=now - KEPT_FOR[step_s]).exists()


@pytest.mark.parametrize(
    ("span", "age", "step_s"),
    [
        (timedelta(minutes=5), timedelta(0), 5),
        (timedelta(minutes=40), timedelta(0), 5),
        (timedelta(minutes=40), timedelta(hours=3), 60),
        (timedelta(hours=6), timedelta(0), 60),
        (timedelta(days=3), timedelta(0), 600),
        (timedelta(days=30), timedelta(0), 3600),
        (timedelta(minutes=5), timedelta(days=10), 600),
        (timedelta(minutes=5), timedelta(days=300), 3600),
    ],
)
def test_the_shortest_buckets_that_fit_are_taken(
    span: timedelta, age: timedelta, step_s: int
) -> None:
    until = START - age
    found = finest_step_s(until - span, until, now=START, most_points=1_000)
    assert found == step_s
