"""Which thresholds and which lists are in force."""

from __future__ import annotations

from collections.abc import Collection

from apps.policies.judging import Limits, Thresholds
from apps.policies.matching import RuleSpec
from apps.policies.models import Action, Label, PolicyVersion, Rule, RuleKind


def thresholds_in_force() -> tuple[dict[int, Thresholds], int]:
    """The thresholds of each policy's newest version by policy id, and the default policy's id.

    Two queries whatever the number of policies; cheap enough to run before each batch.
    """
    newest = (
        PolicyVersion.objects.order_by("policy_id", "-number")
        .distinct("policy_id")
        .select_related("policy")
        .prefetch_related("thresholds")
    )
    in_force: dict[int, Thresholds] = {}
    default_id = 0
    for version in newest:
        limits = {Label(t.label): Limits(t.hold, t.remove) for t in version.thresholds.all()}
        in_force[version.policy_id] = Thresholds(
            version.pk, version.number, limits, version.rule_list_id
        )
        if version.policy.is_default:
            default_id = version.policy_id
    return in_force, default_id


def rules_of(list_ids: Collection[int]) -> dict[int, list[tuple[int, RuleSpec]]]:
    """The entries of these lists, by list, in the order in which they were listed, with their ids.

    One query; none when there are no lists.
    """
    found: dict[int, list[tuple[int, RuleSpec]]] = {id_: [] for id_ in list_ids}
    if found:
        for rule in Rule.objects.filter(rule_list__in=found).order_by("pk"):
            found[rule.rule_list_id].append((rule.pk, spec_of(rule)))
    return found


def spec_of(rule: Rule) -> RuleSpec:
    return RuleSpec(
        RuleKind(rule.kind), rule.pattern, Label(rule.label), Action(rule.action), rule.only_away
    )
