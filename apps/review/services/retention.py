"""Removing messages that are older than they may be kept, and everything that hangs on them.

By bounded batches along the message ids, which are in order of time; each batch is one transaction
that either removes its messages with all that points at them or nothing. Nothing is remembered
between batches: whoever is killed leaves complete messages, and the next one begins at the oldest.
Batches take turns with pauses of their own length, so that the pipeline keeps its pace.

What still concerns somebody stays, whatever its age: a message that waits for a verdict or for a
person, that was decided or appealed lately, or that is a known answer. Rows that are locked at the
moment are left for next time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, models, transaction
from django.db.models import Q, QuerySet
from psycopg.sql import SQL, Composable, Identifier

from apps.audit.services import record
from apps.chat.models import CHUNK_ID_BITS, Chunk, Message
from apps.chat.services import Forgotten, forget_deletions, forget_senders
from apps.chat.services.retention import RETENTION
from apps.review.models import (
    Appeal,
    Check,
    CheckKind,
    CheckOutcome,
    Decision,
    Gold,
    ReviewItem,
    ReviewState,
)

BATCH_MESSAGES = 1_000
# Any number no other part uses: advisory locks share one space.
_RETENTION_LOCK = 0x43575245


def cutoff(now: datetime) -> datetime | None:
    """Before when messages may go; None when everything is kept."""
    days = settings.RETENTION_DAYS
    return now - timedelta(days=days) if days else None


def expire(*, before: datetime, for_s: float) -> int:
    """Remove what is older than `before`, batch after batch, for `for_s` seconds at most.

    Returns:
        How many messages were removed.
    """
    return _in_turns(
        lambda after_id: expire_batch(before=before, after_id=after_id),
        until_s=time.monotonic() + for_s,
    )


def forget_absent(*, before: datetime) -> int:
    """Remove the senders and the marks of deletions that no message is left of.

    Returns:
        How many were removed.
    """
    senders = _in_turns(lambda after_id: forget_senders(before=before, after_id=after_id))
    marks = _in_turns(lambda after_id: forget_deletions(before=before, after_id=after_id))
    return senders + marks


def _in_turns(step: Callable[[int], Forgotten], until_s: float = math.inf) -> int:
    """Batch after batch, each followed by a pause as long as it took: the pipeline's turn."""
    removed, last_id = 0, 0
    while True:
        started_s = time.monotonic()
        batch = step(last_id)
        removed += batch.removed
        ended_s = time.monotonic()
        if batch.last_id is None or ended_s > until_s:
            return removed
        last_id = batch.last_id
        time.sleep(ended_s - started_s)


@transaction.atomic
def expire_batch(
    *, before: datetime, after_id: int = 0, messages: int = BATCH_MESSAGES
) -> Forgotten:
    """Remove those of the next `messages` messages that are old and concern nobody any more.

    Args:
        before: messages received before may go.
        after_id: where the last batch ended.
        messages: how many to look at.
    """
    if not _is_alone():
        return Forgotten(0, None)
    looked_at = list(
        Message.objects.filter(pk__gt=after_id)
        .order_by("pk")
        .values_list("pk", "received_at")[:messages]
    )
    # By the last: two requests under way at once store theirs some milliseconds out of order.
    is_last = len(looked_at) < messages or looked_at[-1][1] >= before
    ids = _removable([id_ for id_, received_at in looked_at if received_at < before], before)
    if ids:
        _remove(ids, before)
    return Forgotten(len(ids), None if is_last else looked_at[-1][0])


def _is_alone() -> bool:
    """A doubled task would walk the same rows for nothing."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_RETENTION_LOCK])
        return bool(cursor.fetchone()[0])


def _removable(old_ids: list[int], before: datetime) -> list[int]:
    """Those that may go, locked: messages and their review items."""
    waiting = set(
        Chunk.objects.filter(pk__in={id_ >> CHUNK_ID_BITS for id_ in old_ids}).values_list(
            "pk", flat=True
        )
    )
    judged = [id_ for id_ in old_ids if id_ >> CHUNK_ID_BITS not in waiting]
    items = ReviewItem.objects.filter(pk__in=judged)
    closed = set(
        items.exclude(state=ReviewState.OPEN)
        .select_for_update(skip_locked=True, of=("self",))
        .values_list("pk", flat=True)
    )
    concerning = set(items.values_list("pk", flat=True)) - closed
    for rows in _of_concern(before):
        concerning |= set(rows.filter(item__in=closed).values_list("item_id", flat=True))
    free = Message.objects.filter(pk__in=set(judged) - concerning)
    return sorted(free.select_for_update(skip_locked=True).values_list("pk", flat=True))


def _of_concern(before: datetime) -> tuple[QuerySet[Any], ...]:
    """Rows that keep the item they are about: what is unsettled, in use, or from lately."""
    lately = Q(decided_at__gte=before)
    return (
        Decision.objects.filter(lately | Q(undone_at__gte=before)),
        Appeal.objects.filter(lately | Q(opened_at__gte=before)),
        Gold.objects.filter(retired_at=None),
        Check.objects.filter(
            Q(outcome=CheckOutcome.WAITING)
            | Q(outcome=CheckOutcome.DISAGREED, kind=CheckKind.SECOND)
        ),
    )


def _remove(ids: Sequence[int], before: datetime) -> None:
    with connection.cursor() as cursor:
        for statement in _deletions(Message, SQL("SELECT unnest(%s::bigint[])")):
            cursor.execute(statement, [list(ids)])
    record(
        actor=RETENTION,
        action="messages.expired",
        target_type="messages",
        target_id=ids[-1],
        after={
            "messages": len(ids),
            "first_id": ids[0],
            "last_id": ids[-1],
            "received_before": before.isoformat(),
        },
    )


def _deletions(model: type[models.Model], ids: Composable) -> Iterator[Composable]:
    """Statements that remove the rows of `model` named by `ids` and all that points at them.

    Found by asking the models, so that a table that a room adds later can't be forgotten here.
    """
    for relation in model._meta.get_fields(include_hidden=True):
        # A row that points at one of its own table hangs on the same message.
        if isinstance(relation, models.ManyToOneRel) and relation.field.model is not model:
            yield from _detachments(relation, ids)
    yield SQL("DELETE FROM {} WHERE {} IN ({})").format(
        Identifier(model._meta.db_table), _key(model), ids
    )


def _detachments(relation: models.ManyToOneRel, ids: Composable) -> Iterator[Composable]:
    child = relation.field.model
    names = {
        "table": Identifier(child._meta.db_table),
        "column": Identifier(relation.field.column),
        "ids": ids,
    }
    if relation.on_delete is models.SET_NULL:
        yield SQL("UPDATE {table} SET {column} = NULL WHERE {column} IN ({ids})").format(**names)
    elif isinstance(child._meta.pk, models.CompositePrimaryKey):
        # Nothing can point at these.
        yield SQL("DELETE FROM {table} WHERE {column} IN ({ids})").format(**names)
    else:
        rows = SQL("SELECT {key} FROM {table} WHERE {column} IN ({ids})")
        yield from _deletions(child, rows.format(key=_key(child), **names))


def _key(model: type[models.Model]) -> Identifier:
    column = model._meta.pk.column
    assert column is not None  # only a composite key has none
    return Identifier(column)
