"""Erasing messages and senders, with everything that says what they said or who they were.

What was decided stays on record, as ids, labels and actions; words and names of people go.
Where they can be stands in docs/erasure.md; a test looks for them in every column that there is.

A message is erased in one transaction. A sender may have very many, so their name goes at once and
their messages follow, some at a time, each time with all that hangs on them. What is left to do is
what still names the sender: whoever is killed leaves whole messages, and the next one goes on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from apps.accounts.models import ApiKey, User
from apps.accounts.permissions import require_erasing
from apps.audit.services import Actor, record
from apps.chat.locks import keep_arrivals_out
from apps.chat.models import Erasure, Message
from apps.chat.services import erasure as chat
from apps.review.announce import announce
from apps.review.models import (
    Appeal,
    CheckAnswer,
    Decision,
    Report,
    ReviewItem,
    Strike,
    Wave,
)
from apps.review.services import waves
from apps.review.services.appeals import outbox_key
from apps.review.services.intake import withdraw
from apps.scoring.feed import tell_erased
from apps.webhooks.models import EventKind, OutboxEvent

BATCH_MESSAGES = 200
BATCH_WORDS = 1_000
# The shortest that one waits for the next batch.
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Erased:
    """How many rows were taken away (reports) or emptied (appeals, notes)."""

    reports: int
    appeals: int
    notes: int


NOTHING = Erased(0, 0, 0)


@dataclass(frozen=True, slots=True)
class ErasedMessage:
    """`is_new` is False when the message had been erased before."""

    is_new: bool
    message_ids: Sequence[int]


def as_actor(by: User | ApiKey | Actor) -> Actor:
    """Who asks, for the audit record, if they may: whoever has a shell may, as the system.

    Raises:
        PermissionDenied: The user or the key may not erase.
    """
    if isinstance(by, Actor):
        return by
    require_erasing(by)
    return Actor.of_key(by) if isinstance(by, ApiKey) else Actor.of_user(by)


# ---------- one message ----------


@transaction.atomic
def erase_message(*, group: str, external_id: str, by: User | ApiKey | Actor) -> ErasedMessage:
    """Erase every revision of a message, those included that are still to come.

    It is deleted as well, if it was not. It need not exist: what comes under its key later is
    stored empty.

    Args:
        group: The backend's id of the group; made when unknown.
        external_id: The backend's id of the message.
        by: Who asks.

    Raises:
        PermissionDenied: They may not erase.
    """
    actor, now = as_actor(by), timezone.now()
    group_row, revisions = chat.lock_message(group=group, external_id=external_id)
    is_new = chat.mark_erased([(group_row.pk, external_id)], now=now) == 1
    ids = [message.pk for message in revisions]
    if not is_new:
        return ErasedMessage(is_new=False, message_ids=ids)
    wiped = chat.wipe(revisions, now=now)
    _lock_waves(ids)
    _erase_around(wiped, actor)
    record(
        actor=actor,
        action="message.erased",
        target_type="message",
        target_id=ids[-1] if ids else f"group-{group_row.pk}",
        after={"group": group_row.pk, "message_ids": ids, "quoting_ids": list(wiped.quoting_ids)},
    )
    return ErasedMessage(is_new=True, message_ids=ids)


# ---------- a sender ----------


@transaction.atomic
def request_erasure(external_id: str, *, by: User | ApiKey | Actor) -> Erasure:
    """Take a sender's name away now, and have all of theirs erased.

    What a sender writes after this is somebody new's. Asking again while it is under way changes
    nothing; after that, it erases what came since.

    Args:
        external_id: The backend's id of the sender.
        by: Who asks.

    Raises:
        PermissionDenied: They may not erase.
        ValueError: The id is empty, which is nobody's.
    """
    actor = as_actor(by)
    if not external_id:
        raise ValueError("A sender has an id.")
    erasure, is_new = chat.begin_erasure(external_id, actor=actor, now=timezone.now())
    if is_new:
        # Not which id it was: the record can't be erased.
        record(
            actor=actor,
            action="sender.erasure_requested",
            target_type="erasure",
            target_id=erasure.pk,
            after={"sender": erasure.sender_id},
        )
    return erasure


def carry_on(*, for_s: float) -> bool:
    """Do some of what is still to be erased; whether all is done."""
    until_s = time.monotonic() + for_s
    under_way = Erasure.objects.filter(finished_at=None).order_by("pk")
    for erasure_id in list(under_way.values_list("pk", flat=True)):
        while not erase_batch(erasure_id):
            if time.monotonic() >= until_s:
                return False
    return True


def erase_batch(erasure_id: int, *, messages: int = BATCH_MESSAGES, wait: bool = False) -> bool:
    """Erase some more of what a sender left, then make way for the pipeline for as long as it took.

    Args:
        erasure_id: The erasure.
        messages: How many messages to look at.
        wait: Whether to wait for somebody else who is at it, and not leave it to them.

    Returns:
        Whether there is nothing more to do, or somebody else is at it.
    """
    started_s = time.monotonic()
    with transaction.atomic():
        erasure = (
            Erasure.objects.select_for_update(of=("self",), skip_locked=not wait)
            .select_related("sender")
            .filter(pk=erasure_id, finished_at=None)
            .first()
        )
        if erasure is None:
            return True
        is_done = _erase_some(erasure, messages)
    if not is_done:
        # At least so long that what others have locked may be free.
        time.sleep(max(time.monotonic() - started_s, _PAUSE_S))
    return is_done


def _erase_some(erasure: Erasure, most: int) -> bool:
    """One step; whether it was the last."""
    now, actor = timezone.now(), chat.actor_of(erasure)
    if erasure.sender is not None:
        messages = _with_free_items(chat.lock_next_of(erasure.sender, most))
        if messages:
            _erase_messages(erasure, messages, now, actor)
            return False
        if Message.objects.filter(sender=erasure.sender).exists():
            return False  # others have locked all that was looked at
    if erase_by_person(erasure.external_id, actor=actor, erasure=erasure) != NOTHING:
        return False
    _finish(erasure, now, actor)
    return True


def _with_free_items(messages: Sequence[Message]) -> list[Message]:
    """Those that nobody is just deciding, with their waves and items locked.

    Like `chat.lock_next_of` it waits for nobody.
    """
    items = ReviewItem.objects.filter(pk__in=[message.pk for message in messages])
    of_wave = dict(items.values_list("pk", "wave"))
    there = Wave.objects.filter(pk__in={wave for wave in of_wave.values() if wave}).order_by("pk")
    taken_waves = set(there.values_list("pk", flat=True)) - _lock_those_free(there)
    free = _lock_those_free(items.order_by("pk"))
    ours = {id_ for id_ in free & of_wave.keys() if of_wave[id_] not in taken_waves}
    # An item that was opened since is of nobody who was locked out: it belongs to a verdict that
    # came before our locks on chunks, or to a report that waits for our lock on the message.
    taken = of_wave.keys() - ours
    left = chat.keys_of(m for m in messages if m.pk in taken)
    return [m for m in messages if (m.group_id, m.external_id) not in left]


def _lock_those_free(rows: QuerySet[Any]) -> set[int]:
    locked = rows.select_for_update(of=("self",), skip_locked=True)
    return set(locked.values_list("pk", flat=True))


def _erase_messages(
    erasure: Erasure, messages: Sequence[Message], now: datetime, actor: Actor
) -> None:
    chat.mark_erased(chat.keys_of(messages), now=now)
    wiped = chat.wipe(messages, now=now, sender=erasure.sender)
    _erase_around(wiped, actor, erasure)
    Erasure.objects.filter(pk=erasure.pk).update(messages=F("messages") + len(messages))
    ids = sorted(wiped.message_ids)
    record(
        actor=actor,
        action="messages.erased",
        target_type="erasure",
        target_id=erasure.pk,
        after={
            "messages": len(ids),
            "first_id": ids[0],
            "last_id": ids[-1],
            "quoting": len(wiped.quoting_ids),
        },
    )


def _finish(erasure: Erasure, now: datetime, actor: Actor) -> None:
    keep_arrivals_out()  # before any row is locked
    sender_id = erasure.sender_id
    strikes = _erase_strikes(sender_id, erasure.external_id)
    chat.finish_erasure(erasure, now=now)
    record(
        actor=actor,
        action="sender.erased",
        target_type="erasure",
        target_id=erasure.pk,
        after={"sender": sender_id, "messages": erasure.messages, "strikes": strikes},
    )


def _erase_strikes(sender_id: int | None, external_id: str) -> int:
    """What was not told yet is never told; what was told names nobody any more."""
    strikes, _ = Strike.objects.filter(sender=sender_id).delete()
    told = OutboxEvent.objects.filter(
        kind__in=(EventKind.SENDER_STRUCK, EventKind.STRIKE_WITHDRAWN), payload__sender=external_id
    ).select_for_update(of=("self",))
    for event in told:
        if event.released_at is None:
            event.delete()
        else:
            event.payload.pop("sender")
            event.save(update_fields=["payload"])
    return strikes


# ---------- what hangs on messages, and what people said ----------


def _lock_waves(message_ids: Sequence[int]) -> None:
    """Before the items, as everybody does."""
    items = ReviewItem.objects.filter(pk__in=message_ids, wave__isnull=False)
    ids = set(items.values_list("wave", flat=True))
    list(Wave.objects.filter(pk__in=ids).order_by("pk").select_for_update(of=("self",)))


def _erase_around(wiped: chat.Wiped, actor: Actor, erasure: Erasure | None = None) -> None:
    """Take what is known of these messages' words out of the queue, and tell who looks at them."""
    withdraw(message_ids=wiped.message_ids)
    waves.leave(wiped.message_ids)
    ReviewItem.objects.filter(pk__in=wiped.message_ids).update(grams=[])
    erase_about_messages(wiped.message_ids, actor=actor, erasure=erasure)
    announce("erased", [*wiped.message_ids, *wiped.quoting_ids])
    tell_erased(wiped.message_ids)


@transaction.atomic
def erase_about_messages(
    message_ids: Sequence[int], *, actor: Actor, erasure: Erasure | None = None
) -> Erased:
    """Erase what was said about these messages.

    Reports go whole; appeals lose their words and whose they are, moderators' notes their words.

    Args:
        message_ids: The messages.
        actor: Who asks.
        erasure: What it is part of, for the audit record.
    """
    reports, _ = Report.objects.filter(message_id__in=message_ids).delete()
    notes = sum(
        made.objects.filter(item_id__in=message_ids).exclude(note="").update(note="")
        for made in (Decision, CheckAnswer)
    )
    appeals = _empty(Appeal.objects.filter(item_id__in=message_ids))
    return _on_record(Erased(reports, appeals, notes), actor, erasure)


@transaction.atomic
def erase_by_person(external_id: str, *, actor: Actor, erasure: Erasure | None = None) -> Erased:
    """Erase some of what one person, known by the backend's id, said about others' messages.

    A thousand reports and appeals each at most: call again until it finds none.

    Args:
        external_id: The person.
        actor: Who asks.
        erasure: What it is part of, for the audit record.
    """
    if not external_id:  # an appeal that names nobody
        return NOTHING
    given = Report.objects.filter(reporter=external_id).values_list("pk", flat=True)
    reports, _ = Report.objects.filter(pk__in=list(given[:BATCH_WORDS])).delete()
    made = Appeal.objects.filter(appellant=external_id).values_list("pk", flat=True)
    appeals = _empty(Appeal.objects.filter(pk__in=list(made[:BATCH_WORDS])))
    return _on_record(Erased(reports, appeals, 0), actor, erasure)


def _empty(appeals: QuerySet[Appeal]) -> int:
    """Take the words out of appeals, and out of the events that answer them."""
    keys = [outbox_key(pk) for pk in appeals.values_list("pk", flat=True)]
    for event in OutboxEvent.objects.filter(kind=EventKind.APPEAL_DECIDED, key__in=keys):
        event.payload["reason"] = ""
        event.save(update_fields=["payload"])
    return appeals.update(text="", reason="", appellant="")


def _on_record(erased: Erased, actor: Actor, erasure: Erasure | None) -> Erased:
    if erased != NOTHING:
        record(
            actor=actor,
            action="review.erased",
            target_type="review" if erasure is None else "erasure",
            target_id="words" if erasure is None else erasure.pk,
            after=asdict(erased),
        )
    return erased
