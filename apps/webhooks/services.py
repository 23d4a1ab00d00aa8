"""Writing, withdrawing and releasing outbox events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from apps.scoring.claims import raw_cursor
from apps.scoring.sinks import StoredVerdict
from apps.webhooks.models import EventKind, OutboxEvent

RETENTION = timedelta(days=3)
RELEASE_BATCH = 500
# Deleted at once: a transaction of some milliseconds.
DROP_BATCH = 10_000


def enqueue(
    *,
    kind: EventKind,
    key: str,
    message_ids: Sequence[int],
    payload: dict[str, Any] | None = None,
    hold: timedelta = timedelta(0),
) -> None:
    """Write one event in the caller's transaction; the same `(kind, key)` twice writes once.

    Args:
        kind: What happened.
        key: What it happened to, unique within its kind.
        message_ids: The messages it is about.
        payload: Ids, labels and actions; never message text.
        hold: How long it stays before it may leave, so that it can be withdrawn.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("An outbox event belongs in the transaction of what it tells.")
    now = timezone.now()
    OutboxEvent.objects.bulk_create(
        [
            OutboxEvent(
                kind=kind,
                key=key,
                message_ids=list(message_ids),
                payload=payload or {},
                available_at=now + hold,
            )
        ],
        ignore_conflicts=True,
    )


_INSERT_VERDICTS = """
INSERT INTO webhooks_outboxevent (kind, key, message_ids, payload)
VALUES (%s, %s, '{}', %s)
"""


def enqueue_verdicts(verdicts: Sequence[StoredVerdict]) -> None:
    """One event for a batch of new verdicts, in the transaction that stores them: a verdict sink.

    It names the messages by ranges of ids, which in a chunk follow each other: some dozen bytes
    where a list of them took eight thousand. A message has one verdict of a release, so release
    and first message make a key that comes once.
    """
    with connection.wrap_database_errors, raw_cursor() as cursor:
        # Of one release, but for a batch during which another came into force.
        for release_id in {verdict.release_id for verdict in verdicts}:
            ranges = id_ranges([v.message_id for v in verdicts if v.release_id == release_id])
            payload = json.dumps({"release_id": release_id, "ranges": ranges})
            key = f"{release_id}:{ranges[0][0]}"
            cursor.execute(_INSERT_VERDICTS, [EventKind.VERDICTS_STORED.value, key, payload])


def id_ranges(ids: Sequence[int]) -> list[tuple[int, int]]:
    """Ids, each once, as first and last of each run without a gap, in order."""
    ordered = np.sort(np.array(ids, np.int64))
    if not len(ordered):
        return []
    gaps = np.flatnonzero(np.diff(ordered) > 1)
    firsts = ordered[np.concatenate(([0], gaps + 1))]
    lasts = ordered[np.concatenate((gaps, [-1]))]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def subject_ids(event: OutboxEvent) -> list[int]:
    """The messages an event is about, in order."""
    ranges = event.payload.get("ranges", ())
    return [*event.message_ids, *(id_ for a, b in ranges for id_ in range(a, b + 1))]


def withdraw(*, kind: EventKind, key: str) -> bool:
    """Take an event back that has not left. False when it has left (or never was)."""
    deleted, _ = OutboxEvent.objects.filter(kind=kind, key=key, released_at__isnull=True).delete()
    return deleted == 1


def enqueue_many(
    *,
    kind: EventKind,
    events: Sequence[tuple[str, int, dict[str, Any]]],
    hold: timedelta = timedelta(0),
) -> None:
    """`enqueue` for many at once: `(key, message_id, payload)` each."""
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("An outbox event belongs in the transaction of what it tells.")
    available_at = timezone.now() + hold
    OutboxEvent.objects.bulk_create(
        [
            OutboxEvent(
                kind=kind,
                key=key,
                message_ids=[message_id],
                payload=payload,
                available_at=available_at,
            )
            for key, message_id, payload in events
        ],
        ignore_conflicts=True,
    )


def withdraw_many(*, kind: EventKind, keys: Sequence[str]) -> int:
    """`withdraw` for many at once; returns how many had not left."""
    held = OutboxEvent.objects.filter(kind=kind, key__in=keys, released_at__isnull=True)
    return held.delete()[0]


@transaction.atomic
def release_due(*, limit: int = RELEASE_BATCH) -> list[OutboxEvent]:
    """Let what is due leave, oldest first; each event leaves once, whoever calls."""
    due = list(
        OutboxEvent.objects.select_for_update(skip_locked=True)
        .filter(released_at__isnull=True, available_at__lte=Now())
        .order_by("available_at", "id")[:limit]
    )
    OutboxEvent.objects.filter(pk__in=[event.pk for event in due]).update(released_at=Now())
    return due


def drop_released(*, before: timedelta = RETENTION) -> int:
    """Delete events that left longer than `before` ago, some at a time; returns how many."""
    limit = timezone.now() - before
    dropped = 0
    while True:
        old = OutboxEvent.objects.filter(released_at__lt=limit).values("pk")[:DROP_BATCH]
        deleted, _ = OutboxEvent.objects.filter(pk__in=old).delete()
        dropped += deleted
        if deleted < DROP_BATCH:
            return dropped
