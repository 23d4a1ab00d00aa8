"""What the client's tests share besides fixtures."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np

from inference import (
    ClientConfig,
    DeadlineConfig,
    HealthConfig,
    Hooks,
    ReplicaConfig,
    RetryConfig,
    Tensor,
)
from inference.health import pending_requests
from inference.hooks import AttemptEvent, RetryEvent
from moderation_site.local.servers_process import ServersProcess


def replicas_of(process: ServersProcess) -> list[ReplicaConfig]:
    return [
        ReplicaConfig(each["name"], grpc=each["grpc"], http=each["http"], metrics=each["metrics"])
        for each in process.ready()["triton"]
    ]


async def until(condition: Callable[[], Any], within_s: float = 60.0) -> None:
    """Wait until ``condition`` holds; it may be a plain or a coroutine function.

    ``within_s`` is no claim about speed: it turns a hang into a failure.
    """
    end_s = time.monotonic() + within_s
    while True:
        held = condition()
        if asyncio.iscoroutine(held):
            held = await held
        if held:
            return
        assert time.monotonic() < end_s, "it did not happen in time"
        await asyncio.sleep(0.01)


class Witness:
    """Keeps what the hooks were told."""

    def __init__(self) -> None:
        self.attempts: list[AttemptEvent] = []
        self.retries: list[RetryEvent] = []
        self.other: list[object] = []
        self.hooks = Hooks(
            on_attempt=self.attempts.append,
            on_retry=self.retries.append,
            on_breaker=self.other.append,
            on_replica=self.other.append,
            on_hedge=self.other.append,
            on_call=self.other.append,
        )

    @property
    def outcomes(self) -> list[str]:
        return [each.outcome for each in self.attempts]


def quiet(replicas: list[ReplicaConfig], **changes: Any) -> ClientConfig:
    """A configuration without health checks, whose only calls are the test's own."""
    settings: dict[str, Any] = {
        "health": HealthConfig(enabled=False),
        "retry": RetryConfig(backoff_first_ms=1),
        "deadlines": DeadlineConfig(default_budget_ms=20_000, attempt_timeout_ms=10_000),
    }
    return ClientConfig(replicas, **(settings | changes))


async def waiting_at(replica: ReplicaConfig) -> int | None:
    """How many requests wait there for an instance, as the server itself counts them.

    A call the client has sent may not have arrived; one that waits behind another proves both.
    """
    return pending_requests(await asyncio.to_thread(_page, f"http://{replica.metrics}/metrics"))


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def sleep_for(sleep_ms: int) -> Tensor:
    """The input of the models that sleep."""
    return Tensor.from_array("SLEEP_MS", np.array([[sleep_ms]], dtype=np.int32))
