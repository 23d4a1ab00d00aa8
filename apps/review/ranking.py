"""How urgent an item is: severity times confidence, doubling with age. Pure."""

from __future__ import annotations

import math
from datetime import datetime

from apps.policies.models import Label

# How much harm an hour of waiting does, relative to abuse of a person.
SEVERITY: dict[Label, float] = {Label.TOXIC: 1.0, Label.SPAM: 0.8, Label.AD: 0.5, Label.OK: 0.2}
# Nobody has judged it, so it may be anything: behind a confident flag, before a doubtful one.
UNDETERMINED_PRIORITY = 0.4
LEAST_PRIORITY = 0.01
# Somebody of the chat asked for a person, though no verdict did.
REPORTED_PRIORITY = 0.3
# They say that somebody may come to harm.
DANGER_PRIORITY = 0.6
# Whoever appeals waits for an answer, and may have been wronged.
APPEALED_PRIORITY = 0.7
# What each report leaves of the distance to 1: ten of them bring 0.3 to 0.92.
REPORT_REMAINDER = 0.8
# Waiting this long makes an item twice as urgent, so nothing waits for ever.
DOUBLING_S = 15 * 60
# Shown as P1, P2, P3: the least urgency of each level but the last.
LEVELS: tuple[float, ...] = (0.6, 0.3)


def base_priority(label: Label | None, score: float | None) -> float:
    """Severity times confidence, from LEAST_PRIORITY to 1."""
    if label is None or score is None:
        return UNDETERMINED_PRIORITY
    return max(SEVERITY[label] * score, LEAST_PRIORITY)


def reported_priority(priority: float) -> float:
    """The priority after one more report."""
    return 1 - (1 - priority) * REPORT_REMAINDER


def rank(priority: float, opened_at: datetime) -> float:
    """A number that orders items by urgency at any moment, so it can be indexed.

    Urgency is `priority * 2 ** (age / DOUBLING_S)`; its logarithm is this number plus
    `now / DOUBLING_S`, which is the same for every item.
    """
    return math.log2(priority) - opened_at.timestamp() / DOUBLING_S


def urgency(item_rank: float, now: datetime) -> float:
    """Priority with age in it. Grows without bound."""
    return float(2.0 ** min(item_rank + now.timestamp() / DOUBLING_S, 64))


def level(item_rank: float, now: datetime) -> int:
    """1 (most urgent) to 3. Falls in the order of the queue."""
    current = urgency(item_rank, now)
    return next((place for place, least in enumerate(LEVELS, 1) if current >= least), 3)
