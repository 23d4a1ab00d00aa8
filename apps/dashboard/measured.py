"""What samples of several processes and seconds add up to: pure, no database.

Addition is all there is: counts are summed and sketches merged, so any order and any grouping
(seconds to minutes to hours, processes to an installation) ends with the same figures.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from apps.scoring.samples import Counters, stage_of
from inference.stats import LatencySketch

MAPS = ("by_label", "by_action", "by_source", "batch_sizes")
COUNTS = tuple(each.name for each in fields(Counters) if each.name not in MAPS)


@dataclass(slots=True)
class Measured:
    """Sums of `Counters` and one merged sketch a stage."""

    counts: Counter[str] = field(default_factory=Counter)
    maps: dict[str, Counter[str]] = field(
        default_factory=lambda: {name: Counter() for name in MAPS}
    )
    sketches: dict[str, LatencySketch] = field(default_factory=dict)

    def add(self, payload: Mapping[str, Any]) -> None:
        """Add what a sample's payload, or `to_json`, holds; what is missing in it counts as none.

        Raises:
            ValueError: a sketch is damaged.
        """
        counters = payload["counters"]
        for name in COUNTS:
            self.counts[name] += counters.get(name, 0)
        for name in MAPS:
            self.maps[name].update(counters.get(name, {}))
        for name, encoded in payload["sketches"].items():
            sketch = LatencySketch.from_bytes(base64.b64decode(encoded))
            self.sketches.setdefault(stage_of(name), LatencySketch()).merge(sketch)

    def quantile_ms(self, stage: str, q: float) -> float | None:
        """Of everything that was added; None when nobody measured the stage."""
        sketch = self.sketches.get(stage)
        return None if sketch is None else sketch.quantile(q)

    def to_json(self) -> dict[str, Any]:
        return {
            "counters": {**self.counts, **{name: dict(m) for name, m in self.maps.items()}},
            "sketches": {
                stage: base64.b64encode(sketch.to_bytes()).decode("ascii")
                for stage, sketch in self.sketches.items()
            },
        }

    @classmethod
    def of(cls, payload: Mapping[str, Any]) -> Self:
        measured = cls()
        measured.add(payload)
        return measured
