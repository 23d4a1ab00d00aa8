"""How review goes: speed, waiting, and how often people agree with the policy and each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection

DAYS = 14


@dataclass(frozen=True, slots=True)
class DayFigures:
    """One day's first decisions. Shares are 0 to 1; None where there was nothing to share."""

    day: str
    decisions: int
    moderators: int
    to_review_p50_s: float | None
    to_review_p95_s: float | None
    to_decision_p50_s: float | None
    to_decision_p95_s: float | None
    within_target: float | None
    taken_back: int
    overturned: int
    overturn_share: float | None


@dataclass(frozen=True, slots=True)
class HourFigures:
    """The whole queue in an hour: what came and was decided, the most open, the oldest age."""

    hour: str
    arrived: int
    decided: int
    open_items: int | None
    oldest_age_s: float | None


@dataclass(frozen=True, slots=True)
class LabelFigures:
    """Of what was flagged as `label` and decided: how much people confirmed as that label."""

    label: str
    decided: int
    confirmed: int
    precision: float | None


@dataclass(frozen=True, slots=True)
class ThresholdFigures:
    """What people made of the messages that `label`'s present threshold would hold.

    Of those that somebody decided: what the policy removes by itself is not among them unless
    somebody appealed or reported it.
    """

    label: str
    decided: int
    confirmed: int
    precision: float | None


# A decision taken back within the grace time was never told; an overturned one has a reversal.
# An item that was opened anew (an appeal) has waited since then, not since before its decision.
_DAYS = """
SELECT (d.decided_at AT TIME ZONE %(zone)s)::date::text AS day,
  count(*) FILTER (WHERE d.undone_at IS NULL OR r.id IS NOT NULL) AS decisions,
  count(DISTINCT d.moderator_id) AS moderators,
  percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM i.first_leased_at - i.opened_at))
    FILTER (WHERE i.first_leased_at >= i.opened_at AND d.decided_at >= i.opened_at),
  percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM i.first_leased_at - i.opened_at))
    FILTER (WHERE i.first_leased_at >= i.opened_at AND d.decided_at >= i.opened_at),
  percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM d.decided_at - i.opened_at))
    FILTER (WHERE d.decided_at >= i.opened_at),
  percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM d.decided_at - i.opened_at))
    FILTER (WHERE d.decided_at >= i.opened_at),
  avg((extract(epoch FROM d.decided_at - i.opened_at) <= %(target_s)s)::int)
    FILTER (WHERE d.decided_at >= i.opened_at)::float8,
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

# The thresholds in force: of the group's policy, else of the default one, the newest version.
_AT_THRESHOLD = """
WITH newest AS (
  SELECT DISTINCT ON (policy_id) policy_id, id FROM policies_policyversion
  ORDER BY policy_id, number DESC
), judged AS (
  SELECT d.label AS found, t.label, t.hold, CASE t.label
    WHEN 'spam' THEN v.score_spam WHEN 'toxic' THEN v.score_toxic ELSE v.score_ad END AS score
  FROM review_decision d
  JOIN review_reviewitem i ON i.message_id = d.item_id
  JOIN chat_group g ON g.id = i.group_id
  JOIN newest ON newest.policy_id
    = COALESCE(g.policy_id, (SELECT id FROM policies_policy WHERE is_default))
  JOIN policies_threshold t ON t.version_id = newest.id
  JOIN LATERAL (
    SELECT * FROM scoring_verdict v WHERE v.message_id = d.item_id AND v.score_ok IS NOT NULL
    ORDER BY v.created_at DESC LIMIT 1
  ) v ON true
  WHERE d.undone_at IS NULL AND d.decided_at >= %(since)s
    AND (%(moderator)s::bigint IS NULL OR d.moderator_id = %(moderator)s)
)
SELECT label, count(*), count(*) FILTER (WHERE found = label)
FROM judged WHERE score >= hold GROUP BY 1 ORDER BY 1
"""

_HOURS = """
WITH flows AS (
  SELECT date_trunc('hour', minute) AS hour, sum(arrived) AS arrived, sum(decided) AS decided
  FROM review_queueflow WHERE minute >= %(since)s GROUP BY 1
), samples AS (
  SELECT date_trunc('hour', minute) AS hour, max(open_items) AS open_items,
    max(oldest_age_s) AS oldest_age_s
  FROM review_queuesample WHERE minute >= %(since)s GROUP BY 1
)
SELECT to_char(hour AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
  COALESCE(arrived, 0)::bigint, GREATEST(COALESCE(decided, 0), 0)::bigint, open_items, oldest_age_s
FROM flows FULL JOIN samples USING (hour) ORDER BY hour
"""


def by_hour(*, now: datetime) -> list[HourFigures]:
    """The queue over the last DAYS days, oldest hour first; hours without any news are left out."""
    return [HourFigures(*row) for row in _rows(_HOURS, now=now)]


def at_thresholds(*, now: datetime, moderator: int | None) -> list[ThresholdFigures]:
    """How precise the present thresholds would have been on what was decided in DAYS days."""
    rows = _rows(_AT_THRESHOLD, now=now, moderator=moderator)
    return [ThresholdFigures(*[*row, _share(row[2], row[1])]) for row in rows]


def by_day(*, now: datetime, zone: str, moderator: int | None) -> list[DayFigures]:
    """The last DAYS days that had decisions, newest first; of one person, or of all."""
    target_s = settings.REVIEW_TARGET_S
    rows = _rows(_DAYS, now=now, zone=zone, moderator=moderator, target_s=target_s)
    return [DayFigures(*[*row, _share(row[9], row[1])]) for row in rows]


def by_label(*, now: datetime, moderator: int | None) -> list[LabelFigures]:
    """How precise each label was over the last DAYS days, by what people decided."""
    rows = _rows(_LABELS, now=now, moderator=moderator)
    return [LabelFigures(*[*row, _share(row[2], row[1])]) for row in rows]


def as_rows(
    figures: Sequence[DayFigures | HourFigures | LabelFigures | ThresholdFigures],
) -> list[dict[str, Any]]:
    return [asdict(one) for one in figures]


def _rows(query: str, *, now: datetime, **values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, {"since": now - timedelta(days=DAYS), **values})
        return list(cursor.fetchall())


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
