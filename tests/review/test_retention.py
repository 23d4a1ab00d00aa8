"""Old messages go with all that hangs on them; what concerns somebody stays."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import connection
from django.utils import timezone
from pytest_django.fixtures import Settings

from apps.audit.models import ActorKind, AuditEvent
from apps.audit.services import Actor
from apps.chat.models import CHUNK_ID_BITS, Chunk, Deletion, Message, Sender
from apps.chat.services import (
    NewMessage,
    delete_message,
    forget_deletions,
    forget_senders,
    ingest_messages,
)
from apps.policies.models import Action, Label
from apps.review import tasks
from apps.review.models import (
    Appeal,
    AppealState,
    Check,
    CheckKind,
    CheckOutcome,
    Decision,
    Gold,
    ReviewItem,
    ReviewState,
    Skip,
)
from apps.review.services.retention import expire, expire_batch, forget_absent
from apps.scoring.models import Verdict
from tests.factories import (
    MessageFactory,
    ReviewItemFactory,
    UserFactory,
    VerdictFactory,
    active_release,
)

pytestmark = pytest.mark.django_db

NOW = timezone.now()
CUTOFF = NOW - timedelta(days=30)
OLD = NOW - timedelta(days=31)


def old_message(**kwargs: Any) -> Message:
    """Judged, and nobody's concern."""
    return VerdictFactory(message=MessageFactory(received_at=OLD, **kwargs)).message


def old_item(state: ReviewState, **kwargs: Any) -> ReviewItem:
    verdict = VerdictFactory(message=MessageFactory(received_at=OLD))
    return ReviewItemFactory(verdict=verdict, state=state, **kwargs)


def decide(item: ReviewItem, at: datetime) -> Decision:
    return Decision.objects.create(
        item=item,
        moderator=UserFactory(),
        action=Action.REMOVE,
        label=Label.SPAM,
        note="their address is in it",
        lease_token=uuid4(),
        decided_at=at,
    )


def remove_old() -> int:
    return expire(before=CUTOFF, for_s=60)


def stored_ids() -> set[int]:
    return set(Message.objects.values_list("pk", flat=True))


def test_old_message_goes_with_all_that_hangs_on_it() -> None:
    item = old_item(ReviewState.DECIDED)
    decide(item, OLD)
    Skip.objects.create(item=item, moderator=UserFactory(), until=OLD)
    assert remove_old() == 1
    for model in (Message, Verdict, ReviewItem, Decision, Skip):
        assert not model._default_manager.exists(), model


def test_reversed_decisions_go_too() -> None:
    item = old_item(ReviewState.DECIDED)
    first = decide(item, OLD)
    Decision.objects.filter(pk=first.pk).update(undone_at=OLD)
    Decision.objects.create(
        item=item,
        moderator=first.moderator,
        action=Action.ALLOW,
        label=Label.OK,
        reverses=first,
        decided_at=OLD,
    )
    assert remove_old() == 1
    assert not Decision.objects.exists()


def test_all_that_the_models_say_points_at_a_message_is_emptied() -> None:
    """Also tables that were added since: whatever row of theirs names a message that is gone."""
    kept, gone = old_item(ReviewState.OPEN), old_item(ReviewState.WITHDRAWN)
    remove_old()
    with connection.cursor() as cursor:
        for relation in Message._meta.get_fields(include_hidden=True):
            if not (relation.auto_created and (relation.one_to_many or relation.one_to_one)):
                continue
            table, column = relation.field.model._meta.db_table, relation.field.column
            cursor.execute(f'SELECT "{column}" FROM "{table}"')
            assert {row[0] for row in cursor.fetchall()} <= {kept.pk}, table
    assert stored_ids() == {kept.pk}
    assert gone.pk not in stored_ids()


def test_message_younger_than_the_cutoff_stays() -> None:
    young = VerdictFactory(message=MessageFactory(received_at=CUTOFF + timedelta(seconds=1)))
    assert remove_old() == 0
    assert stored_ids() == {young.message_id}


def test_message_that_waits_for_its_verdict_stays() -> None:
    message = MessageFactory(received_at=OLD)
    Chunk.objects.create(pk=message.pk >> CHUNK_ID_BITS, size=1)
    assert remove_old() == 0
    Chunk.objects.all().delete()
    assert remove_old() == 1


def test_message_that_waits_for_a_person_stays() -> None:
    item = old_item(ReviewState.OPEN)
    assert remove_old() == 0
    assert stored_ids() == {item.pk}


def test_message_that_was_decided_or_taken_back_lately_stays() -> None:
    decided, undone = old_item(ReviewState.DECIDED), old_item(ReviewState.WITHDRAWN)
    decide(decided, NOW)
    Decision.objects.filter(pk=decide(undone, OLD).pk).update(undone_at=NOW)
    assert remove_old() == 0
    assert stored_ids() == {decided.pk, undone.pk}


def test_message_that_was_appealed_lately_stays() -> None:
    item = old_item(ReviewState.DECIDED)
    appeal = Appeal.objects.create(
        item=item,
        decision=decide(item, OLD),
        action=Action.REMOVE,
        label=Label.SPAM,
        text="that was no spam",
        state=AppealState.UPHELD,
        opened_at=OLD,
        decided_at=NOW,
    )
    assert remove_old() == 0
    Appeal.objects.filter(pk=appeal.pk).update(decided_at=OLD)
    assert remove_old() == 1
    assert not Appeal.objects.exists()


def test_known_answer_stays_while_it_is_in_use() -> None:
    item = old_item(ReviewState.DECIDED)
    gold = Gold.objects.create(
        item=item, action=Action.REMOVE, label=Label.SPAM, made_by=UserFactory(), made_at=OLD
    )
    assert remove_old() == 0
    Gold.objects.filter(pk=gold.pk).update(retired_at=OLD)
    assert remove_old() == 1
    assert not Gold.objects.exists()


def test_unsettled_second_review_stays() -> None:
    item = old_item(ReviewState.DECIDED)
    check = Check.objects.create(
        kind=CheckKind.SECOND, item=item, first=decide(item, OLD), due_at=OLD
    )
    assert remove_old() == 0
    Check.objects.filter(pk=check.pk).update(outcome=CheckOutcome.DISAGREED)
    assert remove_old() == 0
    Check.objects.filter(pk=check.pk).update(outcome=CheckOutcome.SETTLED)
    assert remove_old() == 1
    assert not Check.objects.exists()


def test_batches_are_bounded_and_go_on_behind_what_stays() -> None:
    stays = old_item(ReviewState.OPEN)
    old = [old_message() for _ in range(5)]
    first = expire_batch(before=CUTOFF, messages=3)
    assert (first.removed, first.last_id) == (2, old[1].pk)
    second = expire_batch(before=CUTOFF, after_id=old[1].pk, messages=4)
    assert (second.removed, second.last_id) == (3, None)
    assert stored_ids() == {stays.pk}


def test_what_does_not_fit_into_the_time_is_left_for_the_next_time() -> None:
    for _ in range(3):
        old_message()
    # One batch is always looked at, so that a slow machine gets on too.
    assert expire(before=CUTOFF, for_s=0) == 3


def test_every_batch_stands_in_the_audit_log_without_text() -> None:
    ids = [old_message(text="my secret").pk for _ in range(3)]
    expire_batch(before=CUTOFF, messages=2)
    event = AuditEvent.objects.get()
    assert (event.actor_kind, event.action) == (ActorKind.SYSTEM, "messages.expired")
    assert event.after == {
        "messages": 2,
        "first_id": ids[0],
        "last_id": ids[1],
        "received_before": CUTOFF.isoformat(),
    }


def test_nothing_to_remove_leaves_no_audit_event() -> None:
    assert remove_old() == 0
    assert not AuditEvent.objects.exists()


def test_everything_is_kept_without_the_setting(settings: Settings) -> None:
    settings.RETENTION_DAYS = 0
    old_message()
    tasks.expire_messages()
    tasks.forget_absent()
    assert Message.objects.count() == 1
    settings.RETENTION_DAYS = 30
    tasks.expire_messages()
    assert not Message.objects.exists()


def test_sender_goes_with_the_last_message(settings: Settings) -> None:
    silent, talking = old_message().sender, MessageFactory().sender
    new = Sender.objects.create(external_id="has not written yet")
    Sender.objects.exclude(pk=new.pk).update(created_at=OLD)
    remove_old()
    settings.RETENTION_DAYS = 30
    tasks.forget_absent()
    assert set(Sender.objects.all()) == {talking, new}
    assert silent not in Sender.objects.all()
    [forgotten] = AuditEvent.objects.filter(action="senders.forgotten")
    assert forgotten.after["rows"] == 1


def test_forgotten_sender_who_writes_again_is_a_new_one() -> None:
    message = NewMessage(group="kitchen", external_id="m1", sender="ann", text="hello")
    ingest_messages(messages=[message])  # and the process remembers Ann
    Chunk.objects.all().delete()
    Message.objects.update(received_at=OLD)
    Sender.objects.update(created_at=OLD)
    remove_old()
    assert forget_absent(before=CUTOFF) == 1
    [again] = ingest_messages(messages=[message])
    assert Message.objects.get(pk=again.id).sender.external_id == "ann"


def test_senders_are_walked_in_bounded_batches() -> None:
    senders = [Sender.objects.create(external_id=str(n), created_at=OLD) for n in range(3)]
    first = forget_senders(before=CUTOFF, rows=2)
    assert (first.removed, first.last_id) == (2, senders[1].pk)
    assert forget_senders(before=CUTOFF, after_id=senders[1].pk, rows=2).last_id is None
    assert not Sender.objects.exists()


def test_mark_of_a_deletion_stays_as_long_as_its_message() -> None:
    active_release()
    message = old_message()
    delete_message(
        group=message.group.external_id, external_id=message.external_id, actor=Actor.system("test")
    )
    Deletion.objects.update(deleted_at=OLD)
    assert forget_deletions(before=CUTOFF).removed == 0
    remove_old()
    assert forget_deletions(before=CUTOFF).removed == 1


@contextmanager
def another_connection() -> Iterator[psycopg.Connection[Any]]:
    params = connection.get_connection_params()
    with psycopg.connect(
        **{k: params[k] for k in ("dbname", "user", "password", "host", "port") if k in params}
    ) as other:
        yield other


@pytest.mark.django_db(transaction=True)
def test_item_that_somebody_has_locked_is_left_for_next_time() -> None:
    busy, free = old_item(ReviewState.DECIDED), old_item(ReviewState.DECIDED)
    with another_connection() as other:
        other.execute("SELECT FROM review_reviewitem WHERE message_id = %s FOR UPDATE", [busy.pk])
        assert remove_old() == 1
    assert stored_ids() == {busy.pk}
    assert free.pk not in stored_ids()
    assert remove_old() == 1


@pytest.mark.django_db(transaction=True)
def test_second_run_at_the_same_time_does_nothing() -> None:
    old_message()
    with another_connection() as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [0x43575245])
        assert remove_old() == 0
    assert remove_old() == 1


@pytest.mark.django_db(transaction=True)
def test_what_a_killed_run_had_begun_is_whole() -> None:
    item = old_item(ReviewState.DECIDED)
    decide(item, OLD)
    with another_connection() as other:
        # Fails at the last statement: all the rest is done by then, as when the process dies.
        other.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'killed'; END $$;"
            " CREATE TRIGGER refuse BEFORE INSERT ON audit_auditevent"
            " FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
        other.commit()
        try:
            with pytest.raises(Exception, match="killed"):
                remove_old()
            assert Decision.objects.count() == Verdict.objects.count() == 1
            assert stored_ids() == {item.pk}
        finally:
            other.execute("DROP TRIGGER refuse ON audit_auditevent; DROP FUNCTION refuse()")
    assert remove_old() == 1


@pytest.mark.django_db(transaction=True)
def test_sender_who_writes_between_the_two_looks_stays() -> None:
    """The second look, with arrivals kept out, is not for all messages there are."""
    ann = Sender.objects.create(external_id="ann", created_at=OLD)
    gone = Sender.objects.create(external_id="gone", created_at=OLD)
    message = NewMessage(group="kitchen", external_id="m1", sender="ann", text="hello")
    statements: list[str] = []

    def arrive() -> None:
        try:
            ingest_messages(messages=[message])
        finally:
            connection.close()

    def watch(execute: Any, sql: str, *rest: Any) -> Any:
        if "advisory" in sql and any("EXISTS" in earlier for earlier in statements):
            with ThreadPoolExecutor(1) as threads:
                threads.submit(arrive).result()
            statements.clear()
        statements.append(sql)
        return execute(sql, *rest)

    with connection.execute_wrapper(watch):
        assert forget_senders(before=CUTOFF).removed == 1
    assert list(Sender.objects.all()) == [ann]
    assert not Sender.objects.filter(pk=gone.pk).exists()
    assert "advisory" in statements[0]
    assert not any("EXISTS" in sql for sql in statements), "arrivals wait for a look at everything"
