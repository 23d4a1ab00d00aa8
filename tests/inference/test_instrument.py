"""The ready-made hooks, on a client that calls a server scripted to fail first."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import grpc
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest

from inference import AsyncModerationClient, Hooks
from inference.collector import Collector
from inference.errors import InferenceError, ModelFailedError
from inference.hooks import BreakerEvent, HedgeEvent, combine
from inference.instrument import logging_hooks, opentelemetry_hooks, prometheus_hooks
from tests.inference.scripted_server import (
    Script,
    ScriptedServer,
    answer,
    fail_with,
    in_turn,
)
from tests.inference.support import quiet

SECRET = "what the member wrote"
BUSY = fail_with(grpc.StatusCode.UNAVAILABLE, "Exceeds maximum queue size")
BROKEN = fail_with(grpc.StatusCode.INTERNAL, f"ValueError: {SECRET}")


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """Busy at the first call, then well."""
    subject = ScriptedServer(Script(infer=in_turn(BUSY, answer)), name="a")
    yield subject
    subject.close()


async def judge_one(server: ScriptedServer, hooks: Hooks) -> None:
    """One call through the collector: two attempts at first, one later on."""
    async with AsyncModerationClient(quiet([server.replica]), hooks) as client:
        judge = Collector(
            lambda texts, deadline: client.classify(texts, deadline=deadline), hooks=hooks
        )
        async with judge:
            await judge.submit(SECRET)


async def test_metrics_tell_calls_attempts_and_batches(server: ScriptedServer) -> None:
    registry = CollectorRegistry()
    await judge_one(server, prometheus_hooks(registry))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("inference_calls_total", model="moderation", outcome="ok") == 1
    assert value("inference_items_total", model="moderation") == 1
    attempts = {"replica": "a", "model": "moderation"}
    assert value("inference_attempts_total", **attempts, outcome="queue_full") == 1
    assert value("inference_attempts_total", **attempts, outcome="ok") == 1
    assert value("inference_attempt_seconds_count", **attempts) == 2
    assert value("inference_sent_bytes_total", replica="a") > 2 * len(SECRET)
    assert value("inference_retries_total", reason="queue_full") == 1
    assert value("inference_batches_total", reason="idle") == 1
    assert value("inference_batch_size_sum") == 1
    assert SECRET not in generate_latest(registry).decode()


def test_metrics_follow_breakers_and_hedges() -> None:
    registry = CollectorRegistry()
    hooks = prometheus_hooks(registry, prefix="triton")

    def is_closed() -> float | None:
        return registry.get_sample_value("triton_breaker_is_closed", {"replica": "a"})

    hooks.on_breaker(BreakerEvent("a", "closed", "open", "6 of 10 failed", 0.5))
    assert is_closed() == 0
    hooks.on_breaker(BreakerEvent("a", "half_open", "closed", "probe answered", 0.0))
    assert is_closed() == 1
    for winner in ("a", "b", ""):
        hooks.on_hedge(HedgeEvent("1", "moderation", "a", "b", 5.0, winner))
    for winner in ("first", "second", "neither"):
        assert registry.get_sample_value("triton_hedges_total", {"winner": winner}) == 1


async def test_log_lines_carry_fields_and_no_text(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="inference"):
        await judge_one(server, logging_hooks())
    told = {record.event: record for record in caplog.records if hasattr(record, "event")}
    assert set(told) == {"batch", "attempt", "retry", "call"}
    assert told["retry"].levelno == logging.INFO
    assert (told["retry"].reason, told["retry"].replica) == ("queue_full", "a")
    assert told["call"].attempts == 2
    assert "outcome=ok" in told["call"].getMessage()
    assert SECRET not in caplog.text


async def test_a_failed_call_is_a_warning_without_the_models_words(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.script.infer = BROKEN
    async with AsyncModerationClient(quiet([server.replica]), logging_hooks()) as client:
        with caplog.at_level(logging.INFO, logger="inference"):
            (judged,) = await classify_or_errors(client)
    assert isinstance(judged, InferenceError)
    assert any(record.levelno == logging.WARNING for record in caplog.records)
    assert SECRET not in caplog.text
    assert SECRET not in str(judged)


async def classify_or_errors(client: AsyncModerationClient) -> list[InferenceError | None]:
    try:
        return [row.error for row in await client.classify([SECRET])]
    except ModelFailedError as error:
        return [error]


async def test_spans_nest_attempts_in_calls_and_calls_in_what_made_them(
    server: ScriptedServer,
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("request") as request:
        await judge_one(server, opentelemetry_hooks(tracer))
    spans = exporter.get_finished_spans()
    attempts = [span for span in spans if span.name == "inference attempt"]
    (call,) = (span for span in spans if span.name == "inference moderation")
    assert call.parent.span_id == request.get_span_context().span_id
    assert [span.parent.span_id for span in attempts] == [call.context.span_id] * 2
    outcomes = [span.attributes["inference.outcome"] for span in attempts]
    assert outcomes == ["queue_full", "ok"]
    assert [event.name for event in call.events] == ["retry"]
    assert call.attributes["inference.attempts"] == 2
    assert [span.status.is_ok for span in attempts] == [False, True]
    assert all(span.start_time <= span.end_time for span in spans)
    assert SECRET not in "".join(span.to_json() for span in spans)


async def test_all_three_together(server: ScriptedServer, caplog: pytest.LogCaptureFixture) -> None:
    registry = CollectorRegistry()
    with caplog.at_level(logging.INFO, logger="inference"):
        await judge_one(server, combine(logging_hooks(), prometheus_hooks(registry)))
    labels = {"reason": "queue_full"}
    assert registry.get_sample_value("inference_retries_total", labels) == 1
    assert "retry call_id=" in caplog.text
