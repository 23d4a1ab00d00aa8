"""The list beside the card: the first rows of a part of the queue, and its figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.core.cutting import cut_whole
from apps.policies.models import Label
from apps.review.models import Cause
from apps.review.queue import Part, QueueFilters, part_of
from apps.review.ranking import level
from apps.review.statements import GROUP_NAME, fetch_row, fetch_rows
from apps.review.wave_facts import WaveFacts, facts_of, one_a_wave

QUEUE_ROWS = 50
ROW_CHARS = 160
# Counting further would cost more than the number tells; the page says "1,000+".
FOUND_MOST = 1000
# The groups with the most open items are offered as a filter; others are reached by the address.
GROUPS_LISTED = 100
PACE_MINUTES = 10


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has an item open."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One line of the queue: an item, or the first of a wave. `holder` has it open now."""

    item_id: int
    label: Label | None
    group: str
    text: str
    rank: float
    level: int
    opened_at: datetime
    reports: int
    is_escalated: bool
    holder: Holder | None
    wave: WaveFacts | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """What came into the whole queue and what was decided a minute, over the last PACE_MINUTES."""

    arrived_per_min: float
    decided_per_min: float


@dataclass(frozen=True, slots=True)
class QueuePage:
    """The first rows and the counts of a part of the queue.

    `by_label[None]` is undetermined. `found` is how many match a search; beyond FOUND_MOST they
    are not counted, and it is one more. Counts are of messages; the rows stand for `shown`.
    """

    rows: Sequence[QueueRow]
    total: int
    leased: int
    oldest: datetime | None
    by_label: dict[str | None, int]
    pace: Pace
    shown: int
    found: int | None = None
    # Of a part by cause, which no count tells; capped likewise.
    of_cause: int | None = None

    @property
    def found_is_capped(self) -> bool:
        return self.found is not None and self.found > FOUND_MOST


def queue_page(user: User, filters: QueueFilters, *, now: datetime | None = None) -> QueuePage:
    """The queue as `user` sees it, one row a wave, in a few statements whatever its size."""
    now = now or timezone.now()
    part = part_of(user, filters)
    found = _rows(user, part, now)
    by_label, leased, oldest, pace, matches = _figures(user, filters, part, now)
    is_search = bool(filters.text)
    return QueuePage(
        rows=[row for row, _ in found],
        total=sum(by_label.values()),
        leased=leased,
        oldest=oldest,
        by_label=by_label,
        pace=pace,
        shown=_shown(part, found),
        found=matches if is_search else None,
        of_cause=None if is_search else matches,
    )


# ---------- rows ----------

_ROWS = f"""
SELECT item.message_id, item.label, {GROUP_NAME},
  left(message.text, {ROW_CHARS + 1}), item.rank, item.opened_at, item.reports,
  item.escalated_by_id IS NOT NULL, holder.id, holder.username, item.wave_id
FROM review_reviewitem AS item
JOIN chat_message AS message ON message.id = item.message_id
JOIN chat_group ON chat_group.id = item.group_id
LEFT JOIN accounts_user AS holder ON holder.id = item.leased_by_id AND item.lease_until > %(now)s
WHERE item.message_id = ANY(%(ids)s)
ORDER BY item.rank DESC, item.message_id
"""  # noqa: S608 (a constant of ours)

# A row and the wave it is of, also where it is the only one that waits.
_RowOfWave = tuple[QueueRow, int | None]


def _rows(user: User, part: Part, now: datetime) -> list[_RowOfWave]:
    ids = one_a_wave(part, QUEUE_ROWS)
    if not ids:
        return []
    found = fetch_rows(_ROWS, {"ids": ids, "now": now})
    waves = facts_of(user, {wave_id for *_, wave_id in found if wave_id}, now=now)
    elsewhere = _holders({wave.holder_id for wave in waves.values() if wave.holder_id})
    return [_row(columns, waves, elsewhere, now) for columns in found]


def _row(
    columns: tuple[Any, ...],
    waves: dict[int, WaveFacts],
    elsewhere: dict[int, Holder],
    now: datetime,
) -> _RowOfWave:
    id_, label, group, text, rank, opened_at, reports, is_up, holder_id, name, wave_id = columns
    wave = waves.get(wave_id or 0)
    holder = elsewhere.get(wave.holder_id) if wave and wave.holder_id else None
    row = QueueRow(
        item_id=id_,
        label=Label(label) if label else None,
        group=group,
        text=cut_whole(text, ROW_CHARS),
        rank=rank,
        level=level(rank, now),
        opened_at=opened_at,
        reports=reports,
        is_escalated=is_up,
        holder=Holder(holder_id, name) if holder_id else holder,
        wave=wave,
    )
    return row, wave_id


def _holders(ids: Iterable[int]) -> dict[int, Holder]:
    found = User.objects.filter(pk__in=ids).values_list("pk", "username") if ids else ()
    return {id_: Holder(id_, name) for id_, name in found}


def _shown(part: Part, rows: Sequence[_RowOfWave]) -> int:
    waves = {wave_id for row, wave_id in rows if row.wave}
    alone = len(rows) - len(waves)
    if not waves:
        return alone
    members = part.narrowed("item.wave_id = ANY(%(waves)s)", waves=list(waves))
    counted: int = members.rows("count(*)")[0][0]
    return alone + counted


# ---------- figures ----------


def _figures(
    user: User, filters: QueueFilters, part: Part, now: datetime
) -> tuple[dict[str | None, int], int, datetime | None, Pace, int | None]:
    """Counts by label, how many somebody has open, the oldest, the pace, and matches if counted.

    Counts go over all labels, so that the other parts can be seen from any part. They are sums of
    the tally, less the appeals against the user's own decisions: those count for others.
    """
    counted = [] if may(user, Permission.REVIEW_LEAD) else ["NOT is_escalated"]
    counted += ["group_id = %(group)s"] if filters.group_id is not None else []
    counted += ["language = %(language)s"] if filters.language is not None else []
    start = now.replace(second=0, microsecond=0) - timedelta(minutes=PACE_MINUTES)
    parameters = {**part.parameters, "now": now, "start": start, "most": FOUND_MOST + 1}
    is_counted = filters.text or filters.cause not in (None, Cause.UNDETERMINED)
    sql = _FIGURES.format(
        tally=" AND ".join(counted) or "true",
        barred=" AND ".join(counted).replace("NOT is_escalated", "escalated_by_id IS NULL")
        or "true",
        part=part.sql,
        matches=_MATCHES.format(part=part.sql) if is_counted else "NULL",
    )
    by_label, barred, leased, oldest, arrived, decided, matches = fetch_row(sql, parameters)
    counts = {label or None: count for label, count in json.loads(by_label).items()}
    for label, count in json.loads(barred).items():
        counts[label or None] = counts.get(label or None, 0) - count
    minutes = (now - start).total_seconds() / 60
    pace = Pace((arrived or 0) / minutes, max(decided or 0, 0) / minutes)
    return counts, leased, oldest, pace, matches


# One statement, so one snapshot: a message that is taken off one figure is not on another. `{part}`
# and the like are conditions of `part_of`, without anything that people wrote.
_FIGURES = """
SELECT
  (SELECT coalesce(jsonb_object_agg(coalesce(label, ''), waiting), '{{}}') FROM (
    SELECT label, sum(change) AS waiting FROM review_queuetally WHERE {tally} GROUP BY label
  ) AS tally),
  (SELECT coalesce(jsonb_object_agg(coalesce(label, ''), waiting), '{{}}') FROM (
    SELECT label, count(*) AS waiting FROM review_reviewitem
    WHERE state = 'open' AND barred_id = %(user)s AND {barred} GROUP BY label
  ) AS barred),
  (SELECT count(*) FROM review_reviewitem AS item
    WHERE {part} AND leased_by_id IS NOT NULL AND lease_until > %(now)s),
  (SELECT opened_at FROM review_reviewitem AS item WHERE {part} ORDER BY opened_at LIMIT 1),
  pace.arrived, pace.decided, {matches}
FROM (
  SELECT sum(arrived)::bigint AS arrived, sum(decided)::bigint AS decided
  FROM review_queueflow WHERE minute >= %(start)s
) AS pace
"""
_MATCHES = """(SELECT count(*) FROM (
    SELECT FROM review_reviewitem AS item WHERE {part} LIMIT %(most)s
  ) AS matches)"""


# ---------- the parts that are offered ----------

_BUSIEST = f"""
SELECT id, {GROUP_NAME} FROM chat_group
WHERE id = %(chosen)s OR id IN (
  SELECT group_id FROM review_queuetally WHERE %(is_lead)s OR NOT is_escalated
  GROUP BY group_id HAVING sum(change) > 0 ORDER BY sum(change) DESC LIMIT %(listed)s
)
"""  # noqa: S608 (a constant of ours)


def groups_with_work(user: User, chosen: int | None) -> list[tuple[int, str]]:
    """Id and name of the GROUPS_LISTED groups with most open items, and the chosen one, by name.

    From the counts, not from the items: a look at each group's items took eight milliseconds.
    """
    is_lead = may(user, Permission.REVIEW_LEAD)
    found = fetch_rows(_BUSIEST, {"chosen": chosen, "is_lead": is_lead, "listed": GROUPS_LISTED})
    return sorted(((id_, name) for id_, name in found), key=_by_name)


def _by_name(group: tuple[int, str]) -> tuple[str, int]:
    return group[1].casefold(), group[0]
