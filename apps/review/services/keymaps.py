"""Changing the keys of the review page, each person for themselves."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import Actor, record
from apps.review.keys import changed, checked
from apps.review.models import KeyMap


@transaction.atomic
def save_keys(user: User, wanted: Mapping[str, str]) -> dict[str, str]:
    """Set the user's keys; what is left out has its default. Returns the key of every command.

    Raises:
        PermissionDenied: The user may not review.
        KeyRefusedError: Two commands share a key, or one can't be used.
    """
    require(user, Permission.REVIEW)
    keys = checked(wanted)
    before = _stored(user)
    own = changed(keys)
    if own != before:
        KeyMap.objects.update_or_create(person=user, defaults={"keys": own})
        record(
            actor=Actor.of_user(user),
            action="review.keys_changed",
            target_type="user",
            target_id=user.pk,
            before=before,
            after=own,
        )
    return keys


def reset_keys(user: User) -> dict[str, str]:
    """Give every command its default key again.

    Raises:
        PermissionDenied: The user may not review.
    """
    return save_keys(user, {})


def _stored(user: User) -> dict[str, str]:
    found = KeyMap.objects.select_for_update().filter(person=user).values_list("keys", flat=True)
    return found.first() or {}
