"""Forgetting senders and marks of deletions that no message is left of.

The messages themselves are removed by the room that knows all that hangs on them (`review`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection, models, transaction
from django.db.models import Exists, OuterRef, Q

from apps.audit.services import Actor, record
from apps.chat.locks import keep_arrivals_out
from apps.chat.models import CHUNK_ID_BITS, Deletion, Message, Sender

BATCH_ROWS = 1_000
RETENTION = Actor.system("retention")


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What one batch did. `last_id` is where the next one goes on; None when it was the last."""

    removed: int
    last_id: int | None


def forget_senders(*, before: datetime, after_id: int = 0, rows: int = BATCH_ROWS) -> Forgotten:
    """Remove those of the next senders that no message is left of, unless new since `before`.

    An arrival names its sender without a lock on the row, and must not name one that is going. So
    arrivals are kept out while it is looked again whether somebody has written meanwhile. That is
    only among the messages that came since the first look, which takes a millisecond a sender and
    more: every message that is not seen then has a higher id than was given out before it.
    """
    ids, last_id = _next(Sender, after_id, rows)
    if not ids:
        return Forgotten(0, last_id)
    all_below = _settled_below()
    written = Exists(Message.objects.filter(sender=OuterRef("pk")))
    absent = list(
        Sender.objects.filter(
            ~Q(written),
            pk__in=ids,
            created_at__lt=before,
            # The nobody of erased messages, and whose erasure is under way.
            erased_at__isnull=True,
        ).values_list("pk", flat=True)
    )
    if not absent:
        return Forgotten(0, last_id)
    with transaction.atomic():
        keep_arrivals_out()
        since = Message.objects.filter(pk__gte=all_below, sender__in=absent)
        gone = sorted(set(absent) - set(since.values_list("sender_id", flat=True)))
        return Forgotten(_remove(Sender, gone, "sender"), last_id)


@transaction.atomic
def _settled_below() -> int:
    """A message id: all messages with lower ones have been committed, or never will be."""
    keep_arrivals_out()
    with connection.cursor() as cursor:
        cursor.execute("SELECT last_value FROM chat_chunk_number")
        (newest,) = cursor.fetchone()
    return int(newest) << CHUNK_ID_BITS


@transaction.atomic
def forget_deletions(*, before: datetime, after_id: int = 0, rows: int = BATCH_ROWS) -> Forgotten:
    """Remove those of the next deletions that are older than `before` and have no message left.

    A revision that comes after that is a message like any other.
    """
    marked = Message.objects.filter(group=OuterRef("group"), external_id=OuterRef("external_id"))
    ids, last_id = _next(Deletion, after_id, rows)
    gone = list(
        Deletion.objects.filter(~Q(Exists(marked)), pk__in=ids, deleted_at__lt=before).values_list(
            "pk", flat=True
        )
    )
    return Forgotten(_remove(Deletion, gone, "deletion"), last_id)


def _next(model: type[models.Model], after_id: int, rows: int) -> tuple[list[int], int | None]:
    ids = list(
        model._default_manager.filter(pk__gt=after_id)
        .order_by("pk")
        .values_list("pk", flat=True)[:rows]
    )
    return ids, ids[-1] if len(ids) == rows else None


def _remove(model: type[models.Model], ids: list[int], what: str) -> int:
    if not ids:
        return 0
    removed, _ = model._default_manager.filter(pk__in=ids).delete()
    record(
        actor=RETENTION,
        action=f"{what}s.forgotten",
        target_type=f"{what}s",
        target_id=ids[-1],
        after={"rows": removed, "first_id": ids[0], "last_id": ids[-1]},
    )
    return removed
