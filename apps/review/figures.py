"""How review goes: speed, waiting, and how often people agree with the policy and each other."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

DAYS = 14


@dataclass(frozen=True, slots=True)
class DayFigures:
    """One day's first decisions. Shares are 0 to 1; None where there was nothing to share."""

    day: str
    decisions: int
    moderators: int
    to_decision_p50_s: float | None
    to_decision_p95_s: float | None
    taken_back: int
    overturned: int
    overturn_share: float | None


@dataclass(frozen=True, slots=True)
class LabelFigures:
    """Of what was flagged as `label` and decided: how much people confirmed as that label."""

    label: str
    decided: int
    confirmed: int
    precision: float | None


# A decision taken back within the grace time was never told; an overturned one has a reversal.
_DAYS = """
SELECT (d.decided_at AT TIME ZONE %(zone)s)::date::text AS day,
  count(*) FILTER (WHERE d.undone_at IS NULL OR r.id IS NOT NULL) AS decisions,
  count(DISTINCT d.moderator_id) AS moderators,
  percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM d.decided_at - i.opened_at)),
  percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM d.decided_at - i.opened_at)),
  count(*) FILTER (WHERE d.undone_at IS NOT NULL AND r.id IS NULL) AS taken_back,
  count(r.id) AS overturned
FROM review_decision d
JOIN review_reviewitem i ON i.message_id = d.item_id
LEFT JOIN review_decision r ON r.reverses_id = d.id
WHERE d.reverses_id IS NULL AND d.decided_at >= %(since)s
  AND (%(moderator)s::bigint IS NULL OR d.moderator_id = %(moderator)s)
GROUP BY 1 ORDER BY 1 DESC
"""

_LABELS = """
SELECT i.label, count(*), count(*) FILTER (WHERE d.label = i.label)
FROM review_decision d JOIN review_reviewitem i ON i.message_id = d.item_id
WHERE d.undone_at IS NULL AND i.cause = 'flagged' AND i.label IS NOT NULL
  AND d.decided_at >= %(since)s
  AND (%(moderator)s::bigint IS NULL OR d.moderator_id = %(moderator)s)
GROUP BY 1 ORDER BY 1
"""


def by_day(*, now: datetime, zone: str, moderator: int | None) -> list[DayFigures]:
    """The last DAYS days that had decisions, newest first; of one person, or of all."""
    rows = _rows(_DAYS, now=now, zone=zone, moderator=moderator)
    return [DayFigures(*[*row, _share(row[6], row[1])]) for row in rows]


def by_label(*, now: datetime, moderator: int | None) -> list[LabelFigures]:
    """How precise each label was over the last DAYS days, by what people decided."""
    rows = _rows(_LABELS, now=now, moderator=moderator)
    return [LabelFigures(*[*row, _share(row[2], row[1])]) for row in rows]


def as_rows(figures: list[DayFigures]) -> list[dict[str, Any]]:
    return [asdict(day) for day in figures]


def _rows(query: str, *, now: datetime, **values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, {"since": now - timedelta(days=DAYS), **values})
        return list(cursor.fetchall())


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
