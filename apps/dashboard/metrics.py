"""The figures in Prometheus' format. No label takes a value that came from outside: labels are
kinds, stages, states, and the names that operators gave to replicas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from apps.dashboard.figures import (
    RATE_WINDOW_S,
    SERVER_LOADS,
    ReplicaRow,
    WorkerRow,
    least_budget,
    living,
    replica_rows,
    worker_rows,
)
from apps.dashboard.selectors import Backlog, read_backlog
from apps.dashboard.totals import Totals, read_totals
from apps.policies.models import Action, Label
from apps.scoring.models import Source
from apps.scoring.samples import STAGES, read_samples
from inference import BreakerState, ReplicaStatus
from inference.stats import LatencySketch

PREFIX = "chatwarden"
UNDETERMINED = "undetermined"
# From a claim's milliseconds to a backlog's minutes.
BOUNDS_S = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
BATCH_BOUNDS = tuple(1 << power for power in range(11))
WORKER_STATES = ("busy", "idle", "paused", "gone")


@dataclass(frozen=True, slots=True)
class Scrape:
    """All that one answer is made from."""

    totals: Totals
    backlog: Backlog
    replicas: Sequence[ReplicaRow]
    workers: Sequence[WorkerRow]
    web_processes: int
    viewers: int
    batches_in_flight: int
    # None while no worker lives.
    retry_budget: float | None


def read_scrape(*, now: datetime) -> Scrape:
    """Read it anew: scrapes are seconds apart."""
    recent = read_samples(now - timedelta(seconds=RATE_WINDOW_S))
    web = living(recent, now, "web")
    return Scrape(
        totals=read_totals(),
        backlog=read_backlog(now=now),
        replicas=replica_rows(recent, now=now),
        workers=worker_rows(recent, now=now),
        web_processes=len(web),
        viewers=sum(sample.gauges.viewers for sample in web),
        batches_in_flight=sum(s.gauges.in_flight_batches for s in living(recent, now, "worker")),
        retry_budget=least_budget(recent, now),
    )


def render(scrape: Scrape) -> bytes:
    """The text that Prometheus reads."""
    registry = CollectorRegistry()
    registry.register(_Collected(scrape))
    return generate_latest(registry)


class _Collected(Collector):
    def __init__(self, scrape: Scrape) -> None:
        self._scrape = scrape

    def collect(self) -> Iterator[Metric]:
        yield from _counters(self._scrape.totals)
        yield _stage_seconds(self._scrape.totals.measured.sketches)
        yield _batch_messages(self._scrape.totals)
        yield from _backlog(self._scrape.backlog)
        yield from _workers(self._scrape)
        yield from _web(self._scrape)
        yield from _replicas(self._scrape.replicas)


def _counter(name: str, text: str, value: int) -> Metric:
    return CounterMetricFamily(f"{PREFIX}_{name}", text, value=value)


def _counters_by(
    name: str, text: str, label: str, values: Mapping[str, int], kinds: Iterable[str]
) -> Metric:
    """One series a kind, from the start: what appears only when it happens can't be rated."""
    family = CounterMetricFamily(f"{PREFIX}_{name}", text, labels=[label])
    for kind in kinds:
        family.add_metric([kind or UNDETERMINED], values.get(kind, 0))
    return family


def _counters(totals: Totals) -> Iterator[Metric]:
    counts, maps = totals.measured.counts, totals.measured.maps
    yield _counter("messages_received", "Messages stored, new ones only", totals.received)
    yield _counter("messages_claimed", "Messages taken by workers", counts["claimed"])
    yield _counters_by(
        "verdicts", "Verdicts by label", "label", maps["by_label"], ("", *Label.values)
    )
    yield _counters_by(
        "verdict_actions", "Verdicts by action", "action", maps["by_action"], Action.values
    )
    yield _counters_by(
        "verdict_sources", "Verdicts by source", "source", maps["by_source"], Source.values
    )
    yield _counter("claims_fenced", "Chunks whose lease had run out", counts["fenced"])
    yield _counter("chunks_released", "Chunks put back unjudged", counts["released"])
    yield _counter("inference_retries", "Further attempts on Triton", counts["retries"])
    yield _counter("inference_hedges", "Attempts beside one that was slow", counts["hedges"])
    yield _counter("calls_shed", "Calls that the worker's own limit refused", counts["shed"])
    yield _counter("calls_rejected", "Calls that Triton's queue refused", counts["rejected"])


def _stage_seconds(sketches: Mapping[str, LatencySketch]) -> Metric:
    family = HistogramMetricFamily(
        f"{PREFIX}_stage_seconds", "Latency by stage; bounds are met within 2 %", labels=["stage"]
    )
    for stage in STAGES:
        sketch = sketches.get(stage, LatencySketch())
        buckets = [(str(bound), sketch.count_upto(bound * 1000)) for bound in BOUNDS_S]
        family.add_metric([stage], [*buckets, ("+Inf", sketch.count)], sketch.sum_ms / 1000)
    return family


def _batch_messages(totals: Totals) -> Metric:
    batches = {int(bound): n for bound, n in totals.measured.maps["batch_sizes"].items()}
    upto = [(str(b), sum(n for size, n in batches.items() if size <= b)) for b in BATCH_BOUNDS]
    return HistogramMetricFamily(
        f"{PREFIX}_batch_messages",
        "Batches by the messages claimed for them; the sum is of those that got a verdict",
        buckets=[*upto, ("+Inf", sum(batches.values()))],
        sum_value=totals.measured.counts["verdicts"],
    )


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)


def _backlog(backlog: Backlog) -> Iterator[Metric]:
    yield _gauge("backlog_messages", "Messages that wait for a verdict", backlog.messages)
    yield _gauge(
        "backlog_oldest_age_seconds",
        "How long the oldest has waited; 0 when none does",
        backlog.oldest_age_s or 0.0,
    )


def _workers(scrape: Scrape) -> Iterator[Metric]:
    states = Counter(worker.state for worker in scrape.workers)
    family = GaugeMetricFamily(f"{PREFIX}_workers", "Scoring processes by state", labels=["state"])
    for state in WORKER_STATES:
        family.add_metric([state], states[state])
    yield family
    in_flight = sum(w.in_flight_messages for w in scrape.workers if w.state != "gone")
    yield _gauge("messages_in_flight", "Messages in calls to Triton", in_flight)
    yield _gauge("batches_in_flight", "Batches in calls to Triton", scrape.batches_in_flight)
    if scrape.retry_budget is not None:
        text = "Second attempts that the worker with the fewest may still make at once"
        yield _gauge("retry_budget", text, scrape.retry_budget)


def _web(scrape: Scrape) -> Iterator[Metric]:
    yield _gauge("web_processes", "Web processes that live", scrape.web_processes)
    yield _gauge("websocket_viewers", "Browsers on WebSockets, all processes", scrape.viewers)


# Names and texts of `figures.SERVER_LOADS`; a server that does not tell has no series.
_LOAD_NAMES = {
    "cpu_share": ("replica_cpu_ratio", "Processors of its machine in use, 0 to 1"),
    "memory_share": ("replica_memory_ratio", "Memory of its machine in use, 0 to 1"),
    "gpu_share": ("replica_gpu_ratio", "Its GPUs in use, 0 to 1"),
    "gpu_memory_share": ("replica_gpu_memory_ratio", "Memory of its GPUs in use, 0 to 1"),
}


def _replicas(replicas: Sequence[ReplicaRow]) -> Iterator[Metric]:
    status = _states("replica_state", "1 for the state that the worst-off worker sees")
    breaker = _states("breaker_state", "1 for the state that the worst-off worker's breaker has")
    in_flight = _by_replica("replica_calls_in_flight", "Calls in flight, all workers")
    latency = _by_replica("replica_latency_seconds", "Slowest worker's moving average")
    queued = _by_replica("replica_requests_queued", "Requests in Triton's own queue")
    waited = _by_replica("replica_queue_seconds", "Mean wait in Triton's own queue, last seconds")
    loads = {name: _by_replica(*_LOAD_NAMES[name]) for name in SERVER_LOADS}
    for replica in replicas:
        for state in ReplicaStatus:
            status.add_metric([replica.name, str(state)], replica.status == state)
        for each in BreakerState:
            breaker.add_metric([replica.name, str(each)], replica.breaker == each)
        in_flight.add_metric([replica.name], replica.in_flight)
        if replica.latency_ms is not None:
            latency.add_metric([replica.name], replica.latency_ms / 1000)
        if replica.queue_depth is not None:
            queued.add_metric([replica.name], replica.queue_depth)
        if replica.mean_queue_ms is not None:
            waited.add_metric([replica.name], replica.mean_queue_ms / 1000)
        for name, family in loads.items():
            if (share := getattr(replica, name)) is not None:
                family.add_metric([replica.name], share)
    yield from (status, breaker, in_flight, latency, queued, waited, *loads.values())


def _by_replica(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=["replica"])


def _states(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=["replica", "state"])
