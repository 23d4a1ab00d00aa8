"""What scores and thresholds mean: pure, no database, so it can be tabled and replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apps.policies.models import Action, Label

# The order of a model's scores.
LABELS: tuple[Label, ...] = (Label.OK, Label.SPAM, Label.TOXIC, Label.AD)


@dataclass(frozen=True, slots=True)
class Limits:
    """From `hold` on a score goes to people, from `remove` on the message is removed."""

    hold: float
    remove: float


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limits of one policy version, by label. A label without limits never acts.

    `rule_list_id` names the entries that decide before any score; None when there are none.
    """

    version_id: int
    number: int
    limits: Mapping[Label, Limits]
    rule_list_id: int | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """`label` is the likeliest; `acting_label` the one whose threshold acted, if any did."""

    label: Label
    confidence: float
    action: Action
    acting_label: Label | None


def judge(scores: Sequence[float], thresholds: Thresholds) -> Judgement:
    """Turn four probabilities, in the order of LABELS, into label and action.

    The strictest action wins; among labels that ask for the same, the highest score acts.
    """
    best = max(range(len(LABELS)), key=scores.__getitem__)
    action, acting_label, acting_score = Action.ALLOW, None, -1.0
    for label, score in zip(LABELS, scores, strict=True):
        limits = thresholds.limits.get(label)
        if limits is None or score < limits.hold:
            continue
        asked = Action.REMOVE if score >= limits.remove else Action.HOLD
        stricter = asked is Action.REMOVE and action is not Action.REMOVE
        if stricter or (asked is action and score > acting_score) or action is Action.ALLOW:
            action, acting_label, acting_score = asked, label, score
    return Judgement(LABELS[best], scores[best], action, acting_label)
