"""Ready-made hooks: logs, Prometheus, OpenTelemetry. Put them together with `hooks.combine`.

No text that was sent appears in any of them, and no label takes more values than there are models,
replicas and kinds of failure.
"""

from __future__ import annotations

import logging
import time
from dataclasses import fields
from typing import TYPE_CHECKING, Protocol, cast

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from inference.hooks import (
    AttemptEvent,
    BatchEvent,
    BreakerEvent,
    CallEvent,
    CallStartEvent,
    HedgeEvent,
    Hooks,
    ReplicaEvent,
    RetryEvent,
)

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

__all__ = ["logging_hooks", "opentelemetry_hooks", "prometheus_hooks"]

OK = "ok"

# Finer than Prometheus' own below 100 ms: that is where a model server lives.
DURATION_BUCKETS_S = (
    *(0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075),
    *(0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0),
)
SIZE_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class _DataEvent(Protocol):
    __dataclass_fields__: dict[str, object]


# ---------------------------------------------------------------- logs


def logging_hooks(logger: logging.Logger | None = None) -> Hooks:
    """Log what an operator would ask for; the event's fields are in the record's `extra`, too.

    What goes well is DEBUG, what was worked round (a retry, a failed attempt) INFO, what callers
    or replicas suffer (a failed call, a breaker, a replica) WARNING.

    Args:
        logger: by default `inference`.
    """
    log = logger or logging.getLogger("inference")

    def tell(level: int, what: str, event: object) -> None:
        if not log.isEnabledFor(level):
            return
        values = _values(cast("_DataEvent", event))
        shown = " ".join(f"{name}={_shown(value)}" for name, value in values.items())
        log.log(level, "%s %s", what, shown, extra={"event": what, **values})

    def on_call(event: CallEvent) -> None:
        tell(logging.DEBUG if event.outcome == OK else logging.WARNING, "call", event)

    def on_attempt(event: AttemptEvent) -> None:
        tell(logging.DEBUG if event.outcome == OK else logging.INFO, "attempt", event)

    return Hooks(
        on_call=on_call,
        on_attempt=on_attempt,
        on_retry=lambda event: tell(logging.INFO, "retry", event),
        on_hedge=lambda event: tell(logging.INFO, "hedge", event),
        on_breaker=lambda event: tell(logging.WARNING, "breaker", event),
        on_replica=lambda event: tell(logging.WARNING, "replica", event),
        on_batch=lambda event: tell(logging.DEBUG, "batch", event),
    )


def _values(event: _DataEvent) -> dict[str, object]:
    return {each.name: getattr(event, each.name) for each in fields(event)}  # type: ignore[arg-type]


def _shown(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


# ---------------------------------------------------------------- Prometheus


def prometheus_hooks(registry: CollectorRegistry = REGISTRY, *, prefix: str = "inference") -> Hooks:
    """Count and time everything. Make it once a process and hand it to all clients.

    Args:
        registry: where the metrics are registered.
        prefix: of their names.

    Raises:
        ValueError: the registry has metrics of these names already.
    """
    metrics = _Metrics(registry, prefix)
    return Hooks(
        on_call=metrics.on_call,
        on_attempt=metrics.on_attempt,
        on_retry=metrics.on_retry,
        on_hedge=metrics.on_hedge,
        on_breaker=metrics.on_breaker,
        on_replica=metrics.on_replica,
        on_batch=metrics.on_batch,
    )


class _Metrics:
    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{prefix}_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"{prefix}_{name}", text, labels, registry=registry)

        def seconds(name: str, text: str, *labels: str) -> Histogram:
            name = f"{prefix}_{name}_seconds"
            return Histogram(name, text, labels, registry=registry, buckets=DURATION_BUCKETS_S)

        self.calls = counter("calls_total", "Calls by outcome", "model", "outcome")
        self.call_seconds = seconds("call", "Calls with all their attempts", "model")
        self.items = counter("items_total", "Texts in calls that were answered", "model")
        self.attempts = counter(
            "attempts_total", "Attempts by outcome", "replica", "model", "outcome"
        )
        self.attempt_seconds = seconds("attempt", "One attempt on one replica", "replica", "model")
        self.sent_bytes = counter("sent_bytes_total", "Requests sent, serialized", "replica")
        self.retries = counter("retries_total", "Further attempts by what made them", "reason")
        self.hedges = counter("hedges_total", "Second calls by which answer was used", "winner")
        self.breaker_is_closed = gauge(
            "breaker_is_closed",
            "1 while the replica gets its full share; 0 when open or ramping up",
            "replica",
        )
        self.breaker_changes = counter(
            "breaker_changes_total", "Breaker changes by new state", "replica", "state"
        )
        self.replica_changes = counter(
            "replica_changes_total", "Replica changes by new state", "replica", "state"
        )
        self.batches = counter("batches_total", "Batches by what made them leave", "reason")
        self.batch_size = Histogram(
            f"{prefix}_batch_size", "Calls in a batch", registry=registry, buckets=SIZE_BUCKETS
        )
        self.batch_wait = seconds("batch_wait", "How long a batch's oldest call had waited")
        self.queued = gauge("collector_queued", "Calls waiting for a batch to leave")
        self.in_flight = gauge("collector_in_flight", "Batches in flight")

    def on_call(self, event: CallEvent) -> None:
        self.calls.labels(event.model, event.outcome).inc()
        self.call_seconds.labels(event.model).observe(event.latency_ms / 1000)
        if event.outcome == OK:
            self.items.labels(event.model).inc(event.batch)

    def on_attempt(self, event: AttemptEvent) -> None:
        self.attempts.labels(event.replica, event.model, event.outcome).inc()
        seconds = event.latency_ms / 1000
        self.attempt_seconds.labels(event.replica, event.model).observe(seconds)
        self.sent_bytes.labels(event.replica).inc(event.sent_bytes)

    def on_retry(self, event: RetryEvent) -> None:
        self.retries.labels(event.reason).inc()

    def on_hedge(self, event: HedgeEvent) -> None:
        winner = {event.first: "first", event.second: "second"}.get(event.winner, "neither")
        self.hedges.labels(winner).inc()

    def on_breaker(self, event: BreakerEvent) -> None:
        self.breaker_changes.labels(event.replica, event.new).inc()
        self.breaker_is_closed.labels(event.replica).set(event.new in ("closed", "forced_closed"))

    def on_replica(self, event: ReplicaEvent) -> None:
        self.replica_changes.labels(event.replica, event.new).inc()

    def on_batch(self, event: BatchEvent) -> None:
        self.batches.labels(event.reason).inc()
        self.batch_size.observe(event.size)
        self.batch_wait.observe(event.wait_ms / 1000)
        self.queued.set(event.queued)
        self.in_flight.set(event.in_flight)


# ---------------------------------------------------------------- OpenTelemetry


def opentelemetry_hooks(tracer: Tracer | None = None) -> Hooks:
    """A span for each call, a child for each attempt, an event for each retry.

    Needs `opentelemetry-api` (the extra `tracing`). One result belongs to one client: calls are
    told apart by their ids, which are unique within a client.

    Args:
        tracer: by default the global provider's, named `inference`.
    """
    from opentelemetry import trace

    spans = _Spans(tracer or trace.get_tracer("inference"))
    return Hooks(
        on_call_start=spans.on_call_start,
        on_call=spans.on_call,
        on_attempt=spans.on_attempt,
        on_retry=spans.on_retry,
    )


class _Spans:
    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._open: dict[str, Span] = {}

    def on_call_start(self, event: CallStartEvent) -> None:
        from opentelemetry.trace import SpanKind

        # The parent is whatever span is current where the call was made.
        self._open[event.call_id] = self._tracer.start_span(
            f"inference {event.model}",
            kind=SpanKind.CLIENT,
            attributes={"inference.model": event.model, "inference.batch": event.batch},
        )

    def on_call(self, event: CallEvent) -> None:
        span = self._open.pop(event.call_id)
        span.set_attribute("inference.attempts", event.attempts)
        _set_outcome(span, event.outcome)
        span.end()

    def on_attempt(self, event: AttemptEvent) -> None:
        from opentelemetry.trace import SpanKind, set_span_in_context

        ended_ns = time.time_ns()
        parent = self._open.get(event.call_id)
        span = self._tracer.start_span(
            "inference attempt",
            context=None if parent is None else set_span_in_context(parent),
            kind=SpanKind.CLIENT,
            start_time=ended_ns - int(event.latency_ms * 1e6),
            attributes={
                "inference.replica": event.replica,
                "inference.model": event.model,
                "inference.attempt": event.attempt,
                "inference.batch": event.batch,
                "inference.sent_bytes": event.sent_bytes,
            },
        )
        _set_outcome(span, event.outcome)
        span.end(ended_ns)

    def on_retry(self, event: RetryEvent) -> None:
        span = self._open.get(event.call_id)
        if span is not None:
            span.add_event(
                "retry",
                {
                    "inference.replica": event.replica,
                    "inference.reason": event.reason,
                    "inference.delay_ms": event.delay_ms,
                },
            )


def _set_outcome(span: Span, outcome: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("inference.outcome", outcome)
    if outcome != OK:
        span.set_status(StatusCode.ERROR, outcome)
