"""A sender is erased everywhere: nothing that they said, or are called, is left in any column.

A marker is planted wherever a backend or a moderator can put words, goes all the ways that words
go, and is then looked for in every column of every table and in every key of Redis.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
import redis
from django.conf import settings as django_settings
from django.db import connection, transaction
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.audit.services import Actor
from apps.chat.models import Chunk, Erasure, Message, Sender
from apps.chat.services import NewMessage, Outcome, ingest_messages
from apps.policies.models import Action, Label
from apps.review.grams import indexed
from apps.review.models import (
    Check,
    CheckAnswer,
    Decision,
    ReportReason,
    ReviewItem,
    ReviewState,
    Strike,
)
from apps.review.near_duplicates import essence, prints
from apps.review.queue import QueueFilters
from apps.review.services import checks, serving
from apps.review.services.appeals import decide_appeal, open_appeal
from apps.review.services.checks import Shares
from apps.review.services.decisions import Choice
from apps.review.services.erasure import (
    BATCH_MESSAGES,
    carry_on,
    erase_message,
    request_erasure,
)
from apps.review.services.leases import open_item
from apps.review.services.reports import report_message
from apps.review.services.subjects import Subject
from apps.scoring.claims import Claimer, fetch_messages
from apps.scoring.models import Source, Verdict
from apps.scoring.pipeline import Pipeline
from apps.scoring.samples import write_sample
from apps.scoring.sinks import StoredVerdict
from apps.scoring.verdicts import Timing, store_verdicts
from apps.webhooks.models import OutboxEvent
from apps.webhooks.services import release_due
from tests.factories import UserFactory, VerdictFactory, default_policy_version, rules_release
from tests.scoring.conftest import Say
from tests.scoring.test_pipeline import publish_spam_threshold

ACTOR = Actor.system("test")
PLENTY_S = 60.0
MARK = "zqxjvkwbplomgy"
# Held as spam by the scripted model, and long enough to have a print and grams.
SAID = f"spam {MARK} come and see what nobody else has seen before"

_numbers = count()


def sent(text: str = SAID, sender: str = MARK, **fields: Any) -> NewMessage:
    name = f"Name {MARK}" if sender == MARK else "Bob"
    return NewMessage(
        **{
            "group": "g",
            "external_id": f"m-{next(_numbers)}",
            "sender": sender,
            "sender_name": name,
            "text": text,
            **fields,
        }
    )


def ingest(*messages: NewMessage) -> list[int]:
    return [one.id for one in ingest_messages(messages=messages)]


# ---------- looking everywhere ----------


def columns() -> list[tuple[str, str, str]]:
    """Every column there is: table, name, type."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name, udt_name FROM information_schema.columns"
            " JOIN information_schema.tables USING (table_schema, table_name)"
            " WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
        )
        return cursor.fetchall()


def places(mark: str = MARK) -> set[str]:
    """The columns that hold the marker, whatever their type, or what it is searched by."""
    found = set()
    with connection.cursor() as cursor:
        for table, column, kind in columns():
            name = f'"{table}"."{column}"'
            test = f"{name}::text ILIKE %s"
            values: list[Any] = [f"%{mark}%"]
            if kind == "bytea":
                test, values = f"position(%s::bytea IN {name}) > 0", [mark.encode()]
            elif kind == "_int4":
                test, values = f"{name} @> %s::int[]", [indexed(mark)]
            cursor.execute(f'SELECT EXISTS (SELECT FROM "{table}" WHERE {test})', values)
            if cursor.fetchone()[0]:
                found.add(f"{table}.{column}")
    return found


def kept_in_redis() -> str:
    """All that Redis holds of ours, values and keys."""
    client = redis.Redis.from_url(django_settings.REDIS_URL)
    read = {
        b"string": client.get,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": client.smembers,
        b"hash": client.hgetall,
        b"zset": lambda key: client.zrange(key, 0, -1),
        b"stream": client.xrange,
    }
    try:
        return repr([(key, read[client.type(key)](key)) for key in client.scan_iter("*")])
    finally:
        client.close()


# ---------- a life ----------


@pytest.fixture
def bob(in_force: None) -> User:
    return UserFactory(username="bob")


@pytest.fixture
def ann(in_force: None) -> User:
    return UserFactory(username="ann")


@pytest.fixture
def lived(pipeline: Pipeline, ann: User, bob: User) -> dict[str, NewMessage]:
    """The marker's sender wrote, was judged, reviewed, reported, struck, appealed, quoted."""
    publish_spam_threshold(0.5, 0.99)
    checks.set_shares(UserFactory(role=Role.LEAD), Shares(1.0, 0.0))
    said = {
        "decided": sent(metadata=msgspec.Raw(f'{{"{MARK}": ["{MARK}"]}}'.encode())),
        "open": sent(reply_to=MARK, quoted_text=f"as {MARK} said"),
        "leased": sent(f"spam {MARK} something else altogether, and at some length, too"),
        "allowed": sent(f"hello {MARK}"),
        "away": sent(f"hello again {MARK}"),
    }
    edited = msgspec.structs.replace(said["decided"], revision=2, text=f"{SAID} now")
    quoting = sent(
        "spam yes", "bob", reply_to=said["open"].external_id, quoted_text=f"{SAID}, they said"
    )
    ids = dict(
        zip([*said, "edited", "quoting"], ingest(*said.values(), edited, quoting), strict=True)
    )
    away = Message.objects.get(pk=ids["away"])
    VerdictFactory(message=away, release=rules_release(), source=Source.FALLBACK)
    assert pipeline.drain(for_s=PLENTY_S) == 7
    write_sample(pipeline._measured.take_sample(()))

    reported = {"reason": ReportReason.SPAM, "actor": ACTOR}
    note = f"they wrote {MARK}"
    report_message(Subject(ids["allowed"]), reporter="r-1", note=note, **reported)
    report_message(Subject(ids["quoting"]), reporter=MARK, note=note, **reported)
    _decide(ann, ids["edited"], strike=True)
    # The strike is told; what is said about the appeal waits.
    OutboxEvent.objects.update(available_at=timezone.now())
    release_due()
    _appeal(bob, ids["edited"])
    _check(bob)
    open_item(ann, ids["leased"])
    return {**said, "edited": edited, "quoting": quoting}


def _decide(user: User, item_id: int, **more: Any) -> None:
    lease = open_item(user, item_id)
    choice = Choice(Action.REMOVE, Label.SPAM, f"for {MARK}")
    serving.decide(user, item_id, token=lease.token, version=lease.version, choice=choice, **more)


def _appeal(user: User, message_id: int) -> None:
    long_after = timezone.now() + timedelta(hours=1)
    words = f"I am {MARK}"
    open_appeal(Subject(message_id), appellant=MARK, text=words, actor=ACTOR, now=long_after)
    lease = open_item(user, message_id)
    decide_appeal(
        user,
        message_id,
        token=lease.token,
        version=lease.version,
        choice=Choice(Action.REMOVE, Label.SPAM, f"{MARK} it stays"),
    )


def _check(user: User) -> None:
    Check.objects.update(due_at=timezone.now() - timedelta(seconds=1))
    lease = checks.take(user, checks.CheckKind.SECOND, QueueFilters(), timezone.now())
    assert lease is not None
    choice = Choice(Action.ALLOW, Label.OK, f"no, {MARK} is fine")
    serving.decide(user, lease.item_id, token=lease.token, version=lease.version, choice=choice)


def erase_sender(external_id: str = MARK) -> Erasure:
    erasure = request_erasure(external_id, by=ACTOR)
    while not carry_on(for_s=PLENTY_S):
        continue
    erasure.refresh_from_db()
    return erasure


PLANTED = {
    "chat_message.text",
    "chat_message.quoted_text",
    "chat_message.reply_to",
    "chat_message.metadata",
    "chat_sender.external_id",
    "chat_sender.name",
    "review_appeal.appellant",
    "review_appeal.reason",
    "review_appeal.text",
    "review_checkanswer.note",
    "review_decision.note",
    "review_report.note",
    "review_report.reporter",
    "review_reviewitem.grams",
    "webhooks_outboxevent.payload",
}


@pytest.mark.usefixtures("lived")
def test_nothing_of_an_erased_sender_is_left_anywhere() -> None:
    assert places() == PLANTED  # else the search below would prove nothing
    erasure = erase_sender()
    assert places() == set()
    assert MARK not in kept_in_redis()
    assert erasure.finished_at is not None
    assert erasure.messages == 6
    assert erasure.sender_id is None
    assert set(Sender.objects.values_list("external_id", flat=True)) == {"", "bob"}
    assert not Strike.objects.exists()


@pytest.mark.usefixtures("lived")
def test_no_print_of_an_erased_text_is_left_in_a_wave() -> None:
    (printed,) = prints([essence(SAID)])
    assert printed is not None
    assert _signatures() & {printed.signature}
    erase_sender()
    assert not _signatures() & {printed.signature}


def _signatures() -> set[bytes]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT signature FROM review_wave")
        return {bytes(signature) for (signature,) in cursor.fetchall()}


def test_nothing_of_an_erased_message_is_left_anywhere(lived: dict[str, NewMessage]) -> None:
    for name in ("decided", "open", "leased", "allowed", "away", "quoting"):
        erase_message(group="g", external_id=lived[name].external_id, by=ACTOR)
    # The person is still there.
    assert places() == {
        "chat_sender.external_id",
        "chat_sender.name",
        "webhooks_outboxevent.payload",
    }


@pytest.mark.usefixtures("lived")
def test_what_was_decided_stays_on_record() -> None:
    before = _record()
    erase_sender()
    assert _record() == before
    assert (
        not ReviewItem.objects.filter(state=ReviewState.OPEN)
        .exclude(message__sender__external_id="bob")
        .exists()
    )


def _record() -> list[Any]:
    return [
        list(Decision.objects.order_by("pk").values_list("item", "moderator", "action", "label")),
        list(CheckAnswer.objects.order_by("pk").values_list("item", "action", "label")),
        list(Verdict.objects.order_by("message").values_list("message", "label", "action")),
    ]


@pytest.mark.usefixtures("lived")
def test_what_others_said_is_left_alone() -> None:
    erase_sender()
    kept = Message.objects.get(sender__external_id="bob")
    assert (kept.text, kept.quoted_text, kept.deleted_at) == ("spam yes", "", None)
    assert kept.reply_to != ""
    assert ReviewItem.objects.get(pk=kept.pk).state == ReviewState.OPEN


# ---------- what comes later ----------


@pytest.mark.parametrize("what", ["decided", "edited", "open", "away"])
def test_repeat_of_an_erased_message_brings_nothing_back(
    lived: dict[str, NewMessage], what: str
) -> None:
    erase_sender()
    (again,) = ingest_messages(messages=[lived[what]])
    assert (again.outcome, again.is_deleted) == (Outcome.REPEATED, True)
    assert places() == set()


def test_later_revision_of_an_erased_message_is_stored_empty(
    lived: dict[str, NewMessage],
) -> None:
    erase_sender()
    later = msgspec.structs.replace(lived["decided"], revision=9, quoted_text=MARK, reply_to=MARK)
    (stored,) = ingest_messages(messages=[later])
    assert (stored.outcome, stored.is_deleted) == (Outcome.NEW, True)
    assert places() == set()
    assert not Chunk.objects.exists()


def test_message_that_is_erased_before_it_comes_is_stored_empty() -> None:
    coming = sent(quoted_text=MARK, metadata=msgspec.Raw(f'{{"a": "{MARK}"}}'.encode()))
    erase_message(group="g", external_id=coming.external_id, by=ACTOR)
    (stored,) = ingest_messages(messages=[coming])
    assert (stored.outcome, stored.is_deleted) == (Outcome.NEW, True)
    assert places() == set()


def test_quotation_of_an_erased_message_is_not_stored(lived: dict[str, NewMessage]) -> None:
    erase_sender()
    late = sent("really?", "bob", reply_to=lived["open"].external_id, quoted_text=f"{MARK} said")
    (stored,) = ingest_messages(messages=[late])
    assert places() == set()
    assert Message.objects.get(pk=stored.id).text == "really?"


def test_repeat_of_a_reply_whose_quotation_was_erased_is_a_repeat(
    lived: dict[str, NewMessage],
) -> None:
    erase_sender()
    quoting = lived["quoting"]
    (again,) = ingest_messages(messages=[quoting])
    assert (again.outcome, again.is_deleted) == (Outcome.REPEATED, False)
    other = msgspec.structs.replace(quoting, text="spam no")
    (conflict,) = ingest_messages(messages=[other])
    assert conflict.outcome is Outcome.CONFLICT
    assert places() == set()


def test_erased_sender_who_writes_again_is_somebody_new() -> None:
    (old,) = ingest(sent())
    erase_sender()
    (new,) = ingest(sent(f"hello {MARK}"))
    senders = dict(Message.objects.values_list("pk", "sender__external_id"))
    assert senders == {old: "", new: MARK}


def test_repeat_while_a_sender_is_being_erased_leaves_no_name() -> None:
    first = sent()
    ingest(first)
    erasure = request_erasure(MARK, by=ACTOR)
    (again,) = ingest_messages(messages=[first])
    assert (again.outcome, again.is_deleted) == (Outcome.REPEATED, True)
    assert carry_on(for_s=PLENTY_S)
    erasure.refresh_from_db()
    assert erasure.finished_at is not None
    assert places() == set()


# ---------- while it is judged ----------


def test_worker_that_holds_the_text_writes_nothing_of_it(say: Say) -> None:
    (erased_id, other_id) = say(SAID, "spam of somebody else, which is to be kept and judged")
    claim = Claimer().claim(100)
    assert claim is not None
    messages = fetch_messages(claim, release_id=1)
    external_id = Message.objects.get(pk=erased_id).external_id
    erase_message(group="kitchen", external_id=external_id, by=ACTOR)

    version = default_policy_version()
    verdicts = [
        StoredVerdict(
            message.id,
            message.group_id,
            1,
            version.pk,
            Source.MODEL,
            Label.SPAM,
            Action.HOLD,
            Label.SPAM,
            (0.1, 0.7, 0.1, 0.1),
            (),
        )
        for message in messages
    ]
    stored = store_verdicts(
        claim=claim, verdicts=verdicts, timings=[Timing(1, 1, 1)] * len(verdicts)
    )
    assert [v.message_id for v in stored.verdicts] == [other_id]
    assert list(ReviewItem.objects.values_list("pk", flat=True)) == [other_id]
    assert places() == set()


@contextmanager
def held(statement: str, *values: object) -> Iterator[None]:
    """Somebody else has locked rows, until the block ends."""
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute(statement, values)
        yield
        other.rollback()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT id FROM chat_chunk FOR UPDATE",
        "SELECT id FROM chat_message FOR UPDATE",
        "SELECT id FROM review_wave FOR UPDATE",
        "SELECT message_id FROM review_reviewitem FOR UPDATE",
    ],
)
def test_what_others_are_at_is_left_for_later_and_not_waited_for(
    say: Say, pipeline: Pipeline, statement: str
) -> None:
    publish_spam_threshold(0.5, 0.99)
    say(SAID)
    pipeline.drain(for_s=PLENTY_S)
    say("hello")  # waits: there is a chunk
    erasure = request_erasure("ann", by=ACTOR)
    with held(statement):
        assert not carry_on(for_s=0)
        assert not carry_on(for_s=0)
        erasure.refresh_from_db()
        assert erasure.messages < 2
    while not carry_on(for_s=PLENTY_S):
        continue
    erasure.refresh_from_db()
    assert (erasure.messages, places()) == (2, set())


def test_erasure_that_died_half_way_is_carried_on(say: Say) -> None:
    say(*[f"{SAID} {n}" for n in range(450)])
    request_erasure("ann", by=ACTOR)
    assert not carry_on(for_s=0)  # one batch
    with pytest.raises(KeyboardInterrupt):
        _die_before_committing()
    left = Message.objects.exclude(text="").count()
    assert left == 250
    assert carry_on(for_s=PLENTY_S)
    assert places() == set()
    assert Erasure.objects.get().messages == 450


def _die_before_committing() -> None:
    with transaction.atomic():
        carry_on(for_s=0)
        raise KeyboardInterrupt


def test_two_that_erase_at_once_erase_each_message_once(say: Say) -> None:
    say(*[f"{SAID} {n}" for n in range(600)])
    request_erasure("ann", by=ACTOR)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            carry_on(for_s=PLENTY_S)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    while not carry_on(for_s=PLENTY_S):
        continue
    assert Erasure.objects.get().messages == 600
    assert places() == set()


def test_erasure_whose_process_is_killed_is_carried_on(
    process_environment: dict[str, str], say: Say
) -> None:
    for _ in range(4):
        say(*[f"{SAID} {n}" for n in range(900)])
    command = [sys.executable, "manage.py", "erase_sender", "ann"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, env=process_environment, cwd=root) as process:
        while not Erasure.objects.filter(messages__gt=0).exists():
            assert process.poll() is None
        process.kill()
    done = Erasure.objects.get().messages
    assert done % BATCH_MESSAGES == 0
    assert Message.objects.exclude(text="").count() == 3600 - done > 0
    assert Message.objects.filter(sender__external_id="").count() == done
    while not carry_on(for_s=PLENTY_S):
        continue
    assert Erasure.objects.get().messages == 3600
    assert places() == set()
