"""Changes to people. (Keys are audited by whoever calls: audit is a room above.)"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from apps.accounts.keys import generate_key
from apps.accounts.models import ApiKey, Role, User


@transaction.atomic
def ensure_user(*, username: str, role: Role, password: str) -> User:
    """Make the user, or set role and password of the one there is."""
    user, _ = User.objects.select_for_update().get_or_create(username=username)
    user.role = role
    user.is_active = True
    user.set_password(password)
    user.save()
    return user


def create_api_key(
    *,
    name: str,
    created_by: User | None = None,
    expires_at: datetime | None = None,
    may_erase: bool = False,
) -> tuple[ApiKey, str]:
    """A new key and its secret, which can't be shown again."""
    secret, prefix, secret_digest = generate_key()
    key = ApiKey.objects.create(
        name=name,
        prefix=prefix,
        secret_digest=secret_digest,
        created_by=created_by,
        expires_at=expires_at,
        may_erase=may_erase,
    )
    return key, secret
