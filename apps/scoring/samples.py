"""What one process measured in one second: written by the processes, merged by the dashboard.

A sample is also the process's heartbeat: a worker writes one a second while it lives, idle or
not, so "no sample for some seconds" means "gone". Sketches travel as base64 of
`LatencySketch.to_bytes()`: merge them (`sketch_bytes`), never average their quantiles.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from django.utils import timezone

from apps.chat.backlog import OWN_CHUNK_FROM
from apps.scoring.models import StageSample

# How long samples are kept.
KEPT_FOR = timedelta(hours=1)
# A process without a sample for so long is gone.
HEARTBEAT_LOST_AFTER = timedelta(seconds=5)
# `Gauges.paused_because` while an operator wants nothing claimed.
BY_HAND = "by_hand"
# The same while an operator wants the lists alone to decide.
DEGRADED = "degraded"

# Stages in the order of a message's way. Under `Sample.sketches` each stands by itself, or once for
# each class of messages that went through it, as `<stage>:<class>`.
STAGES: tuple[str, ...] = (
    "queue",  # stored -> claimed
    "claim",  # one claim: the statement and the fetch of its texts (a value a batch)
    "encode",  # texts -> request on its way (a value a batch)
    "inference",  # one call, from sending to its answer: network, Triton's queue, the model
    "store",  # verdicts -> durable (a value a batch)
    "push",  # durable -> the channel layer has it (a value a publication)
    "total",  # stored -> verdict durable (a value a message)
)


class MessageClass(StrEnum):
    """How a message came and how it fared: a stage means something else for each."""

    SINGLE = "single"  # with few others of its group, and claimed soon: somebody may be waiting
    BATCH = "batch"  # with at least `OWN_CHUNK_FROM` others, and claimed soon
    BACKLOG = "backlog"  # waited longer than `BACKLOG_AFTER_MS`: a burst, an outage


# A worker looks by itself every second or two: who waits longer waits behind others.
BACKLOG_AFTER_MS = 2_000.0


def class_of(size: int, waited_ms: float) -> MessageClass:
    """The class of the messages of one chunk."""
    if waited_ms > BACKLOG_AFTER_MS:
        return MessageClass.BACKLOG
    return MessageClass.BATCH if size >= OWN_CHUNK_FROM else MessageClass.SINGLE


def batch_bound(size: int) -> str:
    """The bar of the batch size distribution that `size` belongs to: the next power of two."""
    return str(1 << (size - 1).bit_length())


@dataclass(frozen=True, slots=True)
class Counters:
    """Things counted in that second. The three maps each sum to `verdicts`."""

    claimed: int = 0
    verdicts: int = 0
    by_label: Mapping[str, int] = field(default_factory=dict)  # "" counts the undetermined
    by_action: Mapping[str, int] = field(default_factory=dict)
    by_source: Mapping[str, int] = field(default_factory=dict)
    batches: int = 0
    # Batches by `batch_bound` of their size.
    batch_sizes: Mapping[str, int] = field(default_factory=dict)
    # Claims whose lease had run out: their verdicts were thrown away.
    fenced: int = 0
    # Chunks that came back unjudged: Triton away or overloaded.
    released: int = 0
    # Second attempts on Triton: after a failure, and beside a slow first one.
    retries: int = 0
    hedges: int = 0
    # Calls that our own door refused, and those that Triton's queue did.
    shed: int = 0
    rejected: int = 0


@dataclass(frozen=True, slots=True)
class Gauges:
    """Things as they stood at the end of that second."""

    in_flight_batches: int = 0
    in_flight_messages: int = 0
    batch_size_target: int = 0
    # Why nothing is being claimed; empty when claiming goes on.
    paused_because: str = ""
    # The version of each `Control` that this process has carried out, by its key.
    applied: Mapping[str, int] = field(default_factory=dict)
    # Second attempts that may be made at once.
    retry_budget: float | None = None
    memory_mb: float | None = None
    # Of a web process: browsers on its WebSockets.
    viewers: int = 0
    # The code that runs (`APP_VERSION`), and since when (Unix seconds).
    version: str = ""
    started_s: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One second of one process. `at` and `process` are columns, the rest is the payload."""

    at: datetime
    process: str
    role: str  # "worker" or "web"
    counters: Counters = field(default_factory=Counters)
    gauges: Gauges = field(default_factory=Gauges)
    sketches: Mapping[str, str] = field(default_factory=dict)
    # As `inference.ModerationClient.replica_states()` gives them, one object a replica.
    replicas: Sequence[Mapping[str, Any]] = ()
    # As `told.ClientEars` gives them, and `slowest.BatchTrace.to_json`.
    breaker_changes: Sequence[Mapping[str, Any]] = ()
    slow_batches: Sequence[Mapping[str, Any]] = ()

    def to_json(self) -> dict[str, Any]:
        """The payload column."""
        return {
            "role": self.role,
            "counters": asdict(self.counters),
            "gauges": asdict(self.gauges),
            "sketches": dict(self.sketches),
            "replicas": [dict(replica) for replica in self.replicas],
            "breaker_changes": [dict(change) for change in self.breaker_changes],
            "slow_batches": [dict(batch) for batch in self.slow_batches],
        }

    @classmethod
    def from_json(cls, at: datetime, process: str, payload: Mapping[str, Any]) -> Self:
        """Read a payload; keys that a newer process added are left aside."""
        return cls(
            at=at,
            process=process,
            role=str(payload["role"]),
            counters=Counters(**_known(Counters, payload["counters"])),
            gauges=Gauges(**_known(Gauges, payload["gauges"])),
            sketches=payload["sketches"],
            replicas=payload["replicas"],
            breaker_changes=payload.get("breaker_changes", ()),
            slow_batches=payload.get("slow_batches", ()),
        )


def _known(kind: type[Counters | Gauges], values: Mapping[str, Any]) -> dict[str, Any]:
    return {each.name: values[each.name] for each in fields(kind) if each.name in values}


def write_sample(sample: Sample) -> None:
    """Store one sample. Its time is the database's, so that clocks need not agree."""
    StageSample.objects.create(process=sample.process, payload=sample.to_json())


def read_samples(since: datetime) -> list[Sample]:
    """All samples after `since`, oldest first, of every process."""
    rows = (
        StageSample.objects.filter(at__gt=since)
        .order_by("at", "id")
        .values_list("at", "process", "payload")
    )
    return [Sample.from_json(*row) for row in rows]


def live_processes(role: str) -> set[str]:
    """The processes of a role that gave a sample lately."""
    since = timezone.now() - HEARTBEAT_LOST_AFTER
    return set(
        StageSample.objects.filter(at__gt=since, payload__role=role).values_list(
            "process", flat=True
        )
    )


def prune_samples() -> int:
    """Drop samples older than `KEPT_FOR`; returns how many."""
    return StageSample.objects.filter(at__lt=timezone.now() - KEPT_FOR).delete()[0]


def sketch_bytes(samples: Iterable[Sample], stage: str) -> list[bytes]:
    """The serialised sketches of one stage to be merged, of all classes or one (`total:batch`)."""
    return [
        base64.b64decode(encoded)
        for sample in samples
        for name, encoded in sample.sketches.items()
        if stage in (name, stage_of(name))
    ]


def stage_of(name: str) -> str:
    """The stage of a sketch, whichever class it is of."""
    return name.partition(":")[0]
