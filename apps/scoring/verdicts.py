"""Storing a batch of verdicts: one transaction, fenced, each message once.

The chunk rows are the fence and the lock. Deleting them by claim id takes them, or finds that
another worker has them by now; whoever deletes a message locks its chunk first, so a deletion
comes either before (its verdict is left out) or after (it sees the verdict). Verdicts go in by
COPY, which costs half of what INSERT does and can't skip duplicates: there are none, but for a
verdict that another way stored before us, and then the batch is stored again without it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import psycopg
from django.db import connection, transaction

from apps.chat.models import CHUNK_ID_BITS, IDS_PER_CHUNK
from apps.scoring.claims import Claim, Cursor, raw_cursor, release_chunks
from apps.scoring.feed import tell_viewers
from apps.scoring.sinks import StoredVerdict, feed_sinks

_ATTEMPTS = 3


class Timing(NamedTuple):
    """How long one message took, up to the moment before it is stored."""

    queue_ms: float
    inference_ms: float
    total_ms: float


@dataclass(frozen=True, slots=True)
class Stored:
    """What storing a batch did. `fenced` chunks were no longer ours."""

    verdicts: Sequence[StoredVerdict]
    fenced: int


class _SomeAreJudgedError(Exception):
    """COPY met a verdict that was there already."""


def store_verdicts(
    *,
    claim: Claim,
    verdicts: Sequence[StoredVerdict],
    timings: Sequence[Timing],
    unfinished_chunk_ids: Collection[int] = (),
    again_after_s: float = 0.0,
    keep_claim: bool = False,
) -> Stored:
    """Write what was concluded about a claim's messages, and end or release its chunks.

    Args:
        claim: what this worker claimed.
        verdicts: of messages in these chunks.
        timings: of each verdict, in the same order.
        unfinished_chunk_ids: chunks with messages that got no verdict; they stay in the backlog.
        again_after_s: when those are due again.
        keep_claim: end nothing yet; there is more to come of this claim.

    Raises:
        django.db.OperationalError: the database is away; nothing was stored.
    """

    def take(cursor: Cursor) -> set[int]:
        if keep_claim:
            return _lock_chunks(cursor, claim)
        return _end_chunks(cursor, claim, unfinished_chunk_ids, again_after_s)

    for attempt in range(_ATTEMPTS):
        try:
            with transaction.atomic():
                return _store(claim, verdicts, timings, take, leave_out_judged=attempt > 0)
        except _SomeAreJudgedError:
            continue
    raise RuntimeError("verdicts kept appearing while a batch of them was stored")


def _store(
    claim: Claim,
    verdicts: Sequence[StoredVerdict],
    timings: Sequence[Timing],
    take_chunks: Callable[[Cursor], set[int]],
    *,
    leave_out_judged: bool,
) -> Stored:
    with connection.wrap_database_errors, raw_cursor() as cursor:
        held = take_chunks(cursor)
        out = _deleted_ids(cursor, held)
        if leave_out_judged:
            out |= _judged_ids(cursor, verdicts)
        kept, times = _only(verdicts, timings, held, out, is_all=len(held) == len(claim.chunks))
        insert_verdicts(cursor, kept, times)
    return Stored(kept, len(claim.chunks) - len(held))


def insert_verdicts(
    cursor: Cursor, verdicts: Sequence[StoredVerdict], timings: Sequence[Timing]
) -> None:
    """Write verdicts with all that follows from them. The caller has locked their chunks, and
    left out messages that were deleted.
    """
    _copy(cursor, verdicts, timings)
    feed_sinks(verdicts)
    tell_viewers(verdicts)


# By their ids, as whoever deletes messages locks them.
_LOCK = "SELECT id FROM chat_chunk WHERE claim_id = %s AND id = ANY(%s) ORDER BY id FOR UPDATE"
_END = f"""
WITH ours AS MATERIALIZED ({_LOCK})
DELETE FROM chat_chunk USING ours WHERE chat_chunk.id = ours.id RETURNING ours.id
"""  # noqa: S608


def _lock_chunks(cursor: Cursor, claim: Claim) -> set[int]:
    cursor.execute(_LOCK, [claim.id, claim.chunk_ids])
    return {id_ for (id_,) in cursor.fetchall()}


def _end_chunks(
    cursor: Cursor, claim: Claim, unfinished: Collection[int], again_after_s: float
) -> set[int]:
    """Lock the chunks that are still ours: the finished ones go, the others stay for later."""
    if unfinished:
        _lock_chunks(cursor, claim)
    finished = [id_ for id_ in claim.chunk_ids if id_ not in unfinished]
    cursor.execute(_END, [claim.id, finished])
    held = {id_ for (id_,) in cursor.fetchall()}
    return held | release_chunks(claim, unfinished, after_s=again_after_s) if unfinished else held


# As in `claims`: a range at a time, whatever the planner knows of the table.
_DELETED = f"""
SELECT message.id FROM unnest(%s::bigint[]) AS chunk (id)
CROSS JOIN LATERAL (
  SELECT id FROM chat_message
  WHERE id >= chunk.id << {CHUNK_ID_BITS} AND id < (chunk.id + 1) << {CHUNK_ID_BITS}
    AND deleted_at IS NOT NULL
  ORDER BY id LIMIT {IDS_PER_CHUNK}
) AS message
"""  # noqa: S608  (a constant of ours)


def _deleted_ids(cursor: Cursor, chunk_ids: Iterable[int]) -> set[int]:
    cursor.execute(_DELETED, [list(chunk_ids)])
    return {id_ for (id_,) in cursor.fetchall()}


def _judged_ids(cursor: Cursor, verdicts: Sequence[StoredVerdict]) -> set[int]:
    cursor.execute(
        "SELECT message_id FROM scoring_verdict"
        " WHERE message_id = ANY(%s) AND release_id = ANY(%s)",
        # Of two, when another came into force between the lists' turn and the model's.
        [[v.message_id for v in verdicts], list({v.release_id for v in verdicts})],
    )
    return {id_ for (id_,) in cursor.fetchall()}


def _only(
    verdicts: Sequence[StoredVerdict],
    timings: Sequence[Timing],
    held: set[int],
    left_out: set[int],
    *,
    is_all: bool,
) -> tuple[Sequence[StoredVerdict], Sequence[Timing]]:
    if is_all and not left_out:
        return verdicts, timings
    kept = [
        (verdict, timing)
        for verdict, timing in zip(verdicts, timings, strict=True)
        if verdict.message_id >> CHUNK_ID_BITS in held and verdict.message_id not in left_out
    ]
    return [verdict for verdict, _ in kept], [timing for _, timing in kept]


_COPY = """
COPY scoring_verdict (message_id, release_id, policy_version_id, source, label, action,
  acting_label, score_ok, score_spam, score_toxic, score_ad, undone, reasons, queue_ms,
  inference_ms, total_ms) FROM STDIN
"""
_NULL = "\\N"
_SCORES = "{:.7g}\t{:.7g}\t{:.7g}\t{:.7g}".format
_NO_SCORES = "\t".join([_NULL] * 4)


def _copy(
    cursor: Cursor,
    verdicts: Sequence[StoredVerdict],
    timings: Sequence[Timing],
) -> None:
    if not verdicts:
        return
    lines = map(_line, verdicts, timings)
    try:
        with cursor.copy(_COPY) as copy:
            copy.write("".join(lines))
    except psycopg.errors.UniqueViolation as error:
        raise _SomeAreJudgedError from error


def _line(verdict: StoredVerdict, timing: Timing) -> str:
    """One row in COPY's text format. No value holds a character that would need escaping.

    Joined, not formatted: `join` takes a label as the string that it is, where an f-string asks
    the enum for it, at four times the price.
    """
    scores = verdict.scores
    return "\t".join(
        (
            str(verdict.message_id),
            str(verdict.release_id),
            str(verdict.policy_version_id),
            verdict.source,
            verdict.label or _NULL,
            verdict.action,
            verdict.acting_label or _NULL,
            _NO_SCORES if scores is None else _SCORES(*scores),
            str(verdict.undone),
            _array(verdict.reasons),
            _span(timing),
        )
    )


@lru_cache(maxsize=4096)
def _array(words: tuple[str, ...]) -> str:
    return f"{{{','.join(words)}}}"


# One timing a chunk, so a batch has a few.
@lru_cache(maxsize=64)
def _span(timing: Timing) -> str:
    return f"{timing.queue_ms:.2f}\t{timing.inference_ms:.2f}\t{timing.total_ms:.2f}\n"
