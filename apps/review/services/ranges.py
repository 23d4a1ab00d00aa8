"""Deciding what was read in a list, in one go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.review.errors import TooManyError
from apps.review.models import Decision, JointDecision, JointKind
from apps.review.queue import Part, QueueFilters, free_part, part_of
from apps.review.services.decisions import Choice
from apps.review.services.joint import decide_all, grace


@dataclass(frozen=True, slots=True)
class Swept:
    """What became of a range: `decision` is one of those made, None when there are none."""

    decision: Decision | None
    decided: int
    left_out: int


@transaction.atomic
def decide_range(
    user: User,
    shown: Mapping[int, int],
    *,
    token: UUID,
    choice: Choice,
    now: datetime | None = None,
) -> Swept:
    """Decide all of these that are still as shown; the same request again changes nothing.

    Left out is what somebody decided, has open (or a member of its wave), or what has a new verdict
    since: that stays in the queue, for a look at it.

    Args:
        user: Who decides.
        shown: The version that was shown, by item.
        token: Of this request.
        choice: The same for all.
        now: The present; the clock's if left out.

    Raises:
        PermissionDenied: The user may not review.
        TooManyError: More than REVIEW_RANGE_MOST.
    """
    require(user, Permission.REVIEW)
    if len(shown) > settings.REVIEW_RANGE_MOST:
        raise TooManyError(settings.REVIEW_RANGE_MOST)
    now = now or timezone.now()
    joint, is_new = JointDecision.objects.get_or_create(
        token=token,
        defaults={
            "kind": JointKind.RANGE,
            "moderator": user,
            "action": choice.action,
            "label": choice.label,
            "reason": choice.reason or "",
            "decided_at": now,
        },
    )
    if is_new:
        decide_all(joint, _lock(user, shown, now), lead_id=None, note=choice.note, hold=grace())
    made = Decision.objects.filter(joint=joint, moderator=user)
    count = made.count()
    return Swept(made.select_related("joint").first(), count, len(shown) - count)


def _lock(user: User, shown: Mapping[int, int], now: datetime) -> list[int]:
    """Those that may be decided, locked by their ids."""
    asked = part_of(user, QueueFilters()).narrowed(
        "item.message_id = ANY(%(ids)s) AND item.cause <> 'appealed'", ids=list(shown)
    )
    by_id = "ORDER BY item.message_id FOR UPDATE OF item"
    locked = asked.rows("item.message_id, item.version", by_id)
    same = [id_ for id_, version in locked if version == shown[id_]]
    as_shown = Part("item.message_id = ANY(%(ids)s)", {"ids": same})
    own = as_shown.narrowed("item.leased_by_id = %(user)s", user=user.pk)
    parts = (free_part(as_shown, user, now), own)
    return sorted({id_ for part in parts for (id_,) in part.rows("item.message_id")})
