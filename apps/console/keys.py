"""API keys, made and revoked by admins. (`accounts` makes them; the audit room is above it.)"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import ApiKey, User
from apps.accounts.permissions import Permission, require
from apps.accounts.services import create_api_key
from apps.audit.services import Actor, record


@transaction.atomic
def create_key(
    user: User, *, name: str, expires_at: datetime | None, may_erase: bool = False
) -> tuple[ApiKey, str]:
    """A new key and its secret, which can't be shown again.

    Raises:
        PermissionDenied: The user may not edit keys, or not erase and so let nobody erase.
    """
    require(user, Permission.KEYS_EDIT)
    if may_erase:
        require(user, Permission.ERASE)
    key, secret = create_api_key(
        name=name, created_by=user, expires_at=expires_at, may_erase=may_erase
    )
    _audit(user, "api_key.created", key)
    return key, secret


@transaction.atomic
def revoke_key(user: User, key_id: int) -> ApiKey:
    """End a key; revoking it again changes nothing.

    Raises:
        PermissionDenied: The user may not edit keys.
        ApiKey.DoesNotExist: There is no such key.
    """
    require(user, Permission.KEYS_EDIT)
    key = ApiKey.objects.select_for_update(of=("self",)).get(pk=key_id)
    if key.revoked_at is None:
        key.revoked_at = timezone.now()
        key.save(update_fields=["revoked_at"])
        _audit(user, "api_key.revoked", key)
    return key


def _audit(user: User, action: str, key: ApiKey) -> None:
    expires = key.expires_at.isoformat() if key.expires_at else None
    record(
        actor=Actor.of_user(user),
        action=action,
        target_type="api_key",
        target_id=key.pk,
        after={
            "name": key.name,
            "prefix": key.prefix,
            "expires_at": expires,
            "may_erase": key.may_erase,
        },
    )
