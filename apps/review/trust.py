"""How far a sender is to be trusted, from what became of their messages. Pure, and plain.

    trust = (good + 1) / (good + bad + 2) × 0.7 ^ strikes

`good` adds 1 for each of their last messages that the policy allowed and 3 for each that a person
allowed; `bad` likewise 1 and 3 for removals. What is held or waits counts for nothing. So somebody
new stands at a half, and one who was never removed nears 1. A strike that counts takes three
tenths of what is left. It decides nothing: it stands on the card for people to read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from apps.policies.models import Action

# Of their newest messages, besides the one that is judged.
LAST_MESSAGES = 100
BY_POLICY, BY_PERSON = 1, 3
STRIKE_REMAINDER = 0.7


@dataclass(frozen=True, slots=True)
class Fate:
    """What stands for one message: the action, and whether a person chose it."""

    action: Action
    is_by_person: bool


@dataclass(frozen=True, slots=True)
class Trust:
    """`value` is 0 to 1; the rest is what it was made of."""

    value: float
    allowed: int
    removed: int
    strikes: int


def trust_of(fates: Iterable[Fate], strikes: int) -> Trust:
    """The trust of a sender from the fates of their last messages and the strikes that count."""
    weights = {Action.ALLOW: 0, Action.REMOVE: 0}
    counts = {Action.ALLOW: 0, Action.REMOVE: 0}
    for fate in fates:
        if fate.action in weights:
            weights[fate.action] += BY_PERSON if fate.is_by_person else BY_POLICY
            counts[fate.action] += 1
    good, bad = weights[Action.ALLOW], weights[Action.REMOVE]
    value = (good + 1) / (good + bad + 2) * STRIKE_REMAINDER**strikes
    return Trust(value, counts[Action.ALLOW], counts[Action.REMOVE], strikes)
