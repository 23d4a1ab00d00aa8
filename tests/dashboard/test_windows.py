"""A window of any length is whole, small, and the same figures as the page's."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import Role
from apps.dashboard import selectors
from apps.dashboard.history import COLUMNS, RANGES_S, read_window
from apps.dashboard.models import Rollup
from apps.dashboard.rollups import STEPS_S, roll_up
from tests.dashboard.samples import sample, sketch, store
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db

URL = "/operate/history.json"
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    selectors.forget_cached()


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(UserFactory(role=Role.OPERATOR))
    return client


def rolled(step_s: int, at: datetime, **columns: Any) -> None:
    values = {"covered_s": step_s, "counted_s": step_s, **columns}
    Rollup.objects.create(step_s=step_s, at=at, **values)


@pytest.mark.parametrize("span_s", [*RANGES_S, 86_400])
def test_every_range_is_at_most_a_thousand_points_on_a_regular_grid(span_s: int) -> None:
    window = read_window(NOON - timedelta(seconds=span_s), NOON, now=NOON)
    times = [point.at_s for point in window.points]
    assert 60 <= len(times) <= 1_000
    assert {b - a for a, b in itertools.pairwise(times)} == {window.step_s}
    assert times[0] <= NOON.timestamp() - span_s < times[1]


def test_rates_are_over_what_was_covered_and_counted() -> None:
    at = NOON - timedelta(minutes=10)
    counts = {"received": 300, "verdicts": 900, "undetermined": 90, "waiting": 7}
    rolled(600, at, **{**counts, "counted_s": 60, "covered_s": 300})
    window = read_window(NOON - timedelta(days=3), NOON, now=NOON)
    point = next(p for p in window.points if p.at_s == at.timestamp())
    assert (point.received_per_s, point.verdicts_per_s, point.waiting) == (5, 3, 7)
    assert point.undetermined_share == pytest.approx(0.1)


def test_a_bucket_that_nobody_measured_is_a_gap() -> None:
    rolled(60, NOON - timedelta(minutes=30), verdicts=0, received=0)
    window = read_window(NOON - timedelta(hours=6), NOON, now=NOON)
    known = [p for p in window.points if p.verdicts_per_s is not None]
    assert [(p.verdicts_per_s, p.received_per_s, p.p99_ms) for p in known] == [(0, 0, None)]


def test_the_newest_points_are_there_before_they_are_rolled_up() -> None:
    now = timezone.now()
    store(*(sample(now - timedelta(seconds=s), verdicts=50) for s in (20, 60)))
    roll_up(now=now - timedelta(seconds=30))
    window = read_window(now - timedelta(minutes=5), now, now=now)
    assert [p.verdicts_per_s for p in window.points if p.verdicts_per_s] == [10, 10]


@pytest.mark.parametrize(
    ("since", "until"),
    [(timedelta(days=400), timedelta(0)), (timedelta(0), timedelta(0)), (-timedelta(days=9),) * 2],
)
def test_windows_out_of_bounds_are_brought_within(since: timedelta, until: timedelta) -> None:
    window = read_window(NOON - since, NOON - until, now=NOON)
    assert 2 <= len(window.points) <= 1_000
    assert window.points[-1].at_s < NOON.timestamp()


@pytest.mark.parametrize("step_s", STEPS_S)
def test_no_sketch_is_read_to_draw(django_assert_num_queries: Any, step_s: int) -> None:
    rolled(step_s, NOON - timedelta(hours=1), verdicts=1, payload={"sketches": "unreadable"})
    span = timedelta(seconds=step_s * 700)
    # The page's own overview answers from its cache.
    selectors.overview()
    with django_assert_num_queries(1):
        read_window(NOON - span, NOON, now=NOON)


# ---------- over HTTP ----------


def test_the_address_says_which_window(operator: Client) -> None:
    now_s = int(timezone.now().timestamp())
    answer = operator.get(URL, {"from": now_s - 21_600, "to": now_s}).json()
    assert answer["step_s"] == 60
    assert len(answer["at_s"]) in (360, 361)
    assert set(answer) == {"step_s", *COLUMNS}
    assert {len(answer[name]) for name in COLUMNS} == {len(answer["at_s"])}


def test_without_a_window_it_is_the_last_ten_minutes(operator: Client) -> None:
    answer = operator.get(URL).json()
    assert (answer["step_s"], len(answer["at_s"])) in {(5, 120), (5, 121)}


@pytest.mark.parametrize(
    "query", [{"from": "yesterday"}, {"to": "-1"}, {"from": "1e9"}, {"to": "9" * 30}]
)
def test_what_is_no_instant_is_refused(operator: Client, query: dict[str, str]) -> None:
    assert operator.get(URL, query).status_code == 400


def test_latencies_of_all_classes_of_messages_are_in_the_newest_points() -> None:
    now = timezone.now()
    for process, name, total_ms in (("a", "total:batch", 10.0), ("b", "total:backlog", 90.0)):
        told = sample(now - timedelta(seconds=30), process, verdicts=4)
        store(replace(told, sketches={name: sketch([total_ms] * 4)}))
    live = [point for point in selectors.overview().history if point.p99_ms is not None]
    assert [(round(p.p50_ms or 0), round(p.p95_ms or 0)) for p in live] == [(10, 90)]
