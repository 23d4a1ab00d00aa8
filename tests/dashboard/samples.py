"""Samples as processes write them, for tests that name only what they are about."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from apps.scoring.models import StageSample
from apps.scoring.samples import Counters, Gauges, Sample
from inference.stats import LatencySketch


def sketch(values_ms: Sequence[float]) -> str:
    made = LatencySketch()
    made.add_many(values_ms)
    return base64.b64encode(made.to_bytes()).decode()


def replica(name: str = "triton-1", **changes: Any) -> dict[str, Any]:
    calm = {
        "name": name,
        "address": "127.0.0.1:8001",
        "state": "ready",
        "reason": "",
        "breaker": "closed",
        "breaker_reason": "",
        "seconds_to_probe": None,
        "in_flight": 1,
        "latency_ms": 5.0,
        "queue_depth": None,
        "version": "2.51.0",
    }
    return {**calm, **changes}


def sample(
    at: datetime,
    process: str = "worker-1",
    *,
    role: str = "worker",
    replicas: Sequence[Mapping[str, Any]] = (),
    in_flight: int = 0,
    paused_because: str = "",
    total_ms: Sequence[float] = (),
    gauges: Mapping[str, Any] | None = None,
    breaker_changes: Sequence[Mapping[str, Any]] = (),
    slow_batches: Sequence[Mapping[str, Any]] = (),
    **counters: Any,
) -> Sample:
    return Sample(
        at=at,
        process=process,
        role=role,
        counters=Counters(**counters),
        gauges=Gauges(
            in_flight_messages=in_flight, paused_because=paused_because, **(gauges or {})
        ),
        sketches={"total": sketch(total_ms)} if total_ms else {},
        replicas=replicas,
        breaker_changes=breaker_changes,
        slow_batches=slow_batches,
    )


def store(*samples: Sample) -> None:
    for each in samples:
        StageSample.objects.create(at=each.at, process=each.process, payload=each.to_json())
