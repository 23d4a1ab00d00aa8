"""Changes to policies. A version is never changed, only succeeded, and is in force at once:
the workers read the thresholds again before each batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import Actor, record
from apps.core import realtime
from apps.policies.errors import (
    NameTakenError,
    RuleError,
    ThresholdError,
    VersionConflictError,
)
from apps.policies.judging import LABELS, Limits
from apps.policies.matching import PatternError, RuleSpec
from apps.policies.models import (
    Action,
    Label,
    Policy,
    PolicyVersion,
    Rule,
    RuleKind,
    RuleList,
    Threshold,
)
from apps.policies.selectors import rules_of

# Each of these has limits in every version; nothing is ever held for being ok.
TUNED: tuple[Label, ...] = tuple(label for label in LABELS if label != Label.OK)


# Entries of one policy: more make its page too long to be read.
MOST_RULES = 1_000
# How many of the changed entries an audit event names.
_SHOWN_RULES = 50

RuleKey = tuple[RuleKind, str]


@dataclass(frozen=True, slots=True)
class RuleChange:
    """What to do to the entries. One that is added and there already gets the new label and
    action; one that is removed and not there is left alone: doing it twice changes nothing.
    """

    added: Sequence[RuleSpec] = ()
    removed: Collection[RuleKey] = ()


@transaction.atomic
def publish_version(
    user: User,
    policy_id: int,
    limits: Mapping[Label, Limits],
    *,
    note: str,
    based_on: int,
    rules: RuleChange | None = None,
) -> PolicyVersion:
    """Put new thresholds and entries in force.

    Args:
        user: Who publishes.
        policy_id: The policy.
        limits: Hold and remove of each label in `TUNED`, 0 to 1.
        note: Why, for the history.
        based_on: Number of the version that the user saw and changed.
        rules: What to change of its lists.

    Returns:
        The new version, or the present one when it is like that already.

    Raises:
        PermissionDenied: The user may not edit policies.
        Policy.DoesNotExist: There is no such policy.
        ThresholdError: A label's limits are missing, out of range or out of order.
        RuleError: An entry can't be used, or there would be more than `MOST_RULES`.
        VersionConflictError: Somebody published since.
    """
    require(user, Permission.POLICY_EDIT)
    _check(limits)
    policy = Policy.objects.select_for_update().get(pk=policy_id)
    newest = newest_version(policy)
    listed = rules_listed(newest)
    wanted = _changed(listed, rules or RuleChange())
    if limits_of(newest) == dict(limits) and wanted == listed:
        return newest
    if newest.number != based_on:
        raise VersionConflictError(newest)
    rule_list = newest.rule_list if wanted == listed else _write_rules(wanted)
    version = _write_version(user, policy, newest.number + 1, limits, note, rule_list)
    _audit(
        user,
        "policy.published",
        policy,
        before=_shown(
            newest, {key: listed[key] for key in listed if wanted.get(key) != listed[key]}
        ),
        after=_shown(
            version, {key: wanted[key] for key in wanted if listed.get(key) != wanted[key]}
        ),
    )
    realtime.publish(realtime.POLICIES, "published", ids=[policy.pk])
    return version


@transaction.atomic
def create_policy(user: User, *, name: str, like: int) -> Policy:
    """A new policy that starts with the thresholds and lists of another.

    Args:
        user: Who makes it.
        name: Its name, unique whatever the case.
        like: The policy whose thresholds and lists it copies.

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
    model = newest_version(source)
    version = _write_version(user, policy, 1, limits_of(model), source.name, model.rule_list)
    _audit(user, "policy.created", policy, before=None, after=_shown(version))
    realtime.publish(realtime.POLICIES, "created", ids=[policy.pk])
    return policy


def newest_version(policy: Policy) -> PolicyVersion:
    return policy.versions.prefetch_related("thresholds").latest("number")


def rules_listed(version: PolicyVersion) -> dict[RuleKey, RuleSpec]:
    """The entries of a version, in the order in which they were listed."""
    if version.rule_list_id is None:
        return {}
    return {spec.key: spec for _, spec in rules_of([version.rule_list_id])[version.rule_list_id]}


def limits_of(version: PolicyVersion) -> dict[Label, Limits]:
    return {Label(t.label): Limits(t.hold, t.remove) for t in version.thresholds.all()}


def _check(limits: Mapping[Label, Limits]) -> None:
    for label in TUNED:
        found = limits.get(label)
        # A NaN fails every comparison, so this refuses it too.
        if found is None or not 0 <= found.hold <= found.remove <= 1:
            raise ThresholdError(label)


def _changed(listed: Mapping[RuleKey, RuleSpec], change: RuleChange) -> dict[RuleKey, RuleSpec]:
    wanted = {key: spec for key, spec in listed.items() if key not in change.removed}
    for index, spec in enumerate(change.added):
        _check_rule(index, spec)
        # The pattern stands as it was first typed, so that adding it again is no change.
        known = wanted.get(spec.key, spec)
        wanted[spec.key] = spec._replace(pattern=known.pattern)
        if len(wanted) > MOST_RULES:
            raise RuleError(index, "too_many")
    return wanted


def _check_rule(index: int, spec: RuleSpec) -> None:
    if (spec.label == Label.OK) != (spec.action == Action.ALLOW):
        raise RuleError(index, "ok_is_what_is_allowed")
    if spec.only_away and spec.action == Action.ALLOW:
        raise RuleError(index, "nothing_is_ok_because_the_model_is_away")
    try:
        _ = spec.key
    except PatternError as error:
        raise RuleError(index, error.fault) from error


def _write_rules(wanted: Mapping[RuleKey, RuleSpec]) -> RuleList | None:
    if not wanted:
        return None
    rule_list = RuleList.objects.create()
    Rule.objects.bulk_create(
        Rule(
            rule_list=rule_list,
            kind=spec.kind,
            pattern=spec.pattern,
            key=key,
            label=spec.label,
            action=spec.action,
            only_away=spec.only_away,
        )
        for (_, key), spec in wanted.items()
    )
    return rule_list


def _write_version(
    user: User,
    policy: Policy,
    number: int,
    limits: Mapping[Label, Limits],
    note: str,
    rule_list: RuleList | None,
) -> PolicyVersion:
    version = PolicyVersion.objects.create(
        policy=policy, number=number, note=note, created_by=user, rule_list=rule_list
    )
    Threshold.objects.bulk_create(
        Threshold(
            version=version, label=label, hold=limits[label].hold, remove=limits[label].remove
        )
        for label in TUNED
    )
    return version


def _shown(
    version: PolicyVersion, rules: Mapping[RuleKey, RuleSpec] | None = None
) -> dict[str, Any]:
    """A version for the audit record; `rules` are its entries that the other side has not."""
    limits = {str(t.label): [t.hold, t.remove] for t in version.thresholds.all()}
    shown: dict[str, Any] = {"version": version.number, "limits": limits}
    if rules:
        shown["entries"] = len(rules)
        shown["rules"] = [spec._asdict() for spec in rules.values()][:_SHOWN_RULES]
    return shown


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
