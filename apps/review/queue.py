"""Which open items a person may get, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Exists, OuterRef, Q, QuerySet

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.policies.models import Label
from apps.review.grams import asked
from apps.review.models import Cause, Language, ReviewItem, ReviewState, Skip


@dataclass(frozen=True, slots=True)
class QueueFilters:
    """What part of the queue somebody works on. Nothing set means all of it."""

    label: Label | None = None
    cause: Cause | None = None
    group_id: int | None = None
    language: Language | None = None
    text: str = ""


def query_of(filters: QueueFilters) -> str:
    """What stands in the address for these filters, always in the same order."""
    parts = {
        "label": filters.label,
        "cause": filters.cause,
        "group": filters.group_id,
        "lang": filters.language,
        "q": filters.text,
    }
    return urlencode({name: str(value) for name, value in parts.items() if value})


def waiting(user: User, filters: QueueFilters) -> QuerySet[ReviewItem]:
    """Open items that `user` may see, in no order. What went up to a lead is for leads,
    an appeal for anybody but whoever decided first.
    """
    items = ReviewItem.objects.filter(state=ReviewState.OPEN).exclude(barred=user)
    if not may(user, Permission.REVIEW_LEAD):
        items = items.filter(escalated_by__isnull=True)
    if filters.label is not None:
        items = items.filter(label=filters.label)
    if filters.cause == Cause.UNDETERMINED:
        # As it is counted: by the label that is missing.
        items = items.filter(label__isnull=True)
    elif filters.cause is not None:
        items = items.filter(cause=filters.cause)
    if filters.group_id is not None:
        items = items.filter(group_id=filters.group_id)
    if filters.language is not None:
        items = items.filter(language=filters.language)
    if wanted := asked(filters.text):
        items = items.filter(grams__contains=wanted)
    return items


@dataclass(frozen=True, slots=True)
class Part:
    """Conditions on `review_reviewitem AS item`, for statements written by hand.

    `sql` is made of words of ours alone; what people wrote is among the parameters.
    """

    sql: str
    parameters: Mapping[str, Any]

    def narrowed(self, sql: str, **parameters: Any) -> Part:
        return Part(f"{self.sql} AND {sql}", {**self.parameters, **parameters})


def part_of(user: User, filters: QueueFilters) -> Part:
    """The same items as `waiting`."""
    conditions = ["item.state = 'open'", "item.barred_id IS DISTINCT FROM %(user)s"]
    if not may(user, Permission.REVIEW_LEAD):
        conditions.append("item.escalated_by_id IS NULL")
    if filters.label is not None:
        conditions.append("item.label = %(label)s")
    if filters.cause == Cause.UNDETERMINED:
        conditions.append("item.label IS NULL")
    elif filters.cause is not None:
        conditions.append("item.cause = %(cause)s")
    if filters.group_id is not None:
        conditions.append("item.group_id = %(group)s")
    if filters.language is not None:
        conditions.append("item.language = %(language)s")
    wanted = asked(filters.text)
    if wanted:
        conditions.append("item.grams @> %(grams)s::int[]")
    parameters = {
        "user": user.pk,
        "label": filters.label,
        "cause": filters.cause,
        "group": filters.group_id,
        "language": filters.language,
        "grams": wanted,
    }
    return Part(" AND ".join(conditions), parameters)


def free(items: QuerySet[ReviewItem], user: User, now: datetime) -> QuerySet[ReviewItem]:
    """Those that nobody has and that `user` did not just skip, nor any other of their waves."""
    skips = Skip.objects.filter(moderator=user, until__gt=now)
    leased = ReviewItem.objects.filter(
        state=ReviewState.OPEN, leased_by__isnull=False, lease_until__gt=now
    )
    taken = Q(wave__in=leased.filter(wave__isnull=False).values("wave"))
    skipped = Q(wave__in=skips.filter(item__wave__isnull=False).values("item__wave"))
    return (
        items.filter(Q(lease_until__isnull=True) | Q(lease_until__lte=now))
        .exclude(Exists(skips.filter(item=OuterRef("pk"))))
        .filter(Q(wave__isnull=True) | ~taken & ~skipped)
    )


_IS_FREE = """
(item.lease_until IS NULL OR item.lease_until <= %(now)s)
AND NOT EXISTS (
  SELECT FROM review_skip AS skip
  WHERE skip.moderator_id = %(user)s AND skip.until > %(now)s AND skip.item_id = item.message_id
)
AND (item.wave_id IS NULL OR (
  item.wave_id NOT IN (
    SELECT wave_id FROM review_reviewitem
    WHERE state = 'open' AND leased_by_id IS NOT NULL AND lease_until > %(now)s
    AND wave_id IS NOT NULL
  )
  AND item.wave_id NOT IN (
    SELECT skipped.wave_id FROM review_skip AS skip
    JOIN review_reviewitem AS skipped ON skipped.message_id = skip.item_id
    WHERE skip.moderator_id = %(user)s AND skip.until > %(now)s AND skipped.wave_id IS NOT NULL
  )
))
"""


def free_part(part: Part, user: User, now: datetime) -> Part:
    """The same items of `part` as `free`."""
    return part.narrowed(_IS_FREE, user=user.pk, now=now)
