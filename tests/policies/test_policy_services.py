"""Thresholds change by new versions only, one after the other, and are in force at once."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection

from apps.accounts.models import Role, User
from apps.audit.models import AuditEvent
from apps.chat.assignments import assign_group
from apps.policies import services
from apps.policies.errors import NameTakenError, RuleError, ThresholdError, VersionConflictError
from apps.policies.judging import Limits
from apps.policies.matching import RuleSpec
from apps.policies.models import Action, Label, Policy, PolicyVersion, RuleKind
from apps.policies.selectors import thresholds_in_force
from apps.policies.services import (
    RuleChange,
    create_policy,
    limits_of,
    newest_version,
    publish_version,
    rules_listed,
)
from tests.factories import GroupFactory, PolicyFactory, UserFactory, default_policy_version

pytestmark = pytest.mark.django_db

NEW = {
    Label.SPAM: Limits(0.4, 0.8),
    Label.TOXIC: Limits(0.3, 0.7),
    Label.AD: Limits(0.6, 1.0),
}


@pytest.fixture
def policy() -> Policy:
    return default_policy_version().policy


def published(admin: User, policy: Policy, limits: Any = NEW, based_on: int = 1) -> PolicyVersion:
    return publish_version(admin, policy.pk, limits, note="Quieter", based_on=based_on)


def test_published_thresholds_are_in_force(admin: User, policy: Policy) -> None:
    version = published(admin, policy)
    in_force, default_id = thresholds_in_force()
    assert (in_force[default_id].version_id, in_force[default_id].limits) == (version.pk, NEW)


def test_older_versions_stay_as_they_were(admin: User, policy: Policy) -> None:
    published(admin, policy)
    first, second = policy.versions.order_by("number")
    assert (first.number, second.number, second.note) == (1, 2, "Quieter")
    assert first.thresholds.get(label="spam").hold == 0.5
    assert second.created_by == admin


def test_publishing_is_audited_with_before_and_after(admin: User, policy: Policy) -> None:
    published(admin, policy)
    event = AuditEvent.objects.get()
    assert (event.action, event.target_id, event.actor_id) == (
        "policy.published",
        str(policy.pk),
        admin.pk,
    )
    assert (event.before["version"], event.before["limits"]["spam"]) == (1, [0.5, 0.9])
    assert (event.after["version"], event.after["limits"]["spam"]) == (2, [0.4, 0.8])


def test_change_to_a_version_that_was_succeeded_is_refused(admin: User, policy: Policy) -> None:
    published(admin, policy)
    other = {**NEW, Label.SPAM: Limits(0.1, 0.2)}
    with pytest.raises(VersionConflictError) as caught:
        published(admin, policy, other, based_on=1)
    assert caught.value.newest.number == 2
    assert policy.versions.count() == 2


def test_the_same_thresholds_again_make_no_version(admin: User, policy: Policy) -> None:
    assert published(admin, policy) == published(admin, policy)
    assert (policy.versions.count(), AuditEvent.objects.count()) == (2, 1)


@pytest.mark.parametrize(
    "limits",
    [
        Limits(0.6, 0.5),
        Limits(-0.01, 0.5),
        Limits(0.5, 1.01),
        Limits(math.nan, 0.5),
        Limits(0.5, math.nan),
        Limits(0.5, math.inf),
    ],
)
def test_thresholds_out_of_range_or_order_are_refused(
    admin: User, policy: Policy, limits: Limits
) -> None:
    with pytest.raises(ThresholdError) as caught:
        published(admin, policy, {**NEW, Label.TOXIC: limits})
    assert caught.value.label == Label.TOXIC
    assert policy.versions.count() == 1


def test_missing_label_is_refused(admin: User, policy: Policy) -> None:
    with pytest.raises(ThresholdError):
        published(admin, policy, {Label.SPAM: Limits(0.1, 0.2)})


@pytest.mark.parametrize("limits", [Limits(0, 0), Limits(1, 1), Limits(0.5, 0.5)])
def test_the_ends_and_equal_limits_are_allowed(admin: User, policy: Policy, limits: Limits) -> None:
    assert published(admin, policy, {**NEW, Label.AD: limits}).number == 2


def test_new_policy_starts_with_the_thresholds_of_another(admin: User, policy: Policy) -> None:
    made = create_policy(admin, name="Marketplaces", like=policy.pk)
    in_force, default_id = thresholds_in_force()
    assert in_force[made.pk].limits == in_force[default_id].limits
    assert in_force[made.pk].number == 1
    assert AuditEvent.objects.get().action == "policy.created"


def test_name_is_taken_whatever_its_case(admin: User, policy: Policy) -> None:
    create_policy(admin, name="Marketplaces", like=policy.pk)
    with pytest.raises(NameTakenError):
        create_policy(admin, name="marketplaces", like=policy.pk)


def test_group_follows_the_policy_it_is_given_and_the_default_again(
    admin: User, policy: Policy
) -> None:
    group = GroupFactory()
    other = PolicyFactory()
    assign_group(admin, group.pk, other.pk)
    assert list(other.groups.all()) == [group]
    assign_group(admin, group.pk, None)
    group.refresh_from_db()
    assert group.policy is None
    assert list(AuditEvent.objects.order_by("id").values_list("before", "after")) == [
        ({"policy": None}, {"policy": other.pk}),
        ({"policy": other.pk}, {"policy": None}),
    ]


def test_assigning_what_is_assigned_changes_nothing(admin: User, policy: Policy) -> None:
    assign_group(admin, GroupFactory().pk, None)
    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize("role", [Role.MODERATOR, Role.LEAD, Role.OPERATOR])
def test_only_admins_change_policies(role: Role, policy: Policy) -> None:
    user = UserFactory(role=role)
    group = GroupFactory()
    for call in (
        lambda: published(user, policy),
        lambda: create_policy(user, name="Mine", like=policy.pk),
        lambda: assign_group(user, group.pk, None),
    ):
        with pytest.raises(PermissionDenied):
            call()
    assert not AuditEvent.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_many_who_publish_at_once_one_wins_and_the_others_see_it() -> None:
    admin = UserFactory(role=Role.ADMIN)
    policy = default_policy_version().policy
    start = Barrier(10)

    def publish(n: int) -> PolicyVersion | VersionConflictError:
        start.wait()
        try:
            return published(admin, policy, {**NEW, Label.SPAM: Limits(n / 100, 0.9)})
        except VersionConflictError as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(10) as pool:
        results = list(pool.map(publish, range(10)))
    winners = [result for result in results if isinstance(result, PolicyVersion)]
    assert [version.number for version in winners] == [2]
    assert {r.newest for r in results if isinstance(r, VersionConflictError)} == set(winners)


# ---------- lists ----------


def entry(
    pattern: str,
    kind: RuleKind = RuleKind.TERM,
    label: Label = Label.SPAM,
    action: Action = Action.REMOVE,
) -> RuleSpec:
    return RuleSpec(kind, pattern, label, action)


def listed(
    admin: User, policy: Policy, *added: RuleSpec, removed: Any = (), based_on: int | None = None
) -> PolicyVersion:
    newest = newest_version(policy)
    return publish_version(
        admin,
        policy.pk,
        limits_of(newest),
        note="",
        based_on=based_on or newest.number,
        rules=RuleChange(added, removed),
    )


def patterns(version: PolicyVersion) -> list[str]:
    return [spec.pattern for spec in rules_listed(version).values()]


def test_entries_are_part_of_a_version(admin: User, policy: Policy) -> None:
    first = listed(admin, policy, entry("Coins"), entry("evil.example", RuleKind.DOMAIN))
    second = listed(admin, policy, entry("pills"), removed={(RuleKind.TERM, "coins")})
    assert patterns(first) == ["Coins", "evil.example"]
    assert patterns(second) == ["evil.example", "pills"]
    in_force, default_id = thresholds_in_force()
    assert in_force[default_id].rule_list_id == second.rule_list_id


def test_version_that_leaves_the_entries_as_they_are_shares_them(
    admin: User, policy: Policy
) -> None:
    first = listed(admin, policy, entry("coins"))
    second = published(admin, policy, based_on=first.number)
    assert second.number == first.number + 1
    assert second.rule_list_id == first.rule_list_id
    assert create_policy(admin, name="Like it", like=policy.pk).versions.get().rule_list_id == (
        first.rule_list_id
    )


def test_same_change_again_makes_no_version(admin: User, policy: Policy) -> None:
    based_on = newest_version(policy).number
    change = {"removed": {(RuleKind.TERM, "gone")}, "based_on": based_on}
    first = listed(admin, policy, entry("coins"), **change)
    # As it stands, typed in another way.
    assert listed(admin, policy, entry(" COINS"), **change) == first
    assert AuditEvent.objects.count() == 1


def test_entry_that_is_there_gets_its_new_outcome(admin: User, policy: Policy) -> None:
    listed(admin, policy, entry("coins"))
    version = listed(admin, policy, entry("COINS", label=Label.AD, action=Action.HOLD))
    (spec,) = rules_listed(version).values()
    assert spec == entry("coins", label=Label.AD, action=Action.HOLD)


def test_lists_changed_meanwhile_are_a_conflict(admin: User, policy: Policy) -> None:
    based_on = newest_version(policy).number
    listed(admin, policy, entry("coins"))
    with pytest.raises(VersionConflictError):
        listed(admin, policy, entry("pills"), based_on=based_on)


@pytest.mark.parametrize(
    "bad",
    [
        entry(""),
        entry("x" * 300),
        entry("no domain", RuleKind.DOMAIN),
        entry("coins", label=Label.OK),
        entry("coins", action=Action.ALLOW),
        entry("coins", label=Label.OK, action=Action.ALLOW)._replace(only_away=True),
    ],
)
def test_entry_that_cannot_be_used_is_refused_and_named(
    admin: User, policy: Policy, bad: RuleSpec
) -> None:
    with pytest.raises(RuleError) as refused:
        listed(admin, policy, entry("fine"), bad)
    assert refused.value.index == 1
    assert policy.versions.count() == 1


def test_no_more_entries_than_a_page_can_show(
    admin: User, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "MOST_RULES", 2)
    listed(admin, policy, entry("a"), entry("b"))
    with pytest.raises(RuleError):
        listed(admin, policy, entry("c"))
    listed(admin, policy, entry("c"), removed={(RuleKind.TERM, "a")})


def test_audit_names_what_changed(admin: User, policy: Policy) -> None:
    listed(admin, policy, entry("coins"), entry("pills"))
    listed(admin, policy, entry("pills", action=Action.HOLD), removed={(RuleKind.TERM, "coins")})
    event = AuditEvent.objects.latest("pk")
    assert event.before is not None
    assert event.after is not None
    assert _told(event.before) == [("coins", "remove"), ("pills", "remove")]
    assert _told(event.after) == [("pills", "hold")]


def _told(side: dict[str, Any]) -> list[tuple[str, str]]:
    return [(rule["pattern"], rule["action"]) for rule in side["rules"]]
