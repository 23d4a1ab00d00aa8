"""`{% if user|may:"policy.edit" %}`: the same answer as the services give."""

from __future__ import annotations

from django import template
from django.contrib.auth.models import AnonymousUser

from apps.accounts.models import User
from apps.accounts.permissions import Permission
from apps.accounts.permissions import may as is_granted

register = template.Library()


@register.filter
def may(user: User | AnonymousUser, permission: str) -> bool:
    """Whether the user's role grants `permission`; a misspelt one is an error, not a "no"."""
    return is_granted(user, Permission(permission))
