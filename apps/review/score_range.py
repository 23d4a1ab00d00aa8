"""Open items by the score of their label: a chart of all, and a range of them to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Count, F, QuerySet, Value
from django.db.models.functions import Floor, Least, Left

from apps.accounts.models import User
from apps.policies.models import Label
from apps.review.models import Cause, ReviewItem
from apps.review.queue import QueueFilters, waiting

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
class Range:
    """The items of a range, highest score first: up to `most`, of `total`."""

    items: Sequence[ReviewItem]
    total: int
    most: int


def chart(user: User, filters: QueueFilters) -> Chart:
    """All scored items of a part of the queue, in one query."""
    at = Least(Floor(F("score") * float(BINS)), Value(BINS - 1.0))
    found = _scored(user, filters).annotate(bin=at).values_list("bin").annotate(Count("pk"))
    counts = [0] * BINS
    for place, count in found.order_by():
        counts[int(place)] = count
    return Chart(counts, max(-(-max(counts) // DOTS_HIGH), 1))


def in_range(user: User, filters: QueueFilters, low: float, high: float) -> Range:
    """What scores from `low` to `high`, both included, in two queries."""
    found = _scored(user, filters).filter(score__gte=low, score__lte=high)
    most = settings.REVIEW_RANGE_MOST
    items = (
        found.select_related("group", "leased_by")
        .defer("grams")
        .annotate(line=Left("message__text", TEXT_CHARS))
        .order_by("-score", "pk")[:most]
    )
    return Range(list(items), found.count(), most)


def _scored(user: User, filters: QueueFilters) -> QuerySet[ReviewItem]:
    return waiting(user, filters).filter(score__isnull=False).exclude(cause=Cause.APPEALED)


def first_label(user: User) -> Label:
    """What there is most of, for a page that was asked for without a label."""
    found = (
        _scored(user, QueueFilters()).values_list("label").annotate(n=Count("pk")).order_by("-n")
    )
    most = found.first()
    return Label(most[0]) if most else Label.SPAM
