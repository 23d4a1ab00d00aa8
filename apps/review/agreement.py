"""How far people agree beyond chance. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence


def cohens_kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Cohen's kappa of two people over what both judged.

    Args:
        pairs: The first one's answer and the second one's, for each thing.

    Returns:
        1 for full agreement, 0 for what chance would give, below 0 for less. None where it is not
        defined: nothing was judged, or both gave one and the same answer to everything, so that
        chance alone would agree too.

    Source: J. Cohen, A Coefficient of Agreement for Nominal Scales, 1960.
    """
    if not pairs:
        return None
    total = len(pairs)
    observed = sum(first == second for first, second in pairs) / total
    firsts, seconds = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    expected = sum(count * seconds[answer] for answer, count in firsts.items()) / total**2
    if expected == 1:
        return None
    return (observed - expected) / (1 - expected)


def krippendorffs_alpha(units: Iterable[Sequence[Hashable]]) -> float | None:
    """Krippendorff's alpha for nominal answers by any number of people.

    Args:
        units: All answers to each thing; those with fewer than two say nothing and are left out.

    Returns:
        As for kappa. None where it is not defined: no two answers to one thing, or all the same.

    Source: K. Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011 (nominal data).
    """
    paired = [unit for unit in units if len(unit) > 1]
    totals: Counter[Hashable] = Counter()
    disagreeing = 0.0
    for unit in paired:
        counts = Counter(unit)
        totals += counts
        # Ordered pairs of unlike answers, each unit weighing as many as it has answers.
        unlike = len(unit) ** 2 - sum(count**2 for count in counts.values())
        disagreeing += unlike / (len(unit) - 1)
    answers = sum(totals.values())
    by_chance = answers**2 - sum(count**2 for count in totals.values())
    if not by_chance:
        return None
    return 1 - (answers - 1) * disagreeing / by_chance
