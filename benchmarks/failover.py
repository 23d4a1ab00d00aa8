"""What callers notice when one of two replicas goes: killed, stopped, frozen, slowed.

Sixteen callers go on all the time. The fault comes, lasts, ends; afterwards the replica is started
again by the supervisor, thawed, or no longer slowed. From the moment it says ready itself,
`back_after_ms` is until it first answers a call, `half_after_ms` until it has half of its share of
the calls: what lies between is the breaker's ramp, on purpose.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import uvloop

from benchmarks.replicas import Running, add_repository_argument, triton_replicas
from inference import (
    AsyncModerationClient,
    ClientConfig,
    Deadline,
    DeadlineConfig,
    Hooks,
    InferenceError,
    ReplicaConfig,
)
from inference.hooks import AttemptEvent
from tests.inference.fault_proxy import NONE, Fault, FaultProxy

CALLERS = 16
BATCH = 4
WARM_S, FAULT_S, BACK_LIMIT_S = 3.0, 4.0, 30.0
# A worker's calls, with the defaults; a 30 ms check degrades by itself instead.
BUDGET_S = DeadlineConfig().default_budget_ms / 1000
SLOWED_MS = 200.0
# A replica has left when its share of a window of attempts is under a tenth of a fair one, and has
# half of it again when it is over a quarter: there are two.
WINDOW_S = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--faults", nargs="*", default=list(FAULTS), choices=list(FAULTS))
    add_repository_argument(parser)


def run(options: dict[str, Any]) -> dict[str, Any]:
    with triton_replicas(2, options) as running:
        rows = [uvloop.run(_measure(fault, running)) for fault in options["faults"]]
    return {"rows": rows, "callers": CALLERS, "batch": BATCH, "budget_ms": BUDGET_S * 1000}


@dataclass
class Record:
    """What the hooks and the callers saw, on the monotonic clock."""

    attempts: list[AttemptEvent] = field(default_factory=list)
    began_s: list[float] = field(default_factory=list)
    calls: list[tuple[float, str]] = field(default_factory=list)

    def on_attempt(self, event: AttemptEvent) -> None:
        # When it began: what a frozen replica was sent ends only with its timeout.
        self.began_s.append(time.monotonic() - event.latency_ms / 1000)
        self.attempts.append(event)

    def share(self, name: str, since_s: float, until_s: float) -> float:
        """The replica's part of the attempts that began in this span."""
        names = [event.replica for event in self.since(since_s, until_s)]
        return names.count(name) / len(names) if names else 0.0

    def since(self, since_s: float, until_s: float = math.inf) -> list[AttemptEvent]:
        """The attempts that began in this span."""
        both = zip(self.began_s, self.attempts, strict=True)
        return [event for began_s, event in both if since_s <= began_s < until_s]

    def first_answer_s(self, name: str, since_s: float) -> float | None:
        """When the replica first answered a call that began after this moment."""
        both = zip(self.began_s, self.attempts, strict=True)
        return min(
            (
                began_s + event.latency_ms / 1000
                for began_s, event in both
                if began_s >= since_s and event.replica == name and event.outcome == "ok"
            ),
            default=None,
        )


@dataclass(frozen=True)
class Scene:
    running: Running
    proxy: FaultProxy
    target: str

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.running.pid(self.target), number)


async def _kill(scene: Scene) -> None:
    scene.signal(signal.SIGKILL)


async def _terminate(scene: Scene) -> None:
    scene.signal(signal.SIGTERM)


async def _freeze(scene: Scene) -> None:
    scene.signal(signal.SIGSTOP)


async def _thaw(scene: Scene) -> None:
    scene.signal(signal.SIGCONT)


async def _slow(scene: Scene) -> None:
    scene.proxy.set(Fault(delay_s=SLOWED_MS / 1000))


async def _unslow(scene: Scene) -> None:
    scene.proxy.set(NONE)


async def _restarted_by_the_supervisor(scene: Scene) -> None:
    return None


Step = Callable[[Scene], Awaitable[None]]

FAULTS: dict[str, tuple[Step, Step]] = {
    "kill -9": (_kill, _restarted_by_the_supervisor),
    "SIGTERM": (_terminate, _restarted_by_the_supervisor),
    "SIGSTOP": (_freeze, _thaw),
    "slowed 200 ms": (_slow, _unslow),
}


async def _measure(fault: str, running: Running) -> dict[str, Any]:
    target, other = running.replicas
    await _ready(running)
    proxy = FaultProxy(target.grpc)
    scene = Scene(running, proxy, target.name)
    record = Record()
    # Only the slowed replica is behind the proxy: it costs every call a little.
    dialled = ReplicaConfig(target.name, grpc=proxy.address) if "slowed" in fault else target
    config = ClientConfig([dialled, other])
    try:
        async with AsyncModerationClient(config, Hooks(on_attempt=record.on_attempt)) as client:
            return await _scene(fault, scene, client, record)
    finally:
        proxy.close()


async def _scene(
    fault: str, scene: Scene, client: AsyncModerationClient, record: Record
) -> dict[str, Any]:
    begin, end = FAULTS[fault]
    is_over = asyncio.Event()
    callers = [
        asyncio.ensure_future(_caller(client, record, is_over, number)) for number in range(CALLERS)
    ]
    await asyncio.sleep(WARM_S)
    fault_s = time.monotonic()
    await begin(scene)
    await asyncio.sleep(FAULT_S)
    end_s = time.monotonic()
    await end(scene)
    restarted_s = await _answers_again(scene, end_s)
    half_s = await _until_half(record, scene.target, restarted_s)
    is_over.set()
    await asyncio.gather(*callers)
    return _row(fault, record, scene.target, fault_s, restarted_s, half_s)


async def _caller(
    client: AsyncModerationClient, record: Record, is_over: asyncio.Event, number: int
) -> None:
    texts = [f"caller {number} says something harmless, line {line}" for line in range(BATCH)]
    while not is_over.is_set():
        outcome = "ok"
        try:
            await client.classify(texts, deadline=Deadline.after(BUDGET_S))
        except InferenceError as error:
            outcome = error.kind
        record.calls.append((time.monotonic(), outcome))


async def _ready(running: Running) -> None:
    async with AsyncModerationClient(ClientConfig(running.replicas)) as client:
        while True:
            await client.check_health()
            if all(each.state == "ready" for each in client.replica_states()):
                return
            await asyncio.sleep(0.05)


async def _answers_again(scene: Scene, since_s: float) -> float:
    """When the replica itself says ready: what comes before is not the client's time."""
    _, port = scene.running.replicas[0].grpc.split(":")
    http = next(
        each["http"]
        for each in scene.running.process.ready()["triton"]
        if each["grpc"].endswith(f":{port}")
    )
    host, _, http_port = http.rpartition(":")
    request = b"GET /v2/health/ready HTTP/1.0\r\n\r\n"
    while time.monotonic() - since_s < BACK_LIMIT_S:
        try:
            reader, writer = await asyncio.open_connection(host, int(http_port))
            writer.write(request)
            line = await asyncio.wait_for(reader.readline(), 1.0)
            writer.close()
        except (OSError, TimeoutError):
            line = b""
        if b" 200 " in line:
            return time.monotonic()
        await asyncio.sleep(0.01)
    raise RuntimeError("the replica did not come back")


async def _until_half(record: Record, target: str, since_s: float) -> float | None:
    while (now_s := time.monotonic()) - since_s < BACK_LIMIT_S:
        if record.share(target, now_s - WINDOW_S, now_s) > 0.25:
            return now_s
        await asyncio.sleep(0.02)
    return None


def _left_s(record: Record, target: str, fault_s: float) -> float | None:
    """The end of the first window after the fault with (nearly) none of the traffic."""
    at_s = fault_s
    while at_s < fault_s + FAULT_S:
        if record.share(target, at_s, at_s + WINDOW_S) < 0.05:
            return at_s
        at_s += 0.01
    return None


def _row(
    fault: str,
    record: Record,
    target: str,
    fault_s: float,
    restarted_s: float,
    half_s: float | None,
) -> dict[str, Any]:
    errors = [outcome for at_s, outcome in record.calls if at_s >= fault_s and outcome != "ok"]
    calls = sum(at_s >= fault_s for at_s, _ in record.calls)
    repeated = sum(event.attempt > 1 for event in record.since(fault_s))
    left_s = _left_s(record, target, fault_s)
    return {
        "fault": fault,
        "caller_errors": len(errors),
        "error_kinds": sorted(set(errors)),
        "calls": calls,
        "left_after_ms": _ms_between(fault_s, left_s),
        "back_after_ms": _ms_between(restarted_s, record.first_answer_s(target, restarted_s)),
        "half_after_ms": _ms_between(restarted_s, half_s),
        "extra_load": round(repeated / calls, 4) if calls else None,
    }


def _ms_between(since_s: float, until_s: float | None) -> int | None:
    return None if until_s is None else round((until_s - since_s) * 1000)
