"""One label's thresholds as the page draws them: what stands, what is proposed, what that cuts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.forms import BoundField

from apps.console.forms import PublishForm
from apps.console.selectors import BARS, Histogram
from apps.policies.judging import Limits
from apps.policies.models import Label

CHART_WIDTH, CHART_HEIGHT = 606, 56


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar and, inside it, the part that people confirmed. In units of the drawing."""

    x: float
    height: float
    known: float

    @property
    def top(self) -> float:
        return CHART_HEIGHT - self.height

    @property
    def known_top(self) -> float:
        return CHART_HEIGHT - self.known


@dataclass(frozen=True, slots=True)
class ThresholdRow:
    label: Label
    standing: Limits
    hold: object
    remove: object
    errors: Sequence[str]
    bars: Sequence[Bar]
    counts_json: str
    total: int
    held: int
    removed: int

    @property
    def hold_name(self) -> str:
        return f"{self.label}_hold"

    @property
    def remove_name(self) -> str:
        return f"{self.label}_remove"


def rows(
    standing: Mapping[Label, Limits],
    histograms: Mapping[Label, Histogram],
    form: PublishForm | None,
) -> list[ThresholdRow]:
    return [_row(label, limits, histograms[label], form) for label, limits in standing.items()]


def _row(
    label: Label, limits: Limits, histogram: Histogram, form: PublishForm | None
) -> ThresholdRow:
    hold, remove = _field(form, f"{label}_hold"), _field(form, f"{label}_remove")
    errors = [str(error) for field in (hold, remove) if field for error in field.errors]
    return ThresholdRow(
        label=label,
        standing=limits,
        hold=hold.value() if hold else f"{limits.hold:.2f}",
        remove=remove.value() if remove else f"{limits.remove:.2f}",
        errors=errors,
        bars=_bars(histogram),
        counts_json=json.dumps(histogram.scores),
        total=histogram.total,
        held=_from(histogram, limits.hold) - _from(histogram, limits.remove),
        removed=_from(histogram, limits.remove),
    )


def _field(form: PublishForm | None, name: str) -> BoundField | None:
    return form[name] if form is not None and form.is_bound else None


def _from(histogram: Histogram, limit: float) -> int:
    """How many scores reach `limit`, to the hundredth."""
    return sum(histogram.scores[math.ceil(round(limit * 100, 6)) :])


def _bars(histogram: Histogram) -> list[Bar]:
    """On a root scale: what matters is the thin end, which a plain one would flatten to nothing."""
    most = math.sqrt(max(histogram.scores, default=0) or 1)
    step = CHART_WIDTH / BARS
    return [
        Bar(
            index * step,
            math.sqrt(count) / most * CHART_HEIGHT,
            math.sqrt(known) / most * CHART_HEIGHT,
        )
        for index, (count, known) in enumerate(zip(histogram.scores, histogram.known, strict=True))
        if count
    ]
