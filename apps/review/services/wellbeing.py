"""What somebody is spared. A person's own matter, so it is not on the audit record."""

from __future__ import annotations

from collections.abc import Collection

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.policies.models import Label
from apps.review.models import Wellbeing
from apps.review.models.wellbeing import UNDETERMINED

CHOICES = (*Label.values, UNDETERMINED)


def save_blurred(user: User, wanted: Collection[str]) -> None:
    """Blur the texts of these labels, and no others, until `user` asks to see one.

    Raises:
        PermissionDenied: The user may not review.
    """
    require(user, Permission.REVIEW)
    blurred = [name for name in CHOICES if name in wanted]
    Wellbeing.objects.update_or_create(person=user, defaults={"blurred": blurred})
