"""Figures of a classifier: per label, flagged against ok, and how sure it is."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.releases.training.corpus import LABELS

Scores = NDArray[np.floating]
Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LabelFigures:
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True)
class Figures:
    """`auc` is None where only one class occurs; rates over an absent class are None too."""

    rows: int
    accuracy: float
    flagged_f1: float
    flagged_recall: float | None
    false_positive_rate: float | None
    auc: float | None
    by_label: dict[str, LabelFigures]


def ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def label_figures(predicted: Labels, truth: Labels, label: int) -> LabelFigures:
    hits = int(((predicted == label) & (truth == label)).sum())
    said, there = int((predicted == label).sum()), int((truth == label).sum())
    return LabelFigures(ratio(hits, said), ratio(hits, there), ratio(2 * hits, said + there))


def area_under_curve(score: Scores, positive: NDArray[np.bool_]) -> float | None:
    """Chance that a flagged message scores above an ok one; ties count half."""
    count, others = int(positive.sum()), int((~positive).sum())
    if not count or not others:
        return None
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    mean_rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((mean_rank[positive].sum() - count * (count + 1) / 2) / (count * others))


def measure(scores: Scores, truth: Labels) -> Figures:
    """Figures of the most probable label over all rows."""
    predicted = scores.argmax(axis=1)
    flagged, is_flagged = predicted > 0, truth > 0
    hits = int((flagged & is_flagged).sum())
    false_alarms, innocent = int((flagged & ~is_flagged).sum()), int((~is_flagged).sum())
    return Figures(
        rows=len(truth),
        accuracy=float((predicted == truth).mean()) if len(truth) else 0.0,
        flagged_f1=ratio(2 * hits, int(flagged.sum()) + int(is_flagged.sum())),
        flagged_recall=ratio(hits, int(is_flagged.sum())) if is_flagged.any() else None,
        false_positive_rate=ratio(false_alarms, innocent) if innocent else None,
        auc=area_under_curve(1 - scores[:, 0], is_flagged),
        by_label={name: label_figures(predicted, truth, i) for i, name in enumerate(LABELS)},
    )


def recall_at_false_positives(
    calibration: tuple[Scores, Labels], tested: tuple[Scores, Labels], rate: float
) -> float:
    """Recall on the second set at the threshold that gives `rate` false positives on the first."""
    scores, truth = calibration
    threshold = np.quantile(1 - scores[truth == 0, 0], 1 - rate)
    scores, truth = tested
    return float((1 - scores[truth > 0, 0] > threshold).mean())


def expected_calibration_error(scores: Scores, truth: Labels, bins: int = 15) -> float:
    """Mean gap between how sure and how right it is, over equal-width bins of confidence."""
    confidence, right = scores.max(axis=1), scores.argmax(axis=1) == truth
    which = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [
        abs(confidence[which == b].mean() - right[which == b].mean()) * (which == b).mean()
        for b in range(bins)
        if (which == b).any()
    ]
    return float(sum(gaps))
