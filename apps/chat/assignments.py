"""Which policy a group follows."""

from __future__ import annotations

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import Actor, record
from apps.chat.models import Group
from apps.core import realtime
from apps.policies.models import Policy


@transaction.atomic
def assign_group(user: User, group_id: int, policy_id: int | None) -> Group:
    """Let a group follow a policy; None is the default one, whichever that is.

    Raises:
        PermissionDenied: The user may not edit policies.
        Group.DoesNotExist: There is no such group.
        Policy.DoesNotExist: There is no such policy.
    """
    require(user, Permission.POLICY_EDIT)
    group = Group.objects.select_for_update(of=("self",)).get(pk=group_id)
    if group.policy_id == policy_id:
        return group
    before = group.policy_id
    group.policy = None if policy_id is None else Policy.objects.get(pk=policy_id)
    group.save(update_fields=["policy"])
    record(
        actor=Actor.of_user(user),
        action="group.assigned",
        target_type="group",
        target_id=group.pk,
        before={"policy": before},
        after={"policy": policy_id},
    )
    realtime.publish(realtime.POLICIES, "assigned", ids=[group.pk])
    return group
