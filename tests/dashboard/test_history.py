"""The charts show what was measured, and a gap where nothing was."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from apps.dashboard import selectors
from apps.dashboard.models import InflowSample
from tests.dashboard.samples import sample, store

pytestmark = pytest.mark.django_db


@pytest.fixture
def now() -> datetime:
    selectors.forget_cached()
    return timezone.now().replace(microsecond=0)


def point_at(at: datetime) -> selectors.Point:
    bucket_s = int(at.timestamp()) // selectors.BUCKET_S * selectors.BUCKET_S
    return next(p for p in selectors.overview().history if p.at_s == bucket_s)


def test_a_point_merges_processes_and_seconds(now: datetime) -> None:
    at = now - timedelta(seconds=60)
    store(
        sample(at, "worker-1", verdicts=30, by_label={"": 10}, total_ms=[1.0] * 50),
        sample(at, "worker-2", verdicts=20, total_ms=[100.0] * 50),
    )
    point = point_at(at)
    assert point.verdicts_per_s == 50 / selectors.BUCKET_S
    assert point.undetermined_share == pytest.approx(0.2)
    assert point.p50_ms == pytest.approx(1, rel=0.02)
    assert point.p99_ms == pytest.approx(100, rel=0.02)


def test_nothing_measured_is_a_gap_and_no_zero(now: datetime) -> None:
    point = point_at(now - timedelta(seconds=60))
    assert (point.verdicts_per_s, point.received_per_s, point.p99_ms) == (None, None, None)


def test_an_idle_second_is_a_zero_and_no_gap(now: datetime) -> None:
    at = now - timedelta(seconds=60)
    store(sample(at))
    InflowSample.objects.create(second=at, received=0, high_id=0)
    point = point_at(at)
    assert (point.verdicts_per_s, point.received_per_s, point.p99_ms) == (0, 0, None)


def test_the_history_is_ten_minutes_long(now: datetime) -> None:
    points = selectors.overview().history
    span_s = points[-1].at_s - points[0].at_s + 2 * selectors.BUCKET_S
    assert span_s == selectors.HISTORY.total_seconds()


def test_settled_points_are_read_once(now: datetime) -> None:
    at = now - timedelta(seconds=60)
    store(sample(at, verdicts=5))
    assert point_at(at).verdicts_per_s == 1
    store(sample(at, verdicts=500))
    selectors._overview.forget()
    assert point_at(at).verdicts_per_s == 1
