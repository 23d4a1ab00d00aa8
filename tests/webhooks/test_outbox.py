"""The outbox writes once, holds, takes back, and lets each event leave once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from apps.webhooks.models import EventKind, OutboxEvent
from apps.webhooks.services import drop_released, enqueue, release_due, withdraw

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def made(key: str, hold: timedelta = timedelta(0)) -> None:
    with transaction.atomic():
        enqueue(kind=EventKind.DECISION_MADE, key=key, message_ids=[1], hold=hold)


def test_the_same_event_twice_is_written_once() -> None:
    made("decision:1")
    made("decision:1")
    assert OutboxEvent.objects.count() == 1


def test_held_event_does_not_leave() -> None:
    made("decision:1", hold=HOUR)
    made("decision:2")
    assert [event.key for event in release_due()] == ["decision:2"]


def test_event_leaves_once() -> None:
    made("decision:1")
    assert len(release_due()) == 1
    assert release_due() == []


def test_held_event_can_be_withdrawn_and_a_released_one_cannot() -> None:
    made("decision:1", hold=HOUR)
    made("decision:2")
    release_due()
    assert withdraw(kind=EventKind.DECISION_MADE, key="decision:1")
    assert not withdraw(kind=EventKind.DECISION_MADE, key="decision:2")
    assert [event.key for event in OutboxEvent.objects.all()] == ["decision:2"]


def test_released_events_are_dropped_by_age_and_waiting_ones_never() -> None:
    made("decision:1")
    release_due()
    made("decision:2", hold=HOUR)
    assert drop_released(before=HOUR) == 0
    assert drop_released(before=-HOUR) == 1
    assert [event.key for event in OutboxEvent.objects.all()] == ["decision:2"]


@pytest.mark.django_db(transaction=True)
def test_event_outside_a_transaction_is_refused() -> None:
    with pytest.raises(RuntimeError):
        enqueue(kind=EventKind.DECISION_MADE, key="decision:1", message_ids=[1])
