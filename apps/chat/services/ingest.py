"""Storing what backends send: many messages, one transaction, each key once.

Three statements whatever the number of messages: lock and number, insert, and, only when some
were not stored, find out why; two more for groups and senders that are new to this process. The
messages travel as one JSON parameter, which costs the client a third of what arrays cost (see
docs/architecture.md for the ways measured).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec
import psycopg
from django.db import connection, transaction

from apps.chat.backlog import TURN, plan_chunks
from apps.chat.known import RecentNames
from apps.chat.locks import DELETION_LOCK, buckets_of
from apps.chat.models import CHUNK_ID_BITS, NOBODY

_ATTEMPTS = 3

_known_groups = RecentNames(capacity=20_000)
_known_senders = RecentNames(capacity=100_000)


class NewMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One revision of a message as its backend sent it; checked by whoever calls.

    Texts hold neither NUL nor lone surrogates, `sent_at` is in UTC, `metadata` is a JSON object.
    """

    group: str
    external_id: str
    revision: int = 1
    sender: str
    sender_name: str = ""
    text: str
    quoted_text: str = ""
    reply_to: str = ""
    metadata: msgspec.Raw | None = None
    sent_at: datetime | None = None


class Outcome(Enum):
    NEW = "new"
    REPEATED = "repeated"
    # The key is taken by a message of another sender, text or quoted text. Nothing was stored.
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of one message. `id` is the one stored under its key, now or before."""

    id: int
    outcome: Outcome
    is_deleted: bool


class IngestContended(Exception):  # noqa: N818
    """Rows kept vanishing while messages were stored. Nothing was stored; try again."""


def ingest_messages(*, messages: Sequence[NewMessage]) -> list[Ingested]:
    """Store messages, each `(group, external_id, revision)` once, and answer in their order.

    One transaction. Groups and senders are made when first seen. A message whose key is stored
    already, by an earlier call or earlier in this one, answers with the first one's id. One that
    was deleted before it came is stored as deleted and never judged.

    Raises:
        IngestContended: rows vanished under three attempts.
        django.db.OperationalError: the database is away; storing again is safe.
    """
    if not messages:
        return []
    with transaction.atomic():
        ingested, names = _Ingest(messages).run()
    _known_groups.remember(names.groups)
    _known_senders.remember(names.senders)
    return ingested


@dataclass(slots=True)
class _Names:
    groups: dict[str, str]
    senders: dict[str, str]


class _Chunk(msgspec.Struct):
    """A line of the other JSON parameter: a chunk's place in line (see `backlog`)."""

    id: int
    lane: int
    skip: int
    cost: int


class _Row(msgspec.Struct):
    """A line of the JSON parameter; the names are the columns of `_INPUT`."""

    id: int
    g: str
    x: str
    r: int
    s: str
    t: str
    q: str
    p: str
    m: msgspec.Raw | None
    d: datetime | None


_INPUT = """json_to_recordset(%s::json) AS i(id bigint, g text, x text, r integer, s text,
    t text, q text, p text, m jsonb, d timestamptz)"""

_LOCK_AND_NUMBER = f"""
WITH locked AS MATERIALIZED (
  SELECT pg_advisory_xact_lock_shared({DELETION_LOCK}, bucket) FROM unnest(%s::integer[]) bucket
)
SELECT nextval('chat_chunk_number')
FROM generate_series(1, %s), (SELECT count(*) FROM locked) AS done
"""  # noqa: S608

# Whether what a reply quotes is erased. Not EXISTS, and with a limit: the planner would take it
# for cheaper to read all deletions, while its statistics are from before there were many.
_QUOTED_IS_ERASED = """coalesce((SELECT e.erased_at IS NOT NULL FROM chat_deletion e
    WHERE e.group_id = g.id AND e.external_id = {reply_to} LIMIT 1), false)"""

# Sorted by key: two requests with the same keys wait for each other in one order, not a circle.
# What comes under the key of an erased message, or quotes one, is stored without what it says.
_INSERT = f"""
WITH stored AS (
  INSERT INTO chat_message (id, group_id, external_id, revision, sender_id, text, quoted_text,
    reply_to, metadata, sent_at, deleted_at)
  SELECT i.id, g.id, i.x, i.r, s.id,
    CASE WHEN d.is_erased THEN '' ELSE i.t END,
    CASE WHEN i.q = '' OR d.is_erased THEN ''
      WHEN i.p <> '' AND {_QUOTED_IS_ERASED.format(reply_to="i.p")} THEN '' ELSE i.q END,
    CASE WHEN d.is_erased THEN '' ELSE i.p END,
    CASE WHEN d.is_erased THEN NULL ELSE i.m END,
    i.d, d.deleted_at
  FROM {_INPUT}
    JOIN chat_group g ON g.external_id = i.g
    LEFT JOIN LATERAL (
      SELECT deleted_at, erased_at IS NOT NULL AS is_erased FROM chat_deletion
      WHERE group_id = g.id AND external_id = i.x LIMIT 1
    ) AS d ON true
    JOIN chat_sender s ON s.external_id = CASE WHEN d.is_erased THEN '{NOBODY}' ELSE i.s END
  ORDER BY g.id, i.x COLLATE "C", i.r, i.id
  ON CONFLICT (group_id, external_id, revision) DO NOTHING
  RETURNING id, deleted_at IS NOT NULL AS is_deleted
), chunks AS (
  INSERT INTO chat_chunk (id, size, lane, start_tag, finish_tag)
  SELECT c.id, waiting.size, c.lane, turn.start, turn.start + least(c.cost, waiting.size)
  FROM (
    SELECT id >> {CHUNK_ID_BITS} AS id, count(*) AS size FROM stored WHERE NOT is_deleted GROUP BY 1
  ) AS waiting
    JOIN json_to_recordset(%s::json) AS c(id bigint, lane bigint, skip bigint, cost bigint)
      USING (id)
    CROSS JOIN LATERAL ({TURN}) AS turn
  -- A second attempt, after rows vanished, adds to the chunks of the first.
  ON CONFLICT (id) DO UPDATE SET size = chat_chunk.size + excluded.size
)
SELECT id, is_deleted FROM stored
"""  # noqa: S608

# A deleted message answers a repeat whatever it says: what it said may be erased by now. So does
# one whose sender's erasure has not come to it yet, and a quotation that was taken away.
_FIND_FIRST = f"""
SELECT i.id, m.id, gone.is_gone,
  gone.is_gone OR (m.text = i.t AND s.external_id = i.s AND (m.quoted_text = i.q
    OR (m.quoted_text = '' AND {_QUOTED_IS_ERASED.format(reply_to="m.reply_to")})))
FROM {_INPUT}
  JOIN chat_group g ON g.external_id = i.g
  JOIN chat_message m ON m.group_id = g.id AND m.external_id = i.x AND m.revision = i.r
  JOIN chat_sender s ON s.id = m.sender_id
  CROSS JOIN LATERAL (
    SELECT m.deleted_at IS NOT NULL OR s.erased_at IS NOT NULL AS is_gone
  ) AS gone
"""  # noqa: S608

_FIND_ERASED = """
SELECT i.g, i.x FROM unnest(%s::text[], %s::text[]) AS i (g, x)
  JOIN chat_group g ON g.external_id = i.g
  CROSS JOIN LATERAL (
    SELECT erased_at FROM chat_deletion
    WHERE group_id = g.id AND external_id = i.x LIMIT 1
  ) AS d
WHERE d.erased_at IS NOT NULL
"""

_ADD_GROUPS = """
INSERT INTO chat_group (external_id, name)
SELECT g, '' FROM unnest(%s::text[]) g ORDER BY g COLLATE "C"
ON CONFLICT (external_id) DO NOTHING
"""

_ADD_SENDERS = """
INSERT INTO chat_sender (external_id, name)
SELECT s, n FROM unnest(%s::text[], %s::text[]) i(s, n) ORDER BY s COLLATE "C"
ON CONFLICT (external_id) DO UPDATE SET name = excluded.name
WHERE excluded.name <> '' AND chat_sender.name <> excluded.name
"""


class _Ingest:
    """One call: the ids it gave out, and what became of each."""

    def __init__(self, messages: Sequence[NewMessage]) -> None:
        self._messages = messages
        self._ids: list[int] = []
        self._chunks: list[_Chunk] = []
        self._known: dict[int, Ingested] = {}
        self._names = _Names({}, {})

    def run(self) -> tuple[list[Ingested], _Names]:
        # psycopg's own cursor: Django's would write all texts into the statement itself.
        with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
            self._ids = self._take_ids(cursor)
            for attempt in range(_ATTEMPTS):
                missing = [
                    (id_, message)
                    for id_, message in zip(self._ids, self._messages, strict=True)
                    if id_ not in self._known
                ]
                if not missing:
                    break
                self._store(cursor, missing, trust_known=attempt == 0)
            else:
                if len(self._known) < len(self._ids):
                    raise IngestContended
        return [self._known[id_] for id_ in self._ids], self._names

    def _take_ids(self, cursor: psycopg.Cursor[Any]) -> list[int]:
        """An id for each message, and the place in line of the chunks that they are in."""
        groups = [m.group for m in self._messages]
        plans = plan_chunks(groups)
        cursor.execute(_LOCK_AND_NUMBER, [buckets_of(groups), len(plans)])
        ids = [0] * len(groups)
        for plan, (number,) in zip(plans, cursor.fetchall(), strict=True):
            self._chunks.append(_Chunk(number, plan.lane, plan.skip, plan.cost))
            for index, position in enumerate(plan.positions):
                ids[position] = number << CHUNK_ID_BITS | index
        return ids

    def _store(
        self,
        cursor: psycopg.Cursor[Any],
        missing: list[tuple[int, NewMessage]],
        *,
        trust_known: bool,
    ) -> None:
        self._add_groups_and_senders(cursor, [m for _, m in missing], trust_known=trust_known)
        rows = [_row(id_, message) for id_, message in missing]
        cursor.execute(_INSERT, [_encode(rows), _encode(self._chunks)])
        for id_, is_deleted in cursor.fetchall():
            self._known[id_] = Ingested(id_, Outcome.NEW, is_deleted)
        repeats = [row for row in rows if row.id not in self._known]
        if repeats:
            self._find_first(cursor, repeats)

    def _find_first(self, cursor: psycopg.Cursor[Any], repeats: list[_Row]) -> None:
        cursor.execute(_FIND_FIRST, [_encode(repeats)])
        for id_, first_id, is_deleted, is_same in cursor.fetchall():
            outcome = Outcome.REPEATED if is_same else Outcome.CONFLICT
            self._known[id_] = Ingested(first_id, outcome, is_deleted)

    def _add_groups_and_senders(
        self, cursor: psycopg.Cursor[Any], messages: list[NewMessage], *, trust_known: bool
    ) -> None:
        groups = {m.group: "" for m in messages}
        senders = _sender_names(messages)
        if trust_known:
            groups = _known_groups.unknown(groups)
            senders = _known_senders.unknown(senders)
        if groups:
            cursor.execute(_ADD_GROUPS, [list(groups)])
        if senders:
            senders = self._without_erased(cursor, messages, senders)
            cursor.execute(_ADD_SENDERS, [list(senders), list(senders.values())])
        self._names.groups.update(groups)
        self._names.senders.update(senders)

    def _without_erased(
        self, cursor: psycopg.Cursor[Any], messages: list[NewMessage], senders: dict[str, str]
    ) -> dict[str, str]:
        """Of `senders` those who send more than what is erased: a repeat brings back no name."""
        theirs = [message for message in messages if message.sender in senders]
        keys = [message.group for message in theirs], [message.external_id for message in theirs]
        cursor.execute(_FIND_ERASED, keys)
        erased = set(cursor.fetchall())
        if not erased:
            return senders
        return _sender_names([m for m in theirs if (m.group, m.external_id) not in erased])


def _sender_names(messages: list[NewMessage]) -> dict[str, str]:
    """Each sender's last name that is not empty."""
    names: dict[str, str] = {}
    for message in messages:
        if message.sender_name or message.sender not in names:
            names[message.sender] = message.sender_name
    return names


def _row(id_: int, m: NewMessage) -> _Row:
    return _Row(
        id_,
        m.group,
        m.external_id,
        m.revision,
        m.sender,
        m.text,
        m.quoted_text,
        m.reply_to,
        m.metadata,
        m.sent_at,
    )


def _encode(rows: list[_Row] | list[_Chunk]) -> str:
    return msgspec.json.encode(rows).decode()
