"""Which thresholds are in force."""

from __future__ import annotations

from apps.policies.judging import Limits, Thresholds
from apps.policies.models import Label, PolicyVersion


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
        in_force[version.policy_id] = Thresholds(version.pk, version.number, limits)
        if version.policy.is_default:
            default_id = version.policy_id
    return in_force, default_id
