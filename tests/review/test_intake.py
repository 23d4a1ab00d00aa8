"""Verdicts open items, and take them back when there is nothing left to decide."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from apps.chat.models import Message
from apps.policies.models import Action, Label
from apps.review.models import Cause, ReviewItem, ReviewState
from apps.review.ranking import UNDETERMINED_PRIORITY
from apps.review.services.intake import take_in, withdraw
from apps.review.services.leases import open_next
from apps.scoring.models import Source
from apps.scoring.sinks import StoredVerdict, feed_sinks
from tests.factories import GroupFactory, MessageFactory, ReviewItemFactory, UserFactory

pytestmark = pytest.mark.django_db


def judged(message: Message, **changes: Any) -> StoredVerdict:
    """A verdict of spam, held, unless told otherwise."""
    held: dict[str, Any] = {
        "message_id": message.pk,
        "group_id": message.group_id,
        "release_id": 1,
        "policy_version_id": 1,
        "source": Source.MODEL,
        "label": Label.SPAM,
        "action": Action.HOLD,
        "acting_label": Label.SPAM,
        "scores": (0.2, 0.7, 0.06, 0.04),
        "reasons": (),
    }
    return StoredVerdict(**{**held, **changes})


def test_held_message_waits_with_the_label_that_acted() -> None:
    message = MessageFactory()
    take_in([judged(message, label=Label.OK, acting_label=Label.AD)])
    item = ReviewItem.objects.get()
    assert (item.pk, item.group_id) == (message.pk, message.group_id)
    assert (item.label, item.cause, item.state) == (Label.AD, Cause.FLAGGED, ReviewState.OPEN)
    assert item.priority == pytest.approx(0.5 * 0.04)


def test_every_batch_of_new_verdicts_is_taken_in() -> None:
    feed_sinks([judged(MessageFactory())])
    assert ReviewItem.objects.count() == 1


def test_undetermined_message_waits_without_a_label() -> None:
    take_in([judged(MessageFactory(), label=None, acting_label=None, scores=None)])
    item = ReviewItem.objects.get()
    assert (item.label, item.cause) == (None, Cause.UNDETERMINED)
    assert item.priority == UNDETERMINED_PRIORITY


def test_rule_without_scores_is_taken_at_its_word() -> None:
    take_in([judged(MessageFactory(), label=Label.TOXIC, acting_label=Label.TOXIC, scores=None)])
    assert ReviewItem.objects.get().priority == 1.0


@pytest.mark.parametrize("action", [Action.ALLOW, Action.REMOVE])
def test_what_the_policy_is_sure_of_does_not_wait(action: Action) -> None:
    take_in([judged(MessageFactory(), action=action)])
    assert not ReviewItem.objects.exists()


def test_newer_revision_withdraws_the_item_of_the_older_one() -> None:
    old = ReviewItemFactory()
    other = ReviewItemFactory()
    new = MessageFactory(group=old.message.group, external_id=old.message.external_id, revision=2)
    take_in([judged(new)])
    states = dict(ReviewItem.objects.values_list("pk", "state"))
    assert states == {
        old.pk: ReviewState.WITHDRAWN,
        new.pk: ReviewState.OPEN,
        other.pk: ReviewState.OPEN,
    }


def test_newer_revision_that_is_fine_withdraws_the_older_one_too() -> None:
    old = ReviewItemFactory()
    new = MessageFactory(group=old.message.group, external_id=old.message.external_id, revision=2)
    take_in([judged(new, action=Action.ALLOW, acting_label=None)])
    assert ReviewItem.objects.get().state == ReviewState.WITHDRAWN


def test_second_verdict_that_decides_takes_the_item_out() -> None:
    item = ReviewItemFactory(label=None, cause=Cause.UNDETERMINED)
    take_in([judged(item.message, action=Action.ALLOW, label=Label.OK, acting_label=None)])
    item.refresh_from_db()
    assert (item.state, item.version) == (ReviewState.WITHDRAWN, 2)


def test_second_verdict_that_holds_renews_the_item_and_its_version() -> None:
    item = ReviewItemFactory(label=None, cause=Cause.UNDETERMINED)
    lease = open_next(UserFactory())
    take_in([judged(item.message)])
    item.refresh_from_db()
    assert (item.label, item.cause, item.version) == (Label.SPAM, Cause.FLAGGED, 2)
    assert item.lease_token == lease.token


def test_what_people_decided_stays_decided() -> None:
    item = ReviewItemFactory(state=ReviewState.DECIDED)
    take_in([judged(item.message)])
    take_in([judged(item.message, action=Action.ALLOW)])
    item.refresh_from_db()
    assert (item.state, item.version) == (ReviewState.DECIDED, 1)


@contextmanager
def statements() -> Iterator[list[int]]:
    """How many go to PostgreSQL, also those that do not pass through Django's cursor."""
    sent: list[int] = []
    pgconn = connection.connection.pgconn
    with TemporaryFile("w+") as trace:
        pgconn.trace(trace.fileno())
        try:
            yield sent
        finally:
            pgconn.untrace()
        trace.seek(0)
        words = [line.split("\t") for line in trace]
        sent.append(sum({"Query", "Execute"} & set(w) != set() and "F" in w for w in words))


def test_number_of_statements_does_not_grow_with_the_batch() -> None:
    group = GroupFactory()
    texts = ["the first kind of offer for everybody", "another thing that is said here", "short"]
    batches = [
        [
            judged(
                MessageFactory(
                    group=group, text=texts[at % 3] if n == 3 else f"{texts[at % 3]} {n}"
                )
            )
            for at in range(n)
        ]
        for n in (3, 60)
    ]
    counts = []
    for batch in batches:
        with statements() as sent:
            take_in(batch)
        counts.append(sum(sent))
    # Three more when a wave is new: those who may be making the same one are waited for.
    assert counts == [8, 5]
    assert ReviewItem.objects.count() == 63


def test_deleted_messages_are_withdrawn_and_their_leases_with_them() -> None:
    item = ReviewItemFactory(verdict__message__deleted_at=timezone.now())
    decided = ReviewItemFactory(state=ReviewState.DECIDED)
    assert withdraw(message_ids=[item.pk, decided.pk, 5]) == 1
    item.refresh_from_db()
    decided.refresh_from_db()
    assert (item.state, decided.state) == (ReviewState.WITHDRAWN, ReviewState.DECIDED)
