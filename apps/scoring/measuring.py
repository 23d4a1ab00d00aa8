"""What this worker measures, gathered until the second is over and the sample is written."""

from __future__ import annotations

import base64
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from django.conf import settings
from django.utils import timezone

from apps.scoring.claims import Claim
from apps.scoring.pacing import Pacer
from apps.scoring.samples import BY_HAND, DEGRADED, Counters, Gauges, Sample, batch_bound
from apps.scoring.sinks import StoredVerdict
from apps.scoring.slowest import BatchTrace, Slowest
from apps.scoring.told import ClientEars
from apps.scoring.verdicts import Stored
from inference import ReplicaState
from inference.stats import StageStats

_KIND = attrgetter("label", "action", "source")


def process_name(role: str) -> str:
    """Says which process of which machine; fits the column."""
    return f"{role}-{os.getpid()}@{socket.gethostname()}"[:64]


def memory_mb() -> float | None:
    """What this process holds in memory now; None where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


class Measurements:
    """Counters and sketches of one process. Safe for several threads."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._process = process_name(role)
        self._stages = StageStats()
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._kinds: dict[str, Counter[str]] = {}
        self._gauges = Gauges()
        self._applied: Mapping[str, int] = {}
        self._is_held = self._is_degraded = False
        self._started_s = time.time()
        self.ears = ClientEars()
        self._slowest = Slowest()

    # ---------- what the pipeline tells ----------

    def claimed(self, claim: Claim, claim_ms: float) -> None:
        self._record("claim", claim, claim_ms)
        for message_class, chunks in claim.by_class.items():
            self._stages.record_many(f"queue:{message_class}", [c.waited_ms for c in chunks])
        self._count(claimed=claim.size)

    def encoded(self, claim: Claim, encode_ms: float) -> None:
        self._record("encode", claim, encode_ms)

    def answered(self, claim: Claim, inference_ms: float) -> None:
        self._record("inference", claim, inference_ms)

    def _record(self, stage: str, claim: Claim, value_ms: float) -> None:
        """What a batch went through together, for each class that is in it."""
        for message_class in claim.by_class:
            self._stages.record(f"{stage}:{message_class}", value_ms)

    def stored(
        self,
        claim: Claim,
        stored: Stored,
        *,
        store_ms: float,
        since_claim_ms: float,
        released: int,
    ) -> None:
        """What a batch came to is durable: nothing, if it was given back or was not ours any more.

        No work a message in the common case, that all of its messages have their verdicts.
        """
        self._count(fenced=stored.fenced, released=released)
        if not stored.verdicts:
            return
        self._record("store", claim, store_ms)
        sizes = _stored_sizes(claim, stored.verdicts)
        for message_class, chunks in claim.by_class.items():
            waited_ms = [chunk.waited_ms for chunk in chunks]
            totals_ms = np.repeat(waited_ms, [sizes[chunk.id] for chunk in chunks]) + since_claim_ms
            self._stages.record_many(f"total:{message_class}", totals_ms)
        kinds = _kinds(stored.verdicts)
        kinds["batch_sizes"] = Counter([batch_bound(claim.size)])
        self._count(verdicts=len(stored.verdicts), batches=1)
        self._count_kinds(kinds)

    def fell_back(self, verdicts: Sequence[StoredVerdict]) -> None:
        """The lists alone have decided these."""
        self._count(verdicts=len(verdicts))
        self._count_kinds(_kinds(verdicts))

    def _count_kinds(self, kinds: Mapping[str, Counter[str]]) -> None:
        with self._lock:
            for name, counter in kinds.items():
                self._kinds.setdefault(name, Counter()).update(counter)

    def pushed(self, push_ms: float) -> None:
        self._stages.record("push", push_ms)

    def traced(self, trace: BatchTrace) -> None:
        self._slowest.offer(trace)

    def flying(self, batches: int, messages: int, pacer: Pacer) -> None:
        self._gauges = Gauges(batches, messages, pacer.batch, pacer.paused_because)

    def controlled(self, applied: Mapping[str, int], *, is_held: bool, is_degraded: bool) -> None:
        """What this process has carried out of the operators' wishes."""
        self._applied, self._is_held, self._is_degraded = applied, is_held, is_degraded

    def _count(self, **increments: int) -> None:
        with self._lock:
            self._counts.update(increments)

    # ---------- what the sampler takes ----------

    def take_sample(
        self, replicas: Sequence[ReplicaState], retry_budget: float | None = None
    ) -> Sample:
        """All since the last one."""
        snapshot = self._stages.snapshot_and_reset()
        told = self.ears.take()
        with self._lock:
            counts, self._counts = self._counts, Counter()
            kinds, self._kinds = self._kinds, {}
        values: dict[str, Any] = {
            **counts,
            **told.counts,
            **{name: dict(c) for name, c in kinds.items()},
        }
        return Sample(
            at=timezone.now(),
            process=self._process,
            role=self._role,
            counters=Counters(**values),
            gauges=replace(
                self._gauges_now(),
                retry_budget=retry_budget,
                memory_mb=memory_mb(),
                version=settings.APP_VERSION,
                started_s=self._started_s,
            ),
            sketches={
                series.name: base64.b64encode(sketch.to_bytes()).decode("ascii")
                for series, sketch in snapshot.sketches.items()
            },
            replicas=[_replica(state) for state in replicas],
            breaker_changes=told.breaker_changes,
            slow_batches=[trace.to_json() for trace in self._slowest.take()],
        )

    def _gauges_now(self) -> Gauges:
        because = self._gauges.paused_because
        if self._is_held or self._is_degraded:
            because = BY_HAND if self._is_held else DEGRADED
        return replace(self._gauges, paused_because=because, applied=dict(self._applied))


def _stored_sizes(claim: Claim, verdicts: Sequence[StoredVerdict]) -> Mapping[int, int]:
    """How many messages of each chunk have their verdicts now, none where there is no entry."""
    if len(verdicts) == claim.size:
        return {chunk.id: chunk.size for chunk in claim.chunks}
    return Counter(verdict.chunk_id for verdict in verdicts)


def _kinds(verdicts: Sequence[StoredVerdict]) -> dict[str, Counter[str]]:
    """How many there are of each label, action and source."""
    by_label: Counter[str] = Counter()
    by_action: Counter[str] = Counter()
    by_source: Counter[str] = Counter()
    # Together first: there are few combinations, and many verdicts.
    for (label, action, source), count in Counter(map(_KIND, verdicts)).items():
        by_label[str(label or "")] += count
        by_action[str(action)] += count
        by_source[str(source)] += count
    return {"by_label": by_label, "by_action": by_action, "by_source": by_source}


def _replica(state: ReplicaState) -> Mapping[str, Any]:
    replica = asdict(state)
    replica["models"] = [[str(model), is_ready] for model, is_ready in state.models]
    return replica
