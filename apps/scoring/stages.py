"""How long messages took lately, by stage and by class, over all processes.

Percentiles come from merged sketches: of several processes and seconds together they are what one
sketch over all values would have said, within its error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from apps.scoring.samples import STAGES, MessageClass, Sample, read_samples, sketch_bytes
from inference.stats import LatencySketch


@dataclass(frozen=True, slots=True)
class StageLatency:
    """One stage, in milliseconds. `message_class` is None over all of them."""

    stage: str
    message_class: MessageClass | None
    count: int
    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


def stage_latencies(window: timedelta) -> list[StageLatency]:
    """What all processes measured in the last `window`, one statement.

    Returns:
        In the order of a message's way, each stage over all messages first, then by class; those
        that nobody measured are left out.
    """
    return latencies_of(read_samples(timezone.now() - window))


def latencies_of(samples: Iterable[Sample]) -> list[StageLatency]:
    """The same of samples that were read already. Pure."""
    known = list(samples)
    found: list[StageLatency] = []
    for stage in STAGES:
        overall = _merged(sketch_bytes(known, stage))
        if overall.count:
            found.append(_latency(stage, None, overall))
        for message_class in MessageClass:
            sketch = _merged(sketch_bytes(known, f"{stage}:{message_class}"))
            if sketch.count:
                found.append(_latency(stage, message_class, sketch))
    return found


def _merged(serialised: Iterable[bytes]) -> LatencySketch:
    merged = LatencySketch()
    for each in serialised:
        merged.merge(LatencySketch.from_bytes(each))
    return merged


def _latency(stage: str, message_class: MessageClass | None, sketch: LatencySketch) -> StageLatency:
    p50_ms, p90_ms, p95_ms, p99_ms = (sketch.quantile(q) or 0.0 for q in (0.5, 0.9, 0.95, 0.99))
    return StageLatency(
        stage,
        message_class,
        sketch.count,
        p50_ms,
        p90_ms,
        p95_ms,
        p99_ms,
        sketch.max_ms or 0.0,
    )
