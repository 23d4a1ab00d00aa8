"""Ingest: each key once, answers in order, whatever comes at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec
import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.audit.models import AuditEvent
from apps.audit.services import Actor
from apps.chat.models import CHUNK_ID_BITS, Chunk, Deletion, Group, Message, Sender
from apps.chat.services import Ingested, NewMessage, Outcome, delete_message, ingest_messages

ACTOR = Actor.system("test")


def message(external_id: str = "m-1", **fields: Any) -> NewMessage:
    return NewMessage(
        **{"group": "g", "external_id": external_id, "sender": "s", "text": "hello", **fields}
    )


def ingest(*messages: NewMessage) -> list[Ingested]:
    return ingest_messages(messages=messages)


def in_threads(calls: Iterable[Callable[[], Any]]) -> list[Any]:
    """Runs all calls at once, each on a connection of its own; returns what they returned."""
    calls = list(calls)
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        try:
            barrier.wait()
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


@pytest.mark.django_db
class TestIngest:
    def test_answers_come_in_order_and_name_the_stored_rows(self) -> None:
        stored = ingest(*[message(f"m-{n}", text=f"text {n}") for n in range(40)])

        texts = dict(Message.objects.values_list("id", "text"))
        assert [texts[one.id] for one in stored] == [f"text {n}" for n in range(40)]
        assert {one.outcome for one in stored} == {Outcome.NEW}

    def test_every_field_is_kept(self) -> None:
        sent_at = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
        [one] = ingest(
            message(
                revision=7,
                sender_name="Ada 🧙",
                text="加微信 \u202e\ufeff:'\"\\",
                quoted_text="what",
                reply_to="m-0",
                metadata=msgspec.Raw(b'{"room":{"n":1.5}}'),
                sent_at=sent_at,
            )
        )

        row = Message.objects.select_related("group", "sender").get(pk=one.id)
        assert (row.group.external_id, row.external_id, row.revision) == ("g", "m-1", 7)
        assert (row.sender.external_id, row.sender.name) == ("s", "Ada 🧙")
        assert row.text == "加微信 \u202e\ufeff:'\"\\"
        assert (row.quoted_text, row.reply_to) == ("what", "m-0")
        assert row.metadata == {"room": {"n": 1.5}}
        assert row.sent_at == sent_at
        assert row.deleted_at is None

    def test_nothing_asks_nothing_of_the_database(self, django_assert_num_queries: Any) -> None:
        with django_assert_num_queries(0):
            assert ingest() == []

    def test_a_chunk_counts_what_waits_in_its_block(self) -> None:
        stored = ingest(*[message(f"m-{n}") for n in range(600)])

        chunks = {chunk.id: chunk.size for chunk in Chunk.objects.all()}
        blocks = [one.id >> CHUNK_ID_BITS for one in stored]
        assert sorted(chunks.values()) == [88, 256, 256]
        assert {block: blocks.count(block) for block in blocks} == chunks
        assert [one.id for one in stored] == sorted(one.id for one in stored)

    def test_a_repeat_answers_the_first_id_and_stores_nothing(self) -> None:
        [first] = ingest(message())
        chunks = list(Chunk.objects.values())

        [again] = ingest(message())

        assert again == Ingested(first.id, Outcome.REPEATED, is_deleted=False)
        assert Message.objects.count() == 1
        assert list(Chunk.objects.values()) == chunks

    def test_a_repeat_within_one_call_is_one_message(self) -> None:
        first, other, again = ingest(message(), message("m-2"), message())

        assert [first.outcome, again.outcome] == [Outcome.NEW, Outcome.REPEATED]
        assert again.id == first.id != other.id
        assert Chunk.objects.get().size == 2

    @pytest.mark.parametrize(
        "changed", [{"text": "bye"}, {"sender": "other"}, {"quoted_text": "what"}]
    )
    def test_the_same_key_with_other_content_is_a_conflict(self, changed: dict[str, str]) -> None:
        [first] = ingest(message())

        [other] = ingest(message(**changed))

        assert other == Ingested(first.id, Outcome.CONFLICT, is_deleted=False)
        assert Message.objects.get().text == "hello"

    def test_what_is_not_judged_makes_no_conflict(self) -> None:
        ingest(message(reply_to="m-0"))

        [again] = ingest(message(sent_at=datetime.now(UTC), sender_name="Ada"))

        assert again.outcome is Outcome.REPEATED

    def test_an_edit_is_a_revision_of_its_own(self) -> None:
        first, second = ingest(message(), message(revision=2, text="buy gold"))

        assert first.id != second.id
        assert Chunk.objects.get().size == 2

    def test_the_same_id_in_another_group_is_another_message(self) -> None:
        first, second = ingest(message(), message(group="h"))

        assert first.id != second.id
        assert Group.objects.count() == 2

    def test_a_sender_is_made_once_and_takes_its_newest_name(self) -> None:
        ingest(message("m-1", sender_name="Ada"), message("m-2"))
        ingest(message("m-3", sender_name="Ada L."), message("m-4", sender_name=""))

        assert Sender.objects.get().name == "Ada L."

    def test_rows_that_vanished_are_made_again(self) -> None:
        ingest(message())
        Message.objects.all().delete()
        Sender.objects.all().delete()
        Group.objects.all().delete()

        [one] = ingest(message())

        row = Message.objects.select_related("group", "sender").get(pk=one.id)
        assert (row.group.external_id, row.sender.external_id) == ("g", "s")

    def test_what_is_stored_at_the_second_attempt_joins_its_chunk(self) -> None:
        ingest(message("m-1", sender="stays"), message("m-2", sender="goes"))
        Message.objects.all().delete()
        Chunk.objects.all().delete()
        Sender.objects.filter(external_id="goes").delete()

        ingest(message("m-1", sender="stays"), message("m-2", sender="goes"))

        assert Chunk.objects.get().size == 2

    def test_names_of_a_rolled_back_transaction_are_written_again(self) -> None:
        with transaction.atomic():
            ingest(message("m-1", sender_name="Ada", sender="rolled-back"))
            transaction.set_rollback(True)

        [one] = ingest(message("m-2", sender_name="Ada", sender="rolled-back"))

        assert Message.objects.select_related("sender").get(pk=one.id).sender.name == "Ada"


@pytest.mark.django_db
class TestDeletion:
    def test_deletes_every_revision(self) -> None:
        stored = ingest(message(), message(revision=2, text="edit"), message("m-2"))

        deleted = delete_message(group="g", external_id="m-1", actor=ACTOR)

        assert deleted.message_ids == [stored[0].id, stored[1].id]
        assert list(Message.objects.filter(deleted_at=None).values_list("id", flat=True)) == [
            stored[2].id
        ]

    def test_is_remembered_for_revisions_that_come_later(self) -> None:
        ingest(message())
        delete_message(group="g", external_id="m-1", actor=ACTOR)
        waiting = Chunk.objects.count()

        [late] = ingest(message(revision=2, text="edit"))

        assert late.is_deleted
        assert Message.objects.get(pk=late.id).deleted_at is not None
        assert Chunk.objects.count() == waiting

    def test_may_overtake_its_message(self) -> None:
        deleted = delete_message(group="new group", external_id="m-1", actor=ACTOR)

        [late, other] = ingest(message(group="new group"), message("m-2", group="new group"))

        assert deleted.message_ids == []
        assert (late.is_deleted, other.is_deleted) == (True, False)
        assert Chunk.objects.get().size == 1

    def test_a_second_time_changes_nothing(self) -> None:
        ingest(message())
        first = delete_message(group="g", external_id="m-1", actor=ACTOR)
        rows = list(Message.objects.values())

        second = delete_message(group="g", external_id="m-1", actor=ACTOR)

        assert (first.is_new, second.is_new) == (True, False)
        assert second.message_ids == first.message_ids
        assert list(Message.objects.values()) == rows
        assert AuditEvent.objects.filter(action="message.deleted").count() == 1

    def test_a_repeat_of_a_deleted_message_answers_deleted_whatever_it_says(self) -> None:
        [first] = ingest(message())
        delete_message(group="g", external_id="m-1", actor=ACTOR)

        [again] = ingest(message(text="other"))

        assert again == Ingested(first.id, Outcome.REPEATED, is_deleted=True)

    def test_message_text_stays_out_of_the_audit_record(self) -> None:
        ingest(message(text="secret words"))
        delete_message(group="g", external_id="m-1", actor=ACTOR)

        event = AuditEvent.objects.get(action="message.deleted")
        assert "secret words" not in f"{event.before} {event.after} {event.target_id}"


@pytest.mark.django_db(transaction=True)
class TestAtTheSameTime:
    def test_each_key_is_stored_once_and_all_callers_get_its_id(self) -> None:
        messages = [message(f"m-{n}", sender=f"s-{n % 5}", group=f"g-{n % 3}") for n in range(60)]
        shuffled = [messages[k:] + messages[:k] for k in range(0, 60, 10)]

        answers = in_threads([lambda part=part: ingest(*part) for part in shuffled])

        ids: dict[str, set[int]] = {}
        outcomes = []
        for part, stored in zip(shuffled, answers, strict=True):
            for sent, one in zip(part, stored, strict=True):
                ids.setdefault(sent.external_id, set()).add(one.id)
                outcomes.append(one.outcome)
        assert all(len(found) == 1 for found in ids.values())
        assert (outcomes.count(Outcome.NEW), outcomes.count(Outcome.REPEATED)) == (60, 300)
        assert sum(Chunk.objects.values_list("size", flat=True)) == Message.objects.count() == 60
        assert (Group.objects.count(), Sender.objects.count()) == (3, 5)

    def test_no_revision_outlives_a_deletion_that_crosses_it(self) -> None:
        for round_ in range(15):
            key = {"group": f"g-{round_ % 2}", "external_id": f"m-{round_}"}
            arrivals = [
                lambda key=key, revision=revision: ingest(
                    message(**key, revision=revision, text=f"revision {revision}")
                )
                for revision in (1, 2, 3)
            ]
            in_threads([*arrivals, lambda key=key: delete_message(**key, actor=ACTOR)])

        assert Deletion.objects.count() == 15
        assert Message.objects.count() == 45
        assert not Message.objects.filter(deleted_at=None).exists()

    def test_an_arrival_in_flight_is_waited_for_by_its_deletion(self) -> None:
        """The order that goes wrong without the lock, step by step."""
        is_inserted, may_commit = threading.Event(), threading.Event()

        def arrive_slowly() -> None:
            with transaction.atomic():
                ingest(message())
                is_inserted.set()
                assert may_commit.wait(30)

        def delete() -> None:
            assert is_inserted.wait(30)
            delete_message(group="g", external_id="m-1", actor=ACTOR)

        def commit_once_the_deletion_waits() -> None:
            assert is_inserted.wait(30)
            wait_until_a_lock_is_waited_for()
            may_commit.set()

        in_threads([arrive_slowly, delete, commit_once_the_deletion_waits])

        assert Message.objects.get().deleted_at is not None


def wait_until_a_lock_is_waited_for() -> None:
    with connection.cursor() as cursor:
        for _ in count():
            cursor.execute(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            )
            if cursor.fetchone()[0]:
                return


# ---------- any order of arrivals ----------
KEYS = st.tuples(st.sampled_from("gh"), st.sampled_from("xyz"), st.integers(1, 2))
ARRIVALS = st.lists(st.lists(st.tuples(KEYS, st.sampled_from(["a", "b"])), max_size=8), max_size=5)
runs: Iterator[int] = count()


@pytest.mark.django_db
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(calls=ARRIVALS)
def test_the_first_arrival_of_a_key_decides(
    calls: list[list[tuple[tuple[str, str, int], str]]],
) -> None:
    run = next(runs)
    first: dict[tuple[str, str, int], tuple[int, str]] = {}
    for call in calls:
        stored = ingest(
            *[
                message(external_id, group=f"{group}-{run}", revision=revision, text=text)
                for (group, external_id, revision), text in call
            ]
        )
        assert len(stored) == len(call)
        for (key, text), one in zip(call, stored, strict=True):
            if key not in first:
                assert one.outcome is Outcome.NEW
                first[key] = (one.id, text)
            first_id, first_text = first[key]
            assert one.id == first_id
            if one.outcome is not Outcome.NEW:
                expected = Outcome.REPEATED if text == first_text else Outcome.CONFLICT
                assert one.outcome is expected
    rows = Message.objects.filter(group__external_id__endswith=f"-{run}")
    assert {row.id: row.text for row in rows} == dict(first.values())
