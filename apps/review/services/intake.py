"""What puts messages in the queue and takes them out again without a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.utils import timezone

from apps.chat.models import CHUNK_ID_BITS, IDS_PER_CHUNK
from apps.policies.judging import LABELS
from apps.policies.models import Action, Label
from apps.review.announce import announce
from apps.review.grams import indexed
from apps.review.language import guess
from apps.review.models import Cause, ReviewItem, ReviewState
from apps.review.ranking import base_priority, rank
from apps.review.services.joint import close_all, join
from apps.review.services.reports import carry_over
from apps.review.services.waves import Places, place
from apps.review.statements import fetch_rows
from apps.scoring.claims import array_literal, raw_cursor
from apps.scoring.sinks import StoredVerdict

_TEXTS = "SELECT id, text FROM chat_message WHERE id = ANY(%s::bigint[])"

# A second verdict of the same message (another release, or the model after the rules) renews an
# open item, so that whoever has it open is told; what a person decided stays, and so does what
# people asked for: a verdict neither ends a report nor makes it less urgent.
_OPEN = """
INSERT INTO review_reviewitem
  (message_id, group_id, cause, label, language, score, priority, rank, grams, wave_id, state,
   version, opened_at)
SELECT id, group_id, cause, label, language, score, priority, rank, grams::int[], wave_id,
  state, 1, %(now)s
FROM unnest(%(ids)s::bigint[], %(groups)s::bigint[], %(causes)s::text[], %(labels)s::text[],
            %(languages)s::text[], %(scores)s::float8[], %(priorities)s::float8[],
            %(ranks)s::float8[], string_to_array(%(grams)s, '|'),
            %(waves)s::bigint[], %(states)s::text[])
     AS new (id, group_id, cause, label, language, score, priority, rank, grams, wave_id, state)
ON CONFLICT (message_id) DO UPDATE
SET cause = CASE WHEN review_reviewitem.cause IN ('flagged', 'undetermined')
      THEN EXCLUDED.cause ELSE review_reviewitem.cause END,
    label = COALESCE(EXCLUDED.label, CASE WHEN review_reviewitem.cause IN ('reported', 'appealed')
      THEN review_reviewitem.label END),
    priority = GREATEST(EXCLUDED.priority,
      CASE WHEN review_reviewitem.reports > 0 THEN review_reviewitem.priority END),
    rank = GREATEST(EXCLUDED.rank,
      CASE WHEN review_reviewitem.reports > 0 THEN review_reviewitem.rank END),
    score = COALESCE(EXCLUDED.score, CASE WHEN review_reviewitem.cause = 'reported'
      THEN review_reviewitem.score END),
    version = review_reviewitem.version + 1
WHERE review_reviewitem.state = 'open'
RETURNING message_id, xmax = 0 AS is_new
"""

# Whoever has a wave open must look again when the verdict of one of its members has changed.
_RENEW_LEASED = """
UPDATE review_reviewitem SET version = version + 1
WHERE state = 'open' AND message_id = ANY(%(ids)s)
RETURNING message_id
"""

# All items there are that a batch touches, by their ids, as everybody locks several of them; of
# them those that somebody has open in whose wave a verdict changes. `_OPEN` and what comes after
# it find locked what they update.
_LOCK_TOUCHED = """
WITH touched AS (
  SELECT unnest(%(touched)s::bigint[]) AS id, false AS is_leased
  UNION ALL
  SELECT older.id, false FROM chat_message AS newer
  JOIN chat_message AS older USING (group_id, external_id)
  WHERE newer.id = ANY(%(revised)s) AND older.revision < newer.revision
  UNION ALL
  SELECT mate.message_id, true FROM review_reviewitem AS renewed
  JOIN review_reviewitem AS mate ON mate.wave_id = renewed.wave_id
  WHERE renewed.message_id = ANY(%(renewed)s) AND mate.state = 'open'
    AND mate.lease_until > %(now)s AND mate.message_id <> ALL(%(renewed)s)
), once AS (SELECT id, bool_or(is_leased) AS is_leased FROM touched GROUP BY id)
SELECT item.message_id, once.is_leased FROM review_reviewitem AS item
JOIN once ON once.id = item.message_id ORDER BY item.message_id FOR UPDATE OF item
"""

# By the chunks that a batch is from: two index ranges a chunk, nearly always empty. Looking up
# each judged message instead was a third of what PostgreSQL did for a verdict.
# Each range by itself, in order and with a limit, keeps the planner from reading whole tables
# while its statistics are from before they grew.
_CANDIDATES = f"""
SELECT found.id, found.is_revision FROM unnest(%(chunks)s::bigint[]) AS chunk (id)
CROSS JOIN LATERAL (
  (SELECT id, true AS is_revision FROM chat_message
   WHERE revision > 1
     AND id >= chunk.id << {CHUNK_ID_BITS} AND id < (chunk.id + 1) << {CHUNK_ID_BITS}
   ORDER BY id LIMIT {IDS_PER_CHUNK})
  UNION ALL
  (SELECT message_id, false FROM review_reviewitem
   WHERE state = 'open' AND message_id >= chunk.id << {CHUNK_ID_BITS}
     AND message_id < (chunk.id + 1) << {CHUNK_ID_BITS}
   ORDER BY message_id LIMIT {IDS_PER_CHUNK})
) AS found
"""  # noqa: S608 (a constant of ours)

# Older revisions of what was just judged, and open items that the machine now decides itself,
# unless people asked for a person.
_WITHDRAW_SUPERSEDED = """
WITH gone AS (
  SELECT older.id, true AS is_replaced FROM chat_message newer
  JOIN chat_message older USING (group_id, external_id)
  WHERE newer.id = ANY(%(revised)s) AND older.revision < newer.revision
  UNION ALL SELECT unnest(%(settled)s::bigint[]), false
)
UPDATE review_reviewitem AS item
SET state = 'withdrawn', version = version + 1,
    leased_by_id = NULL, lease_token = NULL, lease_until = NULL
FROM gone
WHERE item.state = 'open' AND item.message_id = gone.id AND (
  gone.is_replaced OR (item.reports = 0 AND item.cause IN ('flagged', 'undetermined')))
RETURNING item.message_id
"""


def take_in(verdicts: Sequence[StoredVerdict]) -> None:
    """Open an item for each held message; withdraw what the verdicts make pointless.

    A near-duplicate of what was just decided as a wave is decided like it, and waits for nobody.

    Runs inside the transaction that stores the verdicts, with a fixed number of statements.
    Removed messages are not queued: the policy was sure, and people see them on appeal.
    """
    now = timezone.now()
    held = [v for v in verdicts if v.action == Action.HOLD]
    there = _what_is_there(verdicts)
    placed = _place(held, now) if held else None  # locks waves, so before any item
    leased = _lock_touched(there, now) if any(there) else []
    opened = _open(held, placed, now) if placed else []
    opened += _renew_leased(leased) if leased else []
    withdrawn = _withdraw_superseded(there) if there.revised or there.settled else []
    if there.revised:
        carry_over(there.revised)
    announce("opened", sorted(opened))
    announce("withdrawn", sorted(withdrawn))


class _Placed(NamedTuple):
    """What an item is made of beside its verdict: the texts, and where each belongs."""

    texts: Mapping[int, str]
    places: Places


def _place(held: Sequence[StoredVerdict], now: datetime) -> _Placed:
    with connection.wrap_database_errors, raw_cursor() as cursor:
        cursor.execute(_TEXTS, [array_literal(v.message_id for v in held)])
        texts = dict(cursor.fetchall())
    return _Placed(texts, place(texts, now=now))


def _open(held: Sequence[StoredVerdict], placed: _Placed, now: datetime) -> list[int]:
    texts, places = placed
    rows = [_row(v, texts[v.message_id], places, now) for v in sorted(held)]
    columns = {name: array_literal(row[name] for row in rows) for name in rows[0]}
    # Rows of different lengths can't be one array of arrays.
    columns["grams"] = "|".join(row["grams"] for row in rows)
    # psycopg's own cursor: Django's writes values into the statement, and lists one by one.
    with connection.wrap_database_errors, raw_cursor() as cursor:
        cursor.execute(_OPEN, {**columns, "now": now})
        stored = dict(cursor.fetchall())
    joined = {id_: places.joining[id_] for id_ in stored.keys() & places.joining.keys()}
    join({id_: joint for id_, joint in joined.items() if stored[id_]}, now=now)
    return [id_ for id_, is_new in stored.items() if not (is_new and id_ in joined)]


def _row(verdict: StoredVerdict, text: str, places: Places, now: datetime) -> dict[str, Any]:
    """The parameters of `_OPEN` for one item, as `array_literal` takes them."""
    label = verdict.acting_label or verdict.label
    score = _score(verdict, label)
    priority = base_priority(label, score)
    is_joining = verdict.message_id in places.joining
    return {
        "ids": verdict.message_id,
        "groups": verdict.group_id,
        "causes": Cause.UNDETERMINED if verdict.label is None else Cause.FLAGGED,
        "labels": label or "NULL",
        "languages": guess(text),
        "scores": "NULL" if score is None else score,
        "priorities": priority,
        "ranks": rank(priority, now),
        "grams": array_literal(indexed(text)),
        "waves": places.waves.get(verdict.message_id, "NULL"),
        "states": ReviewState.DECIDED if is_joining else ReviewState.OPEN,
    }


def _lock_touched(there: _There, now: datetime) -> list[int]:
    """Lock all items that the batch will touch; returns those to renew: see `_LOCK_TOUCHED`."""
    parameters = {
        "touched": [*there.renewed, *there.settled, *there.revised],
        "renewed": there.renewed,
        "revised": there.revised,
        "now": now,
    }
    return [id_ for id_, is_leased in fetch_rows(_LOCK_TOUCHED, parameters) if is_leased]


def _renew_leased(item_ids: Sequence[int]) -> list[int]:
    return [id_ for (id_,) in fetch_rows(_RENEW_LEASED, {"ids": item_ids})]


def _score(verdict: StoredVerdict, label: Label | None) -> float | None:
    """The score of `label`. A rule that acts without scores is sure."""
    if label is None:
        return None
    return 1.0 if verdict.scores is None else verdict.scores[LABELS.index(label)]


class _There(NamedTuple):
    """What a batch meets: judged messages that are a later `revised` one of others, and whose item
    is open already and is `settled` by the verdict or `renewed`.
    """

    revised: list[int]
    settled: list[int]
    renewed: list[int]


def _what_is_there(verdicts: Sequence[StoredVerdict]) -> _There:
    chunks = {verdict.message_id >> CHUNK_ID_BITS for verdict in verdicts}
    with connection.wrap_database_errors, raw_cursor() as cursor:
        cursor.execute(_CANDIDATES, {"chunks": array_literal(chunks)})
        candidates = cursor.fetchall()
    if not candidates:
        return _There([], [], [])
    actions = {verdict.message_id: verdict.action for verdict in verdicts}
    judged = [found for found in candidates if found[0] in actions]
    opened = [id_ for id_, is_revision in judged if not is_revision]
    return _There(
        revised=[id_ for id_, is_revision in judged if is_revision],
        settled=[id_ for id_ in opened if actions[id_] != Action.HOLD],
        renewed=[id_ for id_ in opened if actions[id_] == Action.HOLD],
    )


def _withdraw_superseded(there: _There) -> list[int]:
    parameters = {"revised": there.revised, "settled": there.settled}
    return [id_ for (id_,) in fetch_rows(_WITHDRAW_SUPERSEDED, parameters)]


@transaction.atomic
def withdraw(*, message_ids: Sequence[int]) -> int:
    """Take items out whose messages were deleted; returns how many were open."""
    open_ids = list(
        ReviewItem.objects.select_for_update()
        .filter(pk__in=message_ids, state=ReviewState.OPEN)
        .order_by("pk")
        .values_list("pk", flat=True)
    )
    close_all(open_ids, ReviewState.WITHDRAWN)
    announce("withdrawn", open_ids)
    return len(open_ids)


def close(item: ReviewItem, state: ReviewState) -> None:
    """End an item that the caller has locked."""
    item.state = state
    item.version += 1
    item.leased_by = None
    item.lease_token = None
    item.lease_until = None
    item.save(update_fields=["state", "version", "leased_by", "lease_token", "lease_until"])
