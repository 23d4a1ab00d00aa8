"""Open items by the score of their label: a chart of all, and a range of them to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from apps.accounts.models import User
from apps.core.cutting import cut_whole
from apps.policies.models import Label
from apps.review.queue import Part, QueueFilters, part_of
from apps.review.statements import GROUP_NAME, fetch_rows

BINS = 100
DOTS_HIGH = 12
TEXT_CHARS = 400


@dataclass(frozen=True, slots=True)
class Chart:
    """How many items fall on each hundredth. Each dot stands for up to `per_dot` of them."""

    counts: Sequence[int]
    per_dot: int

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def dots(self) -> list[tuple[int, int]]:
        """Column and height of each dot, from 0: a column that has any has at least one."""
        columns = enumerate(self.counts)
        return [(at, row) for at, n in columns for row in range(-(-n // self.per_dot))]


@dataclass(frozen=True, slots=True)
class RangeItem:
    """One line of the list: `text` is its beginning."""

    id: int
    version: int
    score: float
    opened_at: datetime
    group: str
    text: str


@dataclass(frozen=True, slots=True)
class Range:
    """The items of a range, highest score first: up to `most`, of `total`."""

    items: Sequence[RangeItem]
    total: int
    most: int


def chart(user: User, filters: QueueFilters) -> Chart:
    """All scored items of a part of the queue, in one query."""
    at = f"least(floor(item.score * {BINS}), {BINS - 1})::int"
    counts = [0] * BINS
    for place, count in _scored(user, filters).rows(f"{at} AS bin, count(*)", "GROUP BY bin"):
        counts[place] = count
    return Chart(counts, max(-(-max(counts) // DOTS_HIGH), 1))


_HIGHEST_FIRST = f"""
SELECT item.message_id, item.version, item.score, item.opened_at,
  {GROUP_NAME}, left(message.text, {TEXT_CHARS + 1})
FROM review_reviewitem AS item
JOIN chat_message AS message ON message.id = item.message_id
JOIN chat_group ON chat_group.id = item.group_id
WHERE {{part}} ORDER BY item.score DESC, item.message_id LIMIT %(most)s
"""  # noqa: S608 (a constant of ours)


def in_range(user: User, filters: QueueFilters, low: float, high: float) -> Range:
    """What scores from `low` to `high`, both included, in two queries."""
    part = _scored(user, filters).narrowed(
        "item.score BETWEEN %(low)s AND %(high)s", low=low, high=high
    )
    most = settings.REVIEW_RANGE_MOST
    found = fetch_rows(_HIGHEST_FIRST.format(part=part.sql), {**part.parameters, "most": most})
    return Range([_item(columns) for columns in found], part.rows("count(*)")[0][0], most)


def _item(columns: tuple[Any, ...]) -> RangeItem:
    id_, version, score, opened_at, group, text = columns
    return RangeItem(id_, version, score, opened_at, group, cut_whole(text, TEXT_CHARS))


def _scored(user: User, filters: QueueFilters) -> Part:
    scored = "item.score IS NOT NULL AND item.cause <> 'appealed'"
    return part_of(user, filters).narrowed(scored)


def first_label(user: User) -> Label:
    """What there is most of, for a page that was asked for without a label."""
    by_label = _scored(user, QueueFilters()).rows(
        "item.label, count(*) AS n", "GROUP BY item.label ORDER BY n DESC LIMIT 1"
    )
    return Label(by_label[0][0]) if by_label else Label.SPAM
