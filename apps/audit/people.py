"""People and keys made from a terminal, on the record. (Accounts is the room below.)"""

from __future__ import annotations

from django.db import transaction

from apps.accounts.models import ApiKey, Role, User
from apps.accounts.services import create_api_key, ensure_user
from apps.audit.services import Actor, record


@transaction.atomic
def set_user(*, username: str, role: Role, password: str, by: Actor) -> User:
    """Make the user, or set role and password of the one there is.

    Args:
        by: Who is on the record for it.
    """
    user = ensure_user(username=username, role=role, password=password)
    record(
        actor=by,
        action="user.set",
        target_type="user",
        target_id=user.pk,
        after={"username": username, "role": role.value},
    )
    return user


@transaction.atomic
def add_key(*, name: str, by: Actor, may_erase: bool = False) -> tuple[ApiKey, str]:
    """A new key and its secret, which can't be shown again.

    Args:
        by: Who is on the record for it.
        may_erase: Whether it may erase messages and senders.
    """
    key, secret = create_api_key(name=name, may_erase=may_erase)
    record(
        actor=by,
        action="api_key.created",
        target_type="api_key",
        target_id=key.pk,
        after={"name": name, "prefix": key.prefix, "may_erase": may_erase},
    )
    return key, secret
