"""A group that suddenly sends a large part of everything is told, by its name, once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from apps.chat.models import Message
from apps.dashboard.bursts import CALM_S, LEAST_PER_S
from apps.dashboard.events import read_events
from apps.dashboard.models import OperationalEvent
from apps.dashboard.services import SETTLED_AFTER, record_inflow
from tests.factories import GroupFactory, MessageFactory

pytestmark = pytest.mark.django_db
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def sent(group: object, second: int, count: int) -> None:
    made = MessageFactory.create_batch(count, group=group)
    Message.objects.filter(pk__in=[m.pk for m in made]).update(received_at=at(second + 0.5))


def look(upto: int) -> None:
    """The task, as beat runs it: once for each second before `upto`."""
    for second in range(upto):
        record_inflow(now=at(second + 1) + SETTLED_AFTER)


def told() -> list[str]:
    return list(
        OperationalEvent.objects.filter(kind="burst")
        .order_by("at", "id")
        .values_list("state", flat=True)
    )


def test_a_burst_begins_and_is_over_when_the_group_is_calm_again() -> None:
    group = GroupFactory(name="Harbour \u202eTrading")
    for second in (0, 1, 2):
        sent(group, second, LEAST_PER_S)
    look(3 + 2 * CALM_S)
    assert told() == ["burst", "over"]
    begun, over = read_events(START, at(60))
    assert begun.words == "Harbour [RLO]Trading sends a burst"
    assert begun.reason == f"{LEAST_PER_S}/s · 100%"
    assert begun.until_s == over.at_s


def test_many_groups_that_send_alike_are_no_burst() -> None:
    for _ in range(6):
        sent(GroupFactory(), 0, LEAST_PER_S)
    look(1)
    assert told() == []


def test_a_quiet_group_alone_is_no_burst() -> None:
    sent(GroupFactory(), 0, LEAST_PER_S - 1)
    look(1)
    assert told() == []
