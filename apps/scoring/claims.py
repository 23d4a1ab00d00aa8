"""Claiming chunks of waiting messages, fenced by a claim id and a lease.

A claim is one UPDATE of a few small rows. Whoever stores verdicts must find its claim id still
there, so a worker that was frozen past its lease, whose chunks another one has since claimed,
finds nothing and writes nothing.

Claims are committed without waiting for the disk: a claim that a database crash forgets was
never made, the chunk is simply pending again.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

import psycopg
from django.conf import settings
from django.db import connection, transaction

from apps.chat.models import CHUNK_ID_BITS, IDS_PER_CHUNK
from apps.scoring.samples import MessageClass, class_of

Cursor = psycopg.Cursor[Any]

# A chunk claimed more often than this without an end has killed its workers, most likely.
ATTEMPTS_BEFORE_ISOLATION = 3
# Chunks looked at by one claim; those past the wanted size are locked for some microseconds.
_MOST_CHUNKS = 512
_FEWEST_CHUNKS = 4


@dataclass(frozen=True, slots=True)
class ClaimedChunk:
    id: int
    size: int
    # Claims so far, this one included.
    attempts: int
    waited_ms: float
    suspect_id: int | None
    suspect_attempts: int
    # Never claimed before, so none of its messages can have a verdict. `attempts` does not tell: it
    # goes back when a chunk is given back, parts of it judged.
    is_fresh: bool

    @property
    def is_suspect(self) -> bool:
        return self.attempts > ATTEMPTS_BEFORE_ISOLATION


@dataclass(frozen=True, slots=True)
class Claim:
    """Chunks that are this worker's until it stores, releases, or lets the lease run out."""

    id: uuid.UUID
    chunks: Sequence[ClaimedChunk]
    by_class: Mapping[MessageClass, Sequence[ClaimedChunk]] = field(init=False)

    def __post_init__(self) -> None:
        by_class: dict[MessageClass, list[ClaimedChunk]] = {}
        for chunk in self.chunks:
            by_class.setdefault(class_of(chunk.size, chunk.waited_ms), []).append(chunk)
        object.__setattr__(self, "by_class", by_class)

    @property
    def chunk_ids(self) -> list[int]:
        return [chunk.id for chunk in self.chunks]

    @property
    def size(self) -> int:
        return sum(chunk.size for chunk in self.chunks)

    @property
    def is_suspect(self) -> bool:
        return self.chunks[0].is_suspect


class WaitingMessage(NamedTuple):
    id: int
    group_id: int
    text: str


_CLAIM = """
WITH hurry AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
due AS (
  SELECT id, size, attempts, start_tag, lease_until IS NULL AS is_fresh FROM chat_chunk
  WHERE lease_until IS NULL OR lease_until < now()
  ORDER BY start_tag, id LIMIT %(chunks)s
  FOR UPDATE SKIP LOCKED
), in_line AS (
  SELECT id, size, attempts, is_fresh, sum(size) OVER line - size AS before,
    first_value(attempts) OVER line >= %(isolate)s AS is_suspect_first
  FROM due WINDOW line AS (ORDER BY start_tag, id ROWS UNBOUNDED PRECEDING)
), picked AS (
  SELECT id, is_fresh FROM in_line, hurry
  WHERE before = 0
    OR (NOT is_suspect_first AND attempts < %(isolate)s AND before + size <= %(messages)s)
)
UPDATE chat_chunk AS chunk
SET claim_id = %(claim)s, attempts = chunk.attempts + 1,
  lease_until = now() + %(lease)s * interval '1 second'
FROM picked WHERE chunk.id = picked.id
RETURNING chunk.id, chunk.size, chunk.attempts,
  -- Never negative: `now()` is when a transaction began, and a chunk may be stored by one that
  -- began after ours, if ours was kept from its first statement; clocks are also set back.
  greatest(0, extract(epoch FROM clock_timestamp() - chunk.created_at) * 1000)::float8,
  chunk.suspect_id, chunk.suspect_attempts, picked.is_fresh, chunk.start_tag
"""

# Virtual time goes forward only; a chunk that was claimed before has an old turn.
_ADVANCE = """
SELECT setval('chat_virtual_time', %s) FROM chat_virtual_time WHERE last_value < %s
"""


class Claimer:
    """Claims for one worker. Remembers how large chunks are, to lock hardly more than it takes."""

    def __init__(self) -> None:
        self._chunk_size = float(IDS_PER_CHUNK)

    def claim(self, messages: int) -> Claim | None:
        """Take the chunks whose turn it is, whole ones, up to `messages` messages in all.

        The first is taken whatever its size. A chunk that seems to kill workers is taken alone.

        Returns:
            None when nothing is due or all that is due is being claimed by others.
        """
        claim_id = uuid.uuid4()
        chunks = min(_MOST_CHUNKS, _FEWEST_CHUNKS + int(messages / self._chunk_size))
        parameters = {
            "claim": claim_id,
            "chunks": chunks,
            "messages": messages,
            "isolate": ATTEMPTS_BEFORE_ISOLATION,
            "lease": settings.SCORING_LEASE_S,
        }
        with transaction.atomic(), raw_cursor() as cursor:
            cursor.execute(_CLAIM, parameters)
            rows = sorted(cursor.fetchall())
            if not rows:
                return None
            newest_turn = max(row[-1] for row in rows)
            cursor.execute(_ADVANCE, [newest_turn, newest_turn])
        claim = Claim(claim_id, [ClaimedChunk(*row[:-1]) for row in rows])
        self._chunk_size += 0.2 * (claim.size / len(rows) - self._chunk_size)
        return claim


# Each chunk's range by itself, in order and with a limit: as a plain join the planner takes a ninth
# of the table for a range, and reads all of it (41 us a message instead of 1) while its statistics
# are from before the table grew.
_FETCH = f"""
SELECT message.id, message.group_id, message.text
FROM unnest(%s::bigint[]) AS chunk (id)
CROSS JOIN LATERAL (
  SELECT id, group_id, text, deleted_at FROM chat_message
  WHERE id >= chunk.id << {CHUNK_ID_BITS} AND id < (chunk.id + 1) << {CHUNK_ID_BITS}
  ORDER BY id LIMIT {IDS_PER_CHUNK}
) AS message
WHERE message.deleted_at IS NULL
"""  # noqa: S608  (a constant of ours)
_FETCH_UNJUDGED = f"""{_FETCH} AND NOT EXISTS (
  SELECT FROM scoring_verdict AS verdict
  WHERE verdict.message_id = message.id AND verdict.release_id = %s
)"""


_FETCH_WITHOUT_VERDICT = f"""{_FETCH} AND NOT EXISTS (
  SELECT FROM scoring_verdict AS verdict WHERE verdict.message_id = message.id
)"""


def fetch_without_verdict(cursor: Cursor, chunk_ids: Sequence[int]) -> list[WaitingMessage]:
    """The messages of chunks that the caller has locked, without those that anybody judged."""
    cursor.execute(_FETCH_WITHOUT_VERDICT, [list(chunk_ids)], binary=True)
    return [WaitingMessage(*row) for row in cursor.fetchall()]


def fetch_messages(claim: Claim, *, release_id: int) -> list[WaitingMessage]:
    """The messages of a claim that still need a verdict of that release, in no order.

    Looking for verdicts is left out for chunks claimed for the first time: there can't be any,
    and if there were, storing would find out.
    """
    with connection.wrap_database_errors, raw_cursor() as cursor:
        if all(chunk.is_fresh for chunk in claim.chunks):
            cursor.execute(_FETCH, [claim.chunk_ids], binary=True)
        else:
            cursor.execute(_FETCH_UNJUDGED, [claim.chunk_ids, release_id], binary=True)
        # A third of what calling the class costs.
        return list(map(tuple.__new__, repeat(WaitingMessage), cursor.fetchall()))


_RELEASE = """
UPDATE chat_chunk
SET claim_id = NULL, lease_until = now() + %s * interval '1 second',
  attempts = greatest(attempts - 1, 0)
WHERE claim_id = %s AND id = ANY(%s) RETURNING id
"""


def release_chunks(claim: Claim, chunk_ids: Collection[int], *, after_s: float) -> set[int]:
    """Give chunks back, due again in `after_s` seconds: it was not their fault.

    Returns:
        Those that were still ours.
    """
    with connection.cursor() as cursor:
        cursor.execute(_RELEASE, [after_s, claim.id, list(chunk_ids)])
        return {id_ for (id_,) in cursor.fetchall()}


_SUSPECT = """
UPDATE chat_chunk
SET suspect_attempts = CASE WHEN suspect_id = %(message)s THEN suspect_attempts + 1 ELSE 1 END,
  suspect_id = %(message)s, lease_until = now() + %(lease)s * interval '1 second'
WHERE claim_id = %(claim)s AND id = %(chunk)s RETURNING suspect_attempts
"""


def suspect(claim: Claim, message_id: int) -> int | None:
    """Put down that this message is being tried, before it can kill us; renews the lease.

    Returns:
        How often it has been tried, this time included; None when the claim is lost.
    """
    parameters: dict[str, Any] = {
        "message": message_id,
        "lease": settings.SCORING_LEASE_S,
        "claim": claim.id,
        "chunk": message_id >> CHUNK_ID_BITS,
    }
    with connection.cursor() as cursor:
        cursor.execute(_SUSPECT, parameters)
        row = cursor.fetchone()
    return row[0] if row else None


def has_due_chunks() -> bool:
    """Whether a claim would find something now."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM chat_chunk"
            " WHERE lease_until IS NULL OR lease_until < now())"
        )
        (has_due,) = cursor.fetchone()
        return bool(has_due)


def raw_cursor() -> Cursor:
    """psycopg's own cursor: Django's writes parameters into the statement's text."""
    connection.ensure_connection()
    return psycopg.Cursor(connection.connection)


def array_literal(values: Iterable[object]) -> str:
    """An array of numbers and plain words as PostgreSQL writes it, for a raw cursor.

    Writing it so costs less than a list as a parameter.
    """
    return "{" + ",".join(map(str, values)) + "}"
