"""Erasing what was said and who said it: this room's part, called by the one that knows the rest.

An erased message is deleted, and its row has no text, quotation, metadata or reply any more. The
row itself stays, and its key with it, so that a repeat is known for one and stores nothing; the
mark of its deletion says that whatever comes under that key later is stored empty. Where others
quoted it, the quotation goes too.

Everything here runs in the caller's transaction, which holds the locks until it is over. The order
in which whoever deletes or erases takes them: groups (`locks.py`), chunks, messages, waves, items.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from django.db import connection
from django.db.models import BigIntegerField, Case, Exists, F, OuterRef, Q, QuerySet, When
from django.db.models.functions import Coalesce

from apps.audit.models import ActorKind
from apps.audit.services import Actor
from apps.chat.locks import keep_arrivals_out, lock_groups
from apps.chat.models import (
    CHUNK_ID_BITS,
    NEWEST_OF_SENDER,
    NOBODY,
    Chunk,
    Erasure,
    Group,
    Message,
    Sender,
)
from apps.chat.services.deletion import wait_for_verdicts

# A message, whatever its revision: group and the backend's id.
Key = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Wiped:
    """Whose words are gone: of `message_ids` all, of `quoting_ids` what they quoted."""

    message_ids: Sequence[int]
    quoting_ids: Sequence[int]


def lock_message(*, group: str, external_id: str) -> tuple[Group, list[Message]]:
    """Lock a message against arrivals and verdicts; its group, made when unknown, and revisions."""
    lock_groups([group])
    group_row, _ = Group.objects.get_or_create(external_id=group)
    revisions = Message.objects.filter(group=group_row, external_id=external_id)
    wait_for_verdicts(list(revisions.values_list("pk", flat=True)))
    return group_row, list(_locked(revisions))


def lock_next_of(sender: Sender, most: int) -> list[Message]:
    """Lock the next messages of a sender, with all their revisions, that nobody is just at.

    Waits for nobody but arrivals, so it can't be part of a circle; what is locked is left for next
    time, a message with one such revision as a whole.

    Args:
        sender: Whose.
        most: How many of the sender's messages to look at.
    """
    of_sender = Message.objects.filter(sender=sender).order_by(*NEWEST_OF_SENDER)
    looked_at = list(of_sender.values_list("group__external_id", "group", "external_id")[:most])
    if not looked_at:
        return []
    lock_groups({name for name, _, _ in looked_at})
    revisions = _revisions_of({(group, external_id) for _, group, external_id in looked_at})
    numbers = {message.pk >> CHUNK_ID_BITS for message in revisions}
    waiting = Chunk.objects.filter(pk__in=numbers)
    free = set(waiting.select_for_update(skip_locked=True).values_list("pk", flat=True))
    # Read before the locks were tried, a chunk may have gone since: its verdicts are there now.
    taken = set(waiting.values_list("pk", flat=True)) - free
    locked = {
        message.pk: message
        for message in _locked(
            Message.objects.filter(pk__in=[m.pk for m in revisions]), skip_locked=True
        )
        if message.pk >> CHUNK_ID_BITS not in taken
    }
    left = keys_of(m for m in revisions if m.pk not in locked)
    return [m for m in locked.values() if (m.group_id, m.external_id) not in left]


def _locked(messages: QuerySet[Message], *, skip_locked: bool = False) -> QuerySet[Message]:
    keys = messages.only("group", "external_id", "sender")
    return keys.order_by("pk").select_for_update(of=("self",), skip_locked=skip_locked)


_REVISIONS = """
SELECT message.id
FROM unnest(%(groups)s::bigint[], %(names)s::text[]) AS named (group_id, external_id)
  JOIN chat_message AS message USING (group_id, external_id)
"""


def _revisions_of(keys: Collection[Key]) -> list[Message]:
    with connection.cursor() as cursor:
        cursor.execute(_REVISIONS, _columns(keys))
        ids = [id_ for (id_,) in cursor.fetchall()]
    return list(Message.objects.filter(pk__in=ids).only("group_id", "external_id"))


_MARK = """
INSERT INTO chat_deletion (group_id, external_id, deleted_at, erased_at)
SELECT group_id, external_id, %(now)s, %(now)s
FROM unnest(%(groups)s::bigint[], %(names)s::text[]) AS named (group_id, external_id)
ORDER BY group_id, external_id COLLATE "C"
ON CONFLICT (group_id, external_id) DO UPDATE SET erased_at = excluded.erased_at
WHERE chat_deletion.erased_at IS NULL
RETURNING id
"""


def mark_erased(keys: Collection[Key], *, now: datetime) -> int:
    """Remember that nothing of these messages may be kept; returns of how many that is new.

    The caller holds their groups' locks.
    """
    _nobody(now)
    with connection.cursor() as cursor:
        cursor.execute(_MARK, {"now": now, **_columns(keys)})
        return int(cursor.rowcount)


def keys_of(messages: Iterable[Message]) -> set[Key]:
    return {(message.group_id, message.external_id) for message in messages}


def _columns(keys: Collection[Key]) -> dict[str, list[Any]]:
    return {"groups": [group for group, _ in keys], "names": [name for _, name in keys]}


def wipe(messages: Sequence[Message], *, now: datetime, sender: Sender | None = None) -> Wiped:
    """Take the words out of messages, which the caller has locked, and out of what quotes them.

    Args:
        messages: All revisions of each.
        now: The present.
        sender: Whom they shall name no more, if they do.
    """
    nobody = _nobody(now)
    ids = [message.pk for message in messages]
    theirs = Q(sender=sender) if sender is not None else Q(pk__in=())
    Message.objects.filter(pk__in=ids).update(
        text="",
        quoted_text="",
        reply_to="",
        metadata=None,
        deleted_at=Coalesce(F("deleted_at"), now),
        sender=Case(
            When(theirs, then=nobody.pk), default=F("sender"), output_field=BigIntegerField()
        ),
    )
    return Wiped(ids, _wipe_quotations(messages))


_WIPE_QUOTATIONS = """
UPDATE chat_message AS quoting SET quoted_text = ''
FROM unnest(%(groups)s::bigint[], %(names)s::text[]) AS named (group_id, external_id)
WHERE quoting.group_id = named.group_id AND quoting.reply_to = named.external_id
  AND quoting.reply_to <> '' AND quoting.quoted_text <> ''
RETURNING quoting.id
"""


def _wipe_quotations(messages: Sequence[Message]) -> list[int]:
    """Empty what others quoted of these messages; returns in which that was."""
    with connection.cursor() as cursor:
        cursor.execute(_WIPE_QUOTATIONS, _columns(keys_of(messages)))
        return sorted(id_ for (id_,) in cursor.fetchall())


def _nobody(now: datetime) -> Sender:
    nobody, _ = Sender.objects.get_or_create(external_id=NOBODY, defaults={"erased_at": now})
    return nobody


def begin_erasure(external_id: str, *, actor: Actor, now: datetime) -> tuple[Erasure, bool]:
    """Take a sender's name and id away, and note that their messages are to follow.

    Whoever writes under that id from then on is somebody new, so the messages to be erased can't
    grow in number. Asked again while it is under way, it answers with that.

    Returns:
        The erasure, and whether it is new.
    """
    keep_arrivals_out()
    sender = (
        Sender.objects.select_for_update().filter(external_id=external_id, erased_at=None).first()
    )
    if sender is None:
        under_way = Erasure.objects.filter(external_id=external_id, finished_at=None)
        found = under_way.order_by("-pk").first()
        if found is not None:
            return found, False
    else:
        sender.external_id, sender.name, sender.erased_at = f"erased-{uuid4().hex}", "", now
        sender.save(update_fields=["external_id", "name", "erased_at"])
    erasure = Erasure.objects.create(
        sender=sender,
        external_id=external_id,
        actor_kind=actor.kind,
        actor_id=actor.id,
        actor_name=actor.name,
        requested_at=now,
    )
    return erasure, True


def finish_erasure(erasure: Erasure, *, now: datetime) -> None:
    """Forget the sender, of whom no message is left, and who it was.

    While it was under way a repeat of a message that was not erased yet may have made the sender
    anew: without any message that is a name and nothing else, so it goes as well. The caller keeps
    arrivals out.
    """
    sender, erasure.sender = erasure.sender, None
    erasure.external_id, external_id, erasure.finished_at = "", erasure.external_id, now
    erasure.save(update_fields=["sender", "external_id", "finished_at"])
    if sender is not None:
        sender.delete()
    again = Sender.objects.filter(external_id=external_id, created_at__gte=erasure.requested_at)
    again.exclude(Exists(Message.objects.filter(sender=OuterRef("pk")))).delete()


def actor_of(erasure: Erasure) -> Actor:
    """Who asked for it."""
    return Actor(ActorKind(erasure.actor_kind), erasure.actor_id, erasure.actor_name)
