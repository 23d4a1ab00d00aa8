"""Which open items a person may get, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
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


def in_order(items: QuerySet[ReviewItem]) -> QuerySet[ReviewItem]:
    """Most urgent first, oldest first among equals."""
    return items.order_by("-rank", "message_id")


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
