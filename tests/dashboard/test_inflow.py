"""What comes in is counted second by second, once, whoever counts and however late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from apps.chat.models import Chunk
from apps.dashboard.models import InflowSample
from apps.dashboard.selectors import read_inflow
from apps.dashboard.services import KEPT_FOR, MOST_SECONDS, record_inflow
from tests.factories import MessageFactory

pytestmark = pytest.mark.django_db

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def receive(*seconds: float) -> None:
    for second in seconds:
        MessageFactory(received_at=at(second))


def counted() -> dict[float, int]:
    rows = InflowSample.objects.values_list("second", "received")
    return {(second - START).total_seconds(): received for second, received in rows}


def test_each_second_has_its_own_count() -> None:
    record_inflow(now=at(2))
    receive(0.1, 0.9, 1.0, 2.5)
    record_inflow(now=at(5))
    assert counted() == {-1: 0, 0: 2, 1: 1, 2: 1}


def test_a_second_is_written_once_whoever_comes_second() -> None:
    receive(0.1)
    assert record_inflow(now=at(3)) == 1
    assert record_inflow(now=at(3.5)) == 0
    assert counted() == {0: 1}


def test_seconds_that_nobody_counted_are_filled_in() -> None:
    record_inflow(now=at(2))
    receive(3, 7)
    record_inflow(now=at(11))
    assert {s: n for s, n in counted().items() if n} == {3: 1, 7: 1}
    assert len(counted()) == 10


def test_a_long_pause_is_filled_in_no_further_than_a_minute() -> None:
    record_inflow(now=at(2))
    assert record_inflow(now=at(10_000)) == MOST_SECONDS


def test_a_message_that_took_its_id_before_others_is_counted() -> None:
    MessageFactory(id=5_000_000, received_at=at(0.5))
    record_inflow(now=at(3))
    MessageFactory(id=4_999_000, received_at=at(1.5))
    record_inflow(now=at(4))
    assert counted() == {0: 1, 1: 1}


def test_what_waits_belongs_to_the_newest_second_only() -> None:
    Chunk.objects.create(id=1, size=700, created_at=at(0))
    record_inflow(now=at(2))
    record_inflow(now=at(5))
    newest = InflowSample.objects.order_by("-second").values_list("waiting", "oldest_age_s")
    assert list(newest[:2]) == [(700, 5.0), (None, None)]


def test_old_samples_go() -> None:
    record_inflow(now=at(2))
    record_inflow(now=at(2) + KEPT_FOR + timedelta(seconds=5))
    assert -1 not in counted()


def test_rate_is_unknown_when_nobody_has_counted_lately() -> None:
    record_inflow(now=at(2))
    assert read_inflow(now=at(3)).received_per_s == 0
    assert read_inflow(now=at(30)).received_per_s is None
