"""What each role may do. Services ask here; nothing else decides."""

from __future__ import annotations

from enum import StrEnum

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied

from apps.accounts.models import ApiKey, Role, User


class Permission(StrEnum):
    REVIEW = "review.decide"
    # Takes what moderators hand up, reverses what they decided.
    REVIEW_LEAD = "review.lead"
    POLICY_VIEW = "policy.view"
    POLICY_EDIT = "policy.edit"
    OPERATE_VIEW = "operate.view"
    OPERATE_ACT = "operate.act"
    KEYS_EDIT = "keys.edit"
    AUDIT_VIEW = "audit.view"
    # Takes away for good what people wrote and what they are called.
    ERASE = "data.erase"


_MODERATOR = {Permission.REVIEW, Permission.POLICY_VIEW, Permission.OPERATE_VIEW}
_GRANTS: dict[str, set[Permission]] = {
    Role.MODERATOR: _MODERATOR,
    Role.LEAD: _MODERATOR | {Permission.REVIEW_LEAD, Permission.AUDIT_VIEW},
    Role.OPERATOR: {Permission.POLICY_VIEW, Permission.OPERATE_VIEW, Permission.OPERATE_ACT},
    Role.ADMIN: set(Permission),
}


def may(user: User | AnonymousUser, permission: Permission) -> bool:
    """Whether an active, signed-in user's role grants `permission`."""
    return (
        isinstance(user, User)
        and user.is_active
        and permission in _GRANTS.get(user.role, frozenset())
    )


def require(user: User | AnonymousUser, permission: Permission) -> None:
    """Raise PermissionDenied, naming the permission that is missing."""
    if not may(user, permission):
        raise PermissionDenied(str(permission))


def require_erasing(by: User | ApiKey) -> None:
    """Raise PermissionDenied unless an admin asks, or a backend whose key an admin made for it."""
    if not (by.may_erase if isinstance(by, ApiKey) else may(by, Permission.ERASE)):
        raise PermissionDenied(str(Permission.ERASE))
