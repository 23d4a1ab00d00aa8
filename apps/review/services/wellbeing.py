"""What somebody is spared and what they saw. A person's own matter, so not on the audit record."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.policies.models import Label
from apps.review.models import Exposure, Wellbeing
from apps.review.models.wellbeing import BLURRED_AT_FIRST, UNDETERMINED
from apps.review.ranking import SEVERITY

CHOICES = (*Label.values, UNDETERMINED)
# What counts as severe: harm to a person, as the order of the queue weighs it.
SEVERE_FROM = 0.9
SEVERE = tuple(str(label) for label, weight in SEVERITY.items() if weight >= SEVERE_FROM)
KEEP_DAYS = 30
PUT_OFF = timedelta(minutes=10)

# What is blurred counts as severe only once it is shown, which is a second call.
_COUNT = """
INSERT INTO review_exposure (person_id, day, message_id, seen_at, is_severe)
SELECT %(person)s, %(day)s, item.message_id, %(now)s,
    COALESCE(item.label = ANY(%(severe)s), false) AND (%(is_revealed)s OR NOT item.label = ANY(
        COALESCE((SELECT blurred FROM review_wellbeing WHERE person_id = %(person)s), %(first)s)))
FROM review_reviewitem item WHERE item.message_id = ANY(%(items)s)
ORDER BY item.message_id
ON CONFLICT (person_id, day, message_id) DO UPDATE SET is_severe = true
WHERE EXCLUDED.is_severe AND NOT review_exposure.is_severe
"""


@dataclass(frozen=True, slots=True)
class Care:
    """What a person chose; as the fields of `Wellbeing`."""

    blurred: Collection[str]
    is_gray: bool
    holds_to_reveal: bool
    break_after_min: int
    break_after_severe: int


def save_care(user: User, wanted: Care) -> None:
    """Spare `user` this, and nothing else.

    Raises:
        PermissionDenied: The user may not review.
    """
    require(user, Permission.REVIEW)
    blurred = [name for name in CHOICES if name in wanted.blurred]
    chosen = {**asdict(wanted), "blurred": blurred}
    Wellbeing.objects.update_or_create(person=user, defaults=chosen)


def count_shown(
    user: User,
    item_ids: Collection[int],
    *,
    is_revealed: bool = False,
    now: datetime | None = None,
) -> None:
    """Count messages that `user` has before them, in one statement; each once a day.

    Args:
        user: Who sees them.
        item_ids: The items; one that there isn't is passed over.
        is_revealed: Whether their texts are shown although the user has them blurred.
        now: The present; the clock's if left out.

    Raises:
        PermissionDenied: The user may not review.
    """
    require(user, Permission.REVIEW)
    now = now or timezone.now()
    values: dict[str, Any] = {
        "person": user.pk,
        "day": timezone.localdate(now),
        "now": now,
        "severe": list(SEVERE),
        "first": list(BLURRED_AT_FIRST),
        "is_revealed": is_revealed,
        "items": list(item_ids),
    }
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, values)


def put_off_break(user: User, *, now: datetime | None = None) -> None:
    """Remind `user` of no break for the next PUT_OFF.

    Raises:
        PermissionDenied: The user may not review.
    """
    require(user, Permission.REVIEW)
    until = (now or timezone.now()) + PUT_OFF
    Wellbeing.objects.update_or_create(person=user, defaults={"put_off_until": until})


def forget_old_exposures(*, now: datetime | None = None) -> int:
    """Remove what was seen more than KEEP_DAYS ago; returns how much that was."""
    before = timezone.localdate(now) - timedelta(days=KEEP_DAYS)
    return Exposure.objects.filter(day__lt=before).delete()[0]
