"""Changes to policies. A version is never changed, only succeeded, and is in force at once:
the workers read the thresholds again before each batch."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import Actor, record
from apps.core import realtime
from apps.policies.errors import NameTakenError, ThresholdError, VersionConflictError
from apps.policies.judging import LABELS, Limits
from apps.policies.models import Label, Policy, PolicyVersion, Threshold

# Each of these has limits in every version; nothing is ever held for being ok.
TUNED: tuple[Label, ...] = tuple(label for label in LABELS if label != Label.OK)


@transaction.atomic
def publish_version(
    user: User,
    policy_id: int,
    limits: Mapping[Label, Limits],
    *,
    note: str,
    based_on: int,
) -> PolicyVersion:
    """Put new thresholds in force.

    Args:
        user: Who publishes.
        policy_id: The policy.
        limits: Hold and remove of each label in `TUNED`, 0 to 1.
        note: Why, for the history.
        based_on: Number of the version that the user saw and changed.

    Returns:
        The new version, or the present one when it has these limits already.

    Raises:
        PermissionDenied: The user may not edit policies.
        Policy.DoesNotExist: There is no such policy.
        ThresholdError: A label's limits are missing, out of range or out of order.
        VersionConflictError: Somebody published since.
    """
    require(user, Permission.POLICY_EDIT)
    _check(limits)
    policy = Policy.objects.select_for_update().get(pk=policy_id)
    newest = newest_version(policy)
    before = limits_of(newest)
    if before == dict(limits):
        return newest
    if newest.number != based_on:
        raise VersionConflictError(newest)
    version = _write_version(user, policy, newest.number + 1, limits, note)
    _audit(user, "policy.published", policy, before=_shown(newest), after=_shown(version))
    realtime.publish(realtime.POLICIES, "published", ids=[policy.pk])
    return version


@transaction.atomic
def create_policy(user: User, *, name: str, like: int) -> Policy:
    """A new policy that starts with the thresholds of another.

    Args:
        user: Who makes it.
        name: Its name, unique whatever the case.
        like: The policy whose thresholds it copies.

    Raises:
        PermissionDenied: The user may not edit policies.
        Policy.DoesNotExist: There is no policy `like`.
        NameTakenError: Another has that name.
    """
    require(user, Permission.POLICY_EDIT)
    source = Policy.objects.get(pk=like)
    # One at a time, so that two people can't take one name.
    list(Policy.objects.select_for_update().order_by("pk"))
    if Policy.objects.filter(name__iexact=name).exists():
        raise NameTakenError(name)
    policy = Policy.objects.create(name=name)
    version = _write_version(user, policy, 1, limits_of(newest_version(source)), source.name)
    _audit(user, "policy.created", policy, before=None, after=_shown(version))
    realtime.publish(realtime.POLICIES, "created", ids=[policy.pk])
    return policy


def newest_version(policy: Policy) -> PolicyVersion:
    return policy.versions.prefetch_related("thresholds").latest("number")


def limits_of(version: PolicyVersion) -> dict[Label, Limits]:
    return {Label(t.label): Limits(t.hold, t.remove) for t in version.thresholds.all()}


def _check(limits: Mapping[Label, Limits]) -> None:
    for label in TUNED:
        found = limits.get(label)
        # A NaN fails every comparison, so this refuses it too.
        if found is None or not 0 <= found.hold <= found.remove <= 1:
            raise ThresholdError(label)


def _write_version(
    user: User, policy: Policy, number: int, limits: Mapping[Label, Limits], note: str
) -> PolicyVersion:
    version = PolicyVersion.objects.create(policy=policy, number=number, note=note, created_by=user)
    Threshold.objects.bulk_create(
        Threshold(
            version=version, label=label, hold=limits[label].hold, remove=limits[label].remove
        )
        for label in TUNED
    )
    return version


def _shown(version: PolicyVersion) -> dict[str, object]:
    limits = {str(t.label): [t.hold, t.remove] for t in version.thresholds.all()}
    return {"version": version.number, "limits": limits}


def _audit(
    user: User,
    action: str,
    policy: Policy,
    *,
    before: dict[str, object] | None,
    after: dict[str, object],
) -> None:
    record(
        actor=Actor.of_user(user),
        action=action,
        target_type="policy",
        target_id=policy.pk,
        before=before,
        after=after,
    )
