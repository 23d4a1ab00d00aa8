"""The outbox writes once, holds, takes back, and lets each event leave once."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import transaction
from hypothesis import given
from hypothesis import strategies as st

from apps.policies.models import Action, Label
from apps.scoring.models import Source
from apps.scoring.sinks import StoredVerdict
from apps.webhooks import services
from apps.webhooks.models import EventKind, OutboxEvent
from apps.webhooks.services import (
    drop_released,
    enqueue,
    enqueue_verdicts,
    id_ranges,
    release_due,
    subject_ids,
    withdraw,
)

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


# ---------- verdicts ----------


def verdict(message_id: int, release_id: int = 1) -> StoredVerdict:
    return StoredVerdict(
        message_id, 1, release_id, 1, Source.MODEL, Label.OK, Action.ALLOW, None, None, ()
    )


def told(event: OutboxEvent) -> tuple[str, int, list[int]]:
    return event.kind, event.payload["release_id"], subject_ids(event)


def test_batch_of_verdicts_is_one_event_that_names_each_message() -> None:
    ids = [1030, 1024, 1025, 2048, 1026]
    enqueue_verdicts([verdict(id_) for id_ in ids])
    event = OutboxEvent.objects.get()
    assert told(event) == ("verdicts.stored", 1, sorted(ids))
    assert event.payload["ranges"] == [[1024, 1026], [1030, 1030], [2048, 2048]]
    assert release_due() == [event], "it leaves at once"


def test_second_verdict_of_a_message_is_an_event_of_its_own() -> None:
    enqueue_verdicts([verdict(1024, release_id=2)])
    enqueue_verdicts([verdict(1024, release_id=1)])
    assert sorted(map(told, OutboxEvent.objects.all())) == [
        ("verdicts.stored", 1, [1024]),
        ("verdicts.stored", 2, [1024]),
    ]


def test_releases_of_one_batch_are_told_apart() -> None:
    enqueue_verdicts([verdict(1024, release_id=2), verdict(1025, release_id=1)])
    assert sorted(map(told, OutboxEvent.objects.all())) == [
        ("verdicts.stored", 1, [1025]),
        ("verdicts.stored", 2, [1024]),
    ]


@given(st.sets(st.integers(0, 300)))
def test_ranges_hold_just_the_ids_they_were_made_of(ids: set[int]) -> None:
    ranges = id_ranges(list(ids))
    assert [id_ for a, b in ranges for id_ in range(a, b + 1)] == sorted(ids)
    assert all(b + 1 < a for (_, b), (a, _) in pairwise(ranges))


def test_many_old_events_are_dropped_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "DROP_BATCH", 2)
    for number in range(5):
        made(f"decision:{number}")
    release_due()
    assert drop_released(before=-HOUR) == 5
    assert not OutboxEvent.objects.exists()
