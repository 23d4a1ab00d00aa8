"""What the operator's page shows, from samples: pure, no database, so it can be tabled.

Sketches are merged and then asked; percentiles are never averaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from apps.scoring.samples import HEARTBEAT_LOST_AFTER, STAGES, Sample, sketch_bytes
from inference.stats import LatencySketch

# Rates are means over this long, stages and shares over the longer one.
RATE_WINDOW_S = 10
STAGE_WINDOW_S = 60
# A process that was seen lately but is silent now is shown as gone for so long.
GONE_SHOWN_FOR = timedelta(seconds=STAGE_WINDOW_S)

# Samples carry the database's time, `now` is this machine's.
CLOCKS_DIFFER_BY = timedelta(seconds=2)

SERVING = {"ready"}
# In half-open only a probe goes through.
_BREAKER_KEEPS_OUT = {"open", "half_open", "forced_open"}
# From calm to worst: of several processes' views of one replica the worst is shown.
BREAKER_RANK = {
    "closed": 0,
    "forced_closed": 1,
    "ramping": 2,
    "half_open": 3,
    "open": 4,
    "forced_open": 5,
}
SERVER_LOADS = ("cpu_share", "memory_share", "gpu_share", "gpu_memory_share")
_STATUS_RANK = {"ready": 0, "draining": 1, "live": 2, "ejected": 3, "down": 4}


@dataclass(frozen=True, slots=True)
class StageRow:
    """Latency of one stage over the stage window, milliseconds. `share` is of the total's p99."""

    stage: str
    count: int
    p50_ms: float | None
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    share: float


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One Triton server, as its callers see it; `views` of them agree on less than the worst."""

    name: str
    address: str
    status: str
    reason: str
    breaker: str
    breaker_reason: str
    seconds_to_probe: float | None
    in_flight: int
    latency_ms: float | None
    queue_depth: int | None
    # Of all calls of all callers in the last five seconds, as the server adds them up.
    mean_queue_ms: float | None
    version: str
    # Every model version in its repository, and whether it is ready.
    models: Sequence[tuple[str, bool]]
    # Of the server's machine, 0 to 1; None where its metrics do not tell.
    cpu_share: float | None
    memory_share: float | None
    gpu_share: float | None
    gpu_memory_share: float | None
    processes: int
    processes_breaker_closed: int

    @property
    def is_serving(self) -> bool:
        return self.status in SERVING and self.breaker not in _BREAKER_KEEPS_OUT

    @property
    def state(self) -> str:
        """The shape beside the word: healthy, half-open, degraded or down."""
        if self.status == "down" or self.breaker in {"open", "forced_open"}:
            return "down"
        if self.breaker in {"half_open", "ramping"}:
            return "half-open"
        return "healthy" if self.status in SERVING else "degraded"


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One process that judges. `mean_batch` is None when it made no batch in the window."""

    name: str
    role: str
    state: str  # busy, idle, paused, gone
    paused_because: str
    verdicts_per_s: float
    mean_batch: float | None
    in_flight_messages: int
    memory_mb: float | None
    silent_s: float


@dataclass(frozen=True, slots=True)
class Figures:
    at: datetime
    verdicts_per_s: float
    undetermined_share: float | None
    fallback_share: float | None
    by_label: Mapping[str, int]
    by_action: Mapping[str, int]
    stages: Sequence[StageRow]
    replicas: Sequence[ReplicaRow]
    workers: Sequence[WorkerRow]
    retries: int
    released: int
    fenced: int
    hedges: int = 0
    shed: int = 0
    rejected: int = 0
    # Second attempts that the worker with the fewest may still make at once.
    retry_budget: float | None = None
    in_flight_batches: int = 0
    # Browsers on the WebSockets of all web processes that live.
    viewers: int = 0
    web_processes: int = 0
    # Verdicts of the stage window: nothing to say about shares and latencies without any.
    verdicts: int = 0
    batches: int = 0
    # Share of batches by the upper bound of their size, 1, 2, 4, … up to the largest seen.
    batch_sizes: Sequence[tuple[int, float]] = ()

    @property
    def serving(self) -> int:
        return sum(replica.is_serving for replica in self.replicas)

    @property
    def live_workers(self) -> int:
        return sum(worker.state != "gone" for worker in self.workers)

    @property
    def paused_because(self) -> str:
        """Why judging stands still, when it does in every process."""
        live = [worker for worker in self.workers if worker.state != "gone"]
        return live[0].paused_because if live and all(w.paused_because for w in live) else ""


@dataclass(slots=True)
class Process:
    """The samples of one process, oldest first."""

    samples: list[Sample] = field(default_factory=list)

    @property
    def newest(self) -> Sample:
        return self.samples[-1]


def make_figures(samples: Sequence[Sample], *, now: datetime) -> Figures:
    """The page's numbers from all processes' samples of the last minute, oldest first."""
    since = now - timedelta(seconds=STAGE_WINDOW_S)
    recent = [s for s in samples if since < s.at <= now + CLOCKS_DIFFER_BY]
    rated = [s for s in recent if s.at > now - timedelta(seconds=RATE_WINDOW_S)]
    verdicts = sum(s.counters.verdicts for s in recent)
    by_label, by_action, by_source = (
        _summed(getattr(s.counters, name) for s in recent)
        for name in ("by_label", "by_action", "by_source")
    )
    return Figures(
        at=now,
        verdicts_per_s=sum(s.counters.verdicts for s in rated) / RATE_WINDOW_S,
        undetermined_share=by_label[""] / verdicts if verdicts else None,
        fallback_share=by_source["fallback"] / verdicts if verdicts else None,
        by_label=by_label,
        by_action=by_action,
        stages=stage_rows(recent),
        replicas=replica_rows(recent, now=now),
        workers=worker_rows(recent, now=now),
        retries=sum(s.counters.retries for s in recent),
        released=sum(s.counters.released for s in recent),
        fenced=sum(s.counters.fenced for s in recent),
        hedges=sum(s.counters.hedges for s in recent),
        shed=sum(s.counters.shed for s in recent),
        rejected=sum(s.counters.rejected for s in recent),
        retry_budget=least_budget(recent, now),
        in_flight_batches=sum(s.gauges.in_flight_batches for s in living(recent, now, "worker")),
        viewers=sum(s.gauges.viewers for s in living(recent, now, "web")),
        web_processes=len(living(recent, now, "web")),
        verdicts=verdicts,
        batches=sum(s.counters.batches for s in recent),
        batch_sizes=size_shares(_summed(s.counters.batch_sizes for s in recent)),
    )


def living(samples: Sequence[Sample], now: datetime, role: str) -> list[Sample]:
    """The newest sample of each process of a role that still gives signs of life."""
    newest = [process.newest for process in by_process(samples).values()]
    return [s for s in newest if s.role == role and now - s.at <= HEARTBEAT_LOST_AFTER]


def least_budget(samples: Sequence[Sample], now: datetime) -> float | None:
    """Second attempts that the worker with the fewest may still make; None without a worker."""
    budgets = [s.gauges.retry_budget for s in living(samples, now, "worker")]
    return min((budget for budget in budgets if budget is not None), default=None)


def size_shares(batches: Mapping[str, int]) -> list[tuple[int, float]]:
    """Every bar up to the largest, empty ones too: a gap in the axis would mislead."""
    total = sum(batches.values())
    if not total:
        return []
    largest = max(int(bound) for bound in batches)
    bounds = (1 << power for power in range(largest.bit_length()))
    return [(bound, batches.get(str(bound), 0) / total) for bound in bounds]


def _summed(maps: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in maps:
        total.update(each)
    return total


def merged_sketch(samples: Iterable[Sample], stage: str) -> LatencySketch:
    """One sketch of a stage over all the samples."""
    merged = LatencySketch()
    for serialised in sketch_bytes(samples, stage):
        merged.merge(LatencySketch.from_bytes(serialised))
    return merged


def stage_rows(samples: Sequence[Sample]) -> list[StageRow]:
    """Each stage in the order of a message's way; those nobody measured are left out."""
    sketches = {stage: merged_sketch(samples, stage) for stage in STAGES}
    longest_ms = sketches["total"].quantile(0.99) or 0.0
    return [_stage_row(stage, each, longest_ms) for stage, each in sketches.items() if each.count]


def _stage_row(stage: str, sketch: LatencySketch, longest_ms: float) -> StageRow:
    p50_ms, p90_ms, p95_ms, p99_ms = (sketch.quantile(q) for q in (0.5, 0.9, 0.95, 0.99))
    share = min(1.0, (p99_ms or 0.0) / longest_ms) if longest_ms else 0.0
    return StageRow(stage, sketch.count, p50_ms, p90_ms, p95_ms, p99_ms, share)


def by_process(samples: Iterable[Sample]) -> dict[str, Process]:
    processes: dict[str, Process] = {}
    for sample in samples:
        processes.setdefault(sample.process, Process()).samples.append(sample)
    return processes


def replica_rows(samples: Sequence[Sample], *, now: datetime) -> list[ReplicaRow]:
    """Each replica once, from the newest sample of each process that still lives."""
    views: dict[str, list[Mapping[str, Any]]] = {}
    for process in by_process(samples).values():
        if now - process.newest.at <= HEARTBEAT_LOST_AFTER:
            for view in process.newest.replicas:
                views.setdefault(view["name"], []).append(view)
    return [_replica_row(views[name]) for name in sorted(views)]


def _replica_row(views: Sequence[Mapping[str, Any]]) -> ReplicaRow:
    worst = max(views, key=_badness)
    latencies = [view["latency_ms"] for view in views if view["latency_ms"] is not None]
    depths = [view["queue_depth"] for view in views if view["queue_depth"] is not None]
    return ReplicaRow(
        name=worst["name"],
        address=worst["address"],
        status=worst["state"],
        reason=worst["reason"],
        breaker=worst["breaker"],
        breaker_reason=worst["breaker_reason"],
        seconds_to_probe=worst["seconds_to_probe"],
        in_flight=sum(view["in_flight"] for view in views),
        latency_ms=max(latencies, default=None),
        queue_depth=max(depths, default=None),
        mean_queue_ms=_newest(views, "mean_queue_ms"),
        version=worst["version"],
        models=[(name, is_ready) for name, is_ready in _newest(views, "models") or ()],
        **_server_load(views),
        processes=len(views),
        processes_breaker_closed=sum(view["breaker"] == "closed" for view in views),
    )


def _server_load(views: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    load = _newest(views, "server_load") or {}
    return {name: load.get(name) for name in SERVER_LOADS}


def _newest(views: Sequence[Mapping[str, Any]], name: str) -> Any:
    """As the worker tells that looked last, of those that can tell."""
    told = [view for view in views if view.get(name) is not None]
    newest = max(told, key=lambda view: view.get("checked_at_s", 0.0), default=None)
    return newest[name] if newest else None


def _badness(view: Mapping[str, Any]) -> tuple[int, int]:
    return BREAKER_RANK.get(view["breaker"], 0), _STATUS_RANK.get(view["state"], 0)


def worker_rows(samples: Sequence[Sample], *, now: datetime) -> list[WorkerRow]:
    """Each process of the last minute that judges, gone ones included."""
    processes = by_process(s for s in samples if s.role == "worker")
    return [_worker_row(name, processes[name], now) for name in sorted(processes)]


def _worker_row(name: str, process: Process, now: datetime) -> WorkerRow:
    newest = process.newest
    since = now - timedelta(seconds=RATE_WINDOW_S)
    rated = [s.counters for s in process.samples if s.at > since]
    batches = sum(c.batches for c in rated)
    silent = now - newest.at
    return WorkerRow(
        name=name,
        role=newest.role,
        state=_worker_state(newest, rated_verdicts=sum(c.verdicts for c in rated), silent=silent),
        paused_because=newest.gauges.paused_because,
        verdicts_per_s=sum(c.verdicts for c in rated) / RATE_WINDOW_S,
        mean_batch=sum(c.claimed for c in rated) / batches if batches else None,
        in_flight_messages=newest.gauges.in_flight_messages,
        memory_mb=newest.gauges.memory_mb,
        silent_s=silent.total_seconds(),
    )


def _worker_state(newest: Sample, *, rated_verdicts: int, silent: timedelta) -> str:
    if silent > HEARTBEAT_LOST_AFTER:
        return "gone"
    if newest.gauges.paused_because:
        return "paused"
    return "busy" if newest.gauges.in_flight_messages or rated_verdicts else "idle"
