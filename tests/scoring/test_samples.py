"""Samples survive the database, newer keys, and merging."""

from __future__ import annotations

import base64
from datetime import timedelta

from django.utils import timezone

from apps.scoring.models import StageSample
from apps.scoring.samples import (
    KEPT_FOR,
    Counters,
    Gauges,
    Sample,
    live_processes,
    prune_samples,
    read_samples,
    sketch_bytes,
    write_sample,
)
from inference.stats import LatencySketch


def sample(**changes: object) -> Sample:
    sketch = LatencySketch()
    sketch.add_many([1.0, 2.0, 3.0])
    fields = {
        "at": timezone.now(),
        "process": "worker-1@here",
        "role": "worker",
        "counters": Counters(verdicts=3, by_label={"spam": 1, "ok": 2}),
        "gauges": Gauges(in_flight_batches=2, paused_because="no_replica"),
        "sketches": {"total": base64.b64encode(sketch.to_bytes()).decode()},
        "replicas": [{"name": "triton-1", "breaker": "closed"}],
    }
    return Sample(**{**fields, **changes})  # type: ignore[arg-type]


def test_sample_comes_back_as_it_was_written() -> None:
    before = timezone.now() - timedelta(seconds=5)
    written = sample()
    write_sample(written)
    (read,) = read_samples(before)
    assert (read.process, read.role, read.counters, read.gauges) == (
        written.process,
        written.role,
        written.counters,
        written.gauges,
    )
    assert list(read.replicas) == list(written.replicas)
    merged = LatencySketch()
    for data in sketch_bytes([read, read], "total"):
        merged.merge(LatencySketch.from_bytes(data))
    assert merged.count == 6


def test_key_of_a_newer_process_is_left_aside() -> None:
    payload = sample().to_json()
    payload["counters"]["not_yet_known"] = 7
    assert Sample.from_json(timezone.now(), "w", payload).counters.verdicts == 3


def test_process_is_live_while_it_gives_samples() -> None:
    write_sample(sample(process="a"))
    write_sample(sample(process="b", role="web"))
    StageSample.objects.create(
        process="gone", payload=sample().to_json(), at=timezone.now() - timedelta(minutes=1)
    )
    assert live_processes("worker") == {"a"}


def test_old_samples_are_dropped() -> None:
    write_sample(sample())
    StageSample.objects.create(process="old", payload={}, at=timezone.now() - KEPT_FOR * 2)
    assert prune_samples() == 1
    assert StageSample.objects.count() == 1
