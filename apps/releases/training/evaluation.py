"""Measure the exported model on rows it was not fitted on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.releases.training.corpus import Row, in_split
from apps.releases.training.measuring import (
    Figures,
    Scores,
    expected_calibration_error,
    measure,
    recall_at_false_positives,
)
from apps.releases.training.modern_examples import SOURCE as OWN_SOURCE
from apps.releases.training.served import ServedModel

LANGUAGES_WITH_ALL_LABELS = ("en", "zh")
ALL = "all"
FIRST_ROWS = 1_000
LOW_RATE = 0.02
SMALLEST_GROUP = 30


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was measured, by language, source of functional tests, or kind of message."""

    test: dict[str, Figures]
    functional: dict[str, Figures]
    own: dict[str, Figures]
    recall_at_low_rate: dict[str, float]
    calibration_error: float
    first_rows_right: int
    tokenizer_us: float
    graph_us: float


@dataclass(frozen=True, slots=True)
class Scored:
    """Rows with the scores the served model gave them."""

    rows: list[Row]
    scores: Scores

    @property
    def truth(self) -> NDArray[np.int64]:
        return np.array([row.label_index for row in self.rows], dtype=np.int64)

    def where(self, chosen: Sequence[bool]) -> "Scored":
        index = np.flatnonzero(chosen)
        return Scored([self.rows[i] for i in index], self.scores[index])

    def of_language(self, lang: str) -> "Scored":
        return self.where([lang in (ALL, row.lang) for row in self.rows])

    def figures(self) -> Figures:
        return measure(self.scores, self.truth)


def score(served: ServedModel, rows: list[Row]) -> Scored:
    return Scored(rows, served.scores([row.text for row in rows]))


def evaluate(
    served: ServedModel, rows: list[Row], own: list[Row], functional: list[Row]
) -> Evaluation:
    """Measure on the test split, on held-out patterns of our own, and on functional tests.

    Args:
        served: the exported model.
        rows: labelled rows of all splits; valid sets the low-rate threshold, test is measured.
        own: messages from patterns that training never saw.
        functional: contrastive test cases, may be empty.
    """
    valid, test = (score(served, in_split(rows, split)) for split in ("valid", "test"))
    first = Scored(test.rows[:FIRST_ROWS], test.scores[:FIRST_ROWS])
    tokenizer_us, graph_us = served.microseconds_per_message([row.text for row in test.rows])
    return Evaluation(
        test=by_language(test),
        functional=by_source(score(served, functional)) if functional else {},
        own=by_source(score(served, own)),
        recall_at_low_rate={
            lang: low_rate_recall(valid.of_language(lang), test.of_language(lang))
            for lang in (*LANGUAGES_WITH_ALL_LABELS, ALL)
            if valid.of_language(lang).rows and test.of_language(lang).rows
        },
        calibration_error=expected_calibration_error(test.scores, test.truth),
        first_rows_right=int((first.scores.argmax(axis=1) == first.truth).sum()),
        tokenizer_us=tokenizer_us,
        graph_us=graph_us,
    )


def low_rate_recall(valid: Scored, test: Scored) -> float:
    return recall_at_false_positives(
        (valid.scores, valid.truth), (test.scores, test.truth), LOW_RATE
    )


def by_language(test: Scored) -> dict[str, Figures]:
    """Figures of each language with enough rows, and of all."""
    counts = {lang: sum(r.lang == lang for r in test.rows) for lang in {r.lang for r in test.rows}}
    large = [lang for lang in counts if counts[lang] >= SMALLEST_GROUP]
    large.sort(key=lambda lang: -counts[lang])
    return {lang: test.of_language(lang).figures() for lang in (*large, ALL)}


def by_source(scored: Scored) -> dict[str, Figures]:
    """Figures of each source and language."""
    names = [f"{row.source.removeprefix(OWN_SOURCE + '/')} ({row.lang})" for row in scored.rows]
    return {
        name: scored.where([own == name for own in names]).figures()
        for name in dict.fromkeys(names)
    }
