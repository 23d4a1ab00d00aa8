"""What the lists decided alone while the model was away, beside what was found since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db import connection

# Rows of one page, and verdicts counted: the newest of them.
SHOWN = 50
COUNTED = 20_000


class Fate(StrEnum):
    """What became of a verdict that the lists gave alone."""

    CHANGED = "changed"
    SAME = "same"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class FallbackRow:
    """One message: what the lists said, and what stands since; that is None while it waits.

    `text` is None for those who may not read messages.
    """

    message_id: int
    group: str
    text: str | None
    is_deleted: bool
    at: datetime
    label: str
    action: str
    reasons: Sequence[str]
    new_at: datetime | None
    new_source: str | None
    new_label: str | None
    new_action: str | None
    is_item: bool


@dataclass(frozen=True, slots=True)
class FallbackPage:
    """Of the newest `COUNTED` how many there are of each fate; then some of one of them."""

    counts: Mapping[Fate, int]
    moves: Sequence[tuple[str, str, str | None, str, int]]
    rows: Sequence[FallbackRow]
    next_before: int | None

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def is_capped(self) -> bool:
        return self.total == COUNTED


# The verdict that came later is the newest that somebody else gave. Ids sort by time, and the
# partial index holds these messages alone.
_BOTH = """
FROM (
  SELECT * FROM scoring_verdict WHERE source = 'fallback' AND message_id < %(before)s
  ORDER BY message_id DESC LIMIT %(most)s
) f
LEFT JOIN LATERAL (
  SELECT * FROM scoring_verdict WHERE message_id = f.message_id AND source <> 'fallback'
  ORDER BY created_at DESC LIMIT 1
) v ON true
"""
_COUNTS = f"""
SELECT v.message_id IS NULL, f.label, f.action, v.label, v.action, count(*) {_BOTH}
GROUP BY 1, 2, 3, 4, 5 ORDER BY 6 DESC
"""
_IS = {
    Fate.CHANGED: "v.message_id IS NOT NULL"
    " AND (v.label IS DISTINCT FROM f.label OR v.action <> f.action)",
    Fate.SAME: "v.label = f.label AND v.action = f.action",
    Fate.WAITING: "v.message_id IS NULL",
}
_ROWS = f"""
SELECT f.message_id, coalesce(nullif(g.name, ''), g.external_id),
  CASE WHEN %(with_text)s THEN m.text END,
  m.deleted_at IS NOT NULL, f.created_at, f.label, f.action, f.reasons,
  v.created_at, v.source, v.label, v.action, item.message_id IS NOT NULL
{_BOTH}
JOIN chat_message m ON m.id = f.message_id JOIN chat_group g ON g.id = m.group_id
LEFT JOIN review_reviewitem item ON item.message_id = f.message_id
WHERE {{fate}} ORDER BY f.message_id DESC LIMIT %(shown)s
"""
_NEWEST = 2**63 - 1


def fallback_page(
    fate: Fate, *, with_text: bool, before: int | None = None, shown: int = SHOWN
) -> FallbackPage:
    """Counts of the newest verdicts that the lists gave alone, and the newest of one fate.

    Args:
        fate: Which to list.
        with_text: For people who may read messages.
        before: Only messages with a lower id: the next page.
        shown: Rows at most.
    """
    counts = dict.fromkeys(Fate, 0)
    moves = []
    parameters = {"before": _NEWEST, "most": COUNTED}
    for is_waiting, label, action, new_label, new_action, count in _fetch(_COUNTS, parameters):
        is_same = (label, action) == (new_label, new_action)
        found = Fate.WAITING if is_waiting else Fate.SAME if is_same else Fate.CHANGED
        counts[found] += count
        if found is Fate.CHANGED:
            moves.append((label, action, new_label, new_action, count))
    parameters = {
        "before": before or _NEWEST,
        "most": COUNTED,
        "shown": shown + 1,
        "with_text": with_text,
    }
    rows = [FallbackRow(*row) for row in _fetch(_ROWS.format(fate=_IS[fate]), parameters)]
    next_before = rows[shown - 1].message_id if len(rows) > shown else None
    return FallbackPage(counts, moves, rows[:shown], next_before)


def _fetch(sql: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows
