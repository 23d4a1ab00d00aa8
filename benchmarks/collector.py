"""What gathering single calls into batches brings, against not doing it and doing it plainly.

Each caller sends one text, waits for its verdict, sends the next. Four ways, in turns of short
blocks so that whatever else the machine does hits all alike:

- `ours`: `inference.collector` with its defaults, only `max_batch` set;
- `one_call`: our client, one call a message;
- `plain`: a collector as they are usually written: it always waits 5 ms or for a full batch, and
  has one batch in flight;
- `bare`: no single calls at all. A bare stub sends fixed batches; batch size and number in flight
  are those, of all that keep to `max_batch` and have no more texts under way than there are
  callers, which went fastest in a trial in this same run. It owes nobody an answer. Ours is given
  a while to find out as much for itself, and keeps what it has learnt as it would in a service.

`unbound` tells what the bare stub reaches when it need not keep to the number of callers.
`client_cpu_us` and `server_cpu_us` are processor time a message. On a machine that does other
things beside, they are steadier than the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import itertools
import random
import statistics
import time
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import grpc
import grpc.aio
import numpy as np
import numpy.typing as npt
import psutil
import uvloop

from benchmarks.client import _bare
from benchmarks.replicas import add_repository_argument, triton_replicas
from inference import (
    AsyncModerationClient,
    ClientConfig,
    CollectorConfig,
    Deadline,
    DeadlineConfig,
    InferenceError,
    ReplicaConfig,
)
from inference.collector import Collector
from inference.stats import Stage, StageStats

CALLERS = (1, 10, 100, 1000)
MAX_BATCHES = (64, 256)
PLAIN_WAIT_S = 0.005
LEARNING_S = 1.5  # of ours, which finds out for itself what the trials find out for the bare stub
NEVER_MS = 1e6  # no call ended within its block
BARE_BATCHES = (1, 5, 10, 16, 25, 32, 50, 64, 100, 128, 256)
BARE_IN_FLIGHT = (1, 2, 3, 4, 6, 8, 12, 16)

Call = Callable[[str], Awaitable[object]]
FloatArray = npt.NDArray[np.float64]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=4.0, help="measured per row, in blocks")
    parser.add_argument("--blocks", type=int, default=10, help="turns each way takes")
    parser.add_argument("--callers", type=int, nargs="+", default=list(CALLERS))
    parser.add_argument("--max-batch", type=int, nargs="+", default=list(MAX_BATCHES))
    add_repository_argument(parser)


def run(options: dict[str, Any]) -> dict[str, Any]:
    with triton_replicas(1, options) as running:
        replica = running.replicas[0]
        return uvloop.run(_measure_all(replica, running.pid(replica.name), options))


@functools.cache
def chat_texts(count: int = 4096) -> list[str]:
    """Texts of 3 to 400 characters, most of them short, as in a chat; the same in every run."""
    chance = random.Random(20)
    words = ["so", "the", "meeting", "moved", "to", "nine", "and", "all", "came", "late", "again"]
    lengths = (min(400, max(3, int(chance.lognormvariate(3.4, 0.8)))) for _ in range(count))
    return [
        " ".join(chance.choices(words, k=1 + length // 4))[:length].ljust(length, "!")
        for length in lengths
    ]


class PlainCollector:
    """Waits 5 ms or for a full batch, sends it, waits for its end, starts again."""

    def __init__(self, send: Callable[[list[str]], Awaitable[Any]], max_batch: int) -> None:
        self._send = send
        self._max_batch = max_batch
        self._waiting: deque[tuple[str, asyncio.Future[object]]] = deque()
        self._arrived = asyncio.Event()
        self._is_full = asyncio.Event()
        self._task = asyncio.create_task(self._run())
        self.batches = 0

    async def submit(self, text: str) -> object:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((text, future))
        self._arrived.set()
        if len(self._waiting) >= self._max_batch:
            self._is_full.set()
        return await future

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            try:
                async with asyncio.timeout(PLAIN_WAIT_S):
                    await self._is_full.wait()
            except TimeoutError:
                pass  # the batch leaves with those who came
            size = min(self._max_batch, len(self._waiting))
            batch = [self._waiting.popleft() for _ in range(size)]
            try:
                results = await self._send([text for text, _ in batch])
            except InferenceError as error:
                for _, future in batch:
                    future.set_exception(error)
            else:
                self.batches += 1
                for (_, future), result in zip(batch, results, strict=True):
                    future.set_result(result)
            if not self._waiting:
                self._arrived.clear()
            if len(self._waiting) < self._max_batch:
                self._is_full.clear()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class Tally:
    """What one way did in its blocks."""

    def __init__(self) -> None:
        self.latencies_ms: list[float] = []
        self.turns: list[tuple[float, float]] = []  # of each block: messages a second, p50 in ms
        self.measured_s = 0.0
        self.messages = 0
        self.calls = 0
        self.refused = 0
        self.client_cpu_s = 0.0
        self.server_cpu_s = 0.0
        self.cpu_messages = 0  # those of the warm-up cost, too

    def add_calls(
        self, ended_s: FloatArray, took_s: FloatArray, begins_s: float, ends_s: float
    ) -> None:
        """Answered calls, one message each; those outside the measured time cost processor time."""
        counted = (ended_s >= begins_s) & (ended_s < ends_s)
        self.latencies_ms.extend((took_s[counted] * 1000).tolist())
        self.messages += int(counted.sum())
        self.cpu_messages += len(ended_s)
        self.measured_s += ends_s - begins_s

    @contextlib.contextmanager
    def turn(self, seconds: float) -> Iterator[None]:
        answers, messages = len(self.latencies_ms), self.messages
        yield
        p50_ms = statistics.median(self.latencies_ms[answers:] or [NEVER_MS])
        self.turns.append(((self.messages - messages) / seconds, p50_ms))

    def row(self, callers: int, max_batch: int, way: str, **more: Any) -> dict[str, Any]:
        # A thousand single calls may all still be under way when their time is over.
        p50_ms, p99_ms = np.quantile(self.latencies_ms or [NEVER_MS], [0.5, 0.99])
        return {
            "callers": callers,
            "max_batch": max_batch,
            "way": way,
            "messages_per_s": round(self.messages / self.measured_s, 1),
            "p50_ms": round(float(p50_ms), 3),
            "p99_ms": round(float(p99_ms), 3),
            "messages_per_call": round(self.messages / max(1, self.calls), 2),
            "messages": self.messages,
            "refused": self.refused,
            "client_cpu_us": round(self.client_cpu_s / max(1, self.cpu_messages) * 1e6, 1),
            "server_cpu_us": round(self.server_cpu_s / max(1, self.cpu_messages) * 1e6, 1),
            **more,
        }


# ---------------------------------------------------------------- one block of each way


async def _with_callers(call: Call, callers: int, seconds: float, tally: Tally) -> None:
    """Callers that send one text after the other; the first fifth warms up and is not counted."""
    texts = itertools.cycle(chat_texts())
    begins_s = time.perf_counter() + seconds / 5
    ends_s = begins_s + seconds

    ended_s, took_s = array("d"), array("d")  # which keep no object a message

    async def caller() -> None:
        # One look at the clock a call, and all reckoning afterwards: the bare stub's turns have
        # none of this to pay for each message.
        now_s = time.perf_counter()
        while now_s < ends_s:
            started_s = now_s
            try:
                await call(next(texts))
            except InferenceError:
                tally.refused += 1  # Triton's own queue is full: a figure, and no answer
                now_s = time.perf_counter()
                continue
            now_s = time.perf_counter()
            ended_s.append(now_s)
            took_s.append(now_s - started_s)

    await asyncio.gather(*(caller() for _ in range(callers)))
    tally.add_calls(np.frombuffer(ended_s), np.frombuffer(took_s), begins_s, ends_s)


async def _with_batches(
    send: Callable[[list[str]], Awaitable[object]],
    batch: int,
    in_flight: int,
    seconds: float,
    tally: Tally,
) -> None:
    texts = itertools.cycle(chat_texts())
    begins_s = time.perf_counter() + seconds / 5
    ends_s = begins_s + seconds

    async def sender() -> None:
        while (started_s := time.perf_counter()) < ends_s:
            try:
                await send(list(itertools.islice(texts, batch)))
            except grpc.aio.AioRpcError:
                tally.refused += batch
                continue
            ended_s = time.perf_counter()
            tally.cpu_messages += batch
            if begins_s <= ended_s < ends_s:
                tally.latencies_ms.append((ended_s - started_s) * 1000)
                tally.messages += batch
                tally.calls += 1

    await asyncio.gather(*(sender() for _ in range(in_flight)))
    tally.measured_s += seconds


class Bench:
    """The four ways against one replica."""

    def __init__(
        self,
        client: AsyncModerationClient,
        bare: Callable[[list[str]], Awaitable[object]],
        server_pid: int,
    ) -> None:
        self.client = client
        self.bare = bare
        self._server = psutil.Process(server_pid)
        self._trials: dict[tuple[int, int], float] = {}
        self._collectors: dict[tuple[int, int], tuple[Collector[str, object], StageStats]] = {}

    @contextlib.contextmanager
    def counting_cpu(self, tally: Tally) -> Iterator[None]:
        client_s, server_s = time.process_time(), self._server_cpu_s()
        yield
        tally.client_cpu_s += time.process_time() - client_s
        tally.server_cpu_s += self._server_cpu_s() - server_s

    def _server_cpu_s(self) -> float:
        """Of the server and its python models."""
        processes = [self._server, *self._server.children(recursive=True)]
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    async def judge(self, texts: list[str], deadline: Deadline | None = None) -> Any:
        return await self.client.classify(texts, deadline=deadline)

    async def ours(self, callers: int, max_batch: int, seconds: float, tally: Tally) -> None:
        """One collector over all blocks of a row."""
        collector, stats = self._collector(callers, max_batch)
        await _with_callers(collector.submit, callers, seconds, tally)
        told = stats.snapshot()
        # Of whole blocks, warm-up included: scaled to the messages that were counted.
        mean = told.counter("collector_calls") / told.counter("collector_batches")
        tally.calls += round(tally.messages / mean) - tally.calls
        assert told.sketch(Stage.QUEUE).count == told.counter("collector_calls")

    def _collector(self, callers: int, max_batch: int) -> tuple[Collector[str, object], StageStats]:
        if (callers, max_batch) not in self._collectors:
            stats = StageStats()
            config = CollectorConfig(max_batch=max_batch)
            collector: Collector[str, object] = Collector(self.judge, config, stats=stats)
            self._collectors[callers, max_batch] = collector, stats
        return self._collectors[callers, max_batch]

    async def close(self) -> None:
        for collector, _ in self._collectors.values():
            await collector.aclose()

    async def one_call(self, callers: int, max_batch: int, seconds: float, tally: Tally) -> None:
        async def call(text: str) -> object:
            return await self.judge([text])

        await _with_callers(call, callers, seconds, tally)
        tally.calls = tally.messages

    async def plain(self, callers: int, max_batch: int, seconds: float, tally: Tally) -> None:
        sent = 0

        async def send(texts: list[str]) -> Any:
            nonlocal sent
            sent += len(texts)
            return await self.judge(texts)

        collector = PlainCollector(send, max_batch)
        await _with_callers(collector.submit, callers, seconds, tally)
        await collector.close()
        tally.calls += round(tally.messages * collector.batches / max(1, sent)) - tally.calls

    async def best_fixed(self, most_texts: int, max_batch: int) -> tuple[int, int]:
        """Batch size and number in flight with the highest throughput, each tried once a run."""
        choices = [
            (batch, in_flight)
            for batch in BARE_BATCHES
            for in_flight in BARE_IN_FLIGHT
            if batch <= max_batch
            and batch * in_flight <= most_texts
            # Small batches are never best when large ones are allowed: not tried.
            and batch * 8 >= min(max_batch, most_texts)
        ]
        for batch, in_flight in choices:
            if (batch, in_flight) not in self._trials:
                trial = Tally()
                await _with_batches(self.bare, batch, in_flight, 0.3, trial)
                self._trials[batch, in_flight] = trial.messages / trial.measured_s
        return max(choices, key=lambda choice: self._trials[choice])


async def _measure_all(
    replica: ReplicaConfig, server_pid: int, options: dict[str, Any]
) -> dict[str, Any]:
    # A thousand single calls at once wait longer than any sensible deadline: let them.
    deadlines = DeadlineConfig(default_budget_ms=120_000, attempt_timeout_ms=60_000)
    rows: list[dict[str, Any]] = []
    verdicts: list[dict[str, Any]] = []
    channel = grpc.aio.insecure_channel(replica.grpc)
    async with AsyncModerationClient(ClientConfig([replica], deadlines=deadlines)) as client:
        bench = Bench(client, _bare(channel), server_pid)
        await _with_batches(bench.bare, 16, 2, 0.5, Tally())
        for max_batch in options["max_batch"]:
            for callers in options["callers"]:
                measured, verdict = await _measure(bench, callers, max_batch, options)
                rows += measured
                verdicts.append(verdict)
        await bench.close()
        unbound = await _measure_unbound(bench, options)
    await channel.close()
    return {"rows": rows, "verdict": verdicts, "unbound": unbound}


async def _measure(
    bench: Bench, callers: int, max_batch: int, options: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    batch, in_flight = await bench.best_fixed(callers, max_batch)
    await bench.ours(callers, max_batch, LEARNING_S, Tally())
    seconds = options["seconds"] / options["blocks"]
    # Those that are held against each other follow each other.
    tallies = {way: Tally() for way in ("plain", "ours", "bare", "one_call")}

    async def take_turn(way: str, seconds: float) -> None:
        tally = tallies[way]
        with bench.counting_cpu(tally), tally.turn(seconds):
            if way == "bare":
                await _with_batches(bench.bare, batch, in_flight, seconds, tally)
            else:
                await getattr(bench, way)(callers, max_batch, seconds, tally)

    for turn in range(options["blocks"]):
        for way in tallies:
            if way != "one_call":
                await take_turn(way, seconds)
            elif turn % 2 == 0:  # a thousand single calls take seconds to end: half as often
                await take_turn(way, 2 * seconds)
    more = {"bare": {"batch": batch, "in_flight": in_flight}}
    rows = [
        tally.row(callers, max_batch, way, **more.get(way, {})) for way, tally in tallies.items()
    ]
    return rows, _verdict(callers, max_batch, tallies)


async def _measure_unbound(bench: Bench, options: dict[str, Any]) -> dict[str, Any]:
    max_batch = max(options["max_batch"])
    batch, in_flight = await bench.best_fixed(max_batch * max(BARE_IN_FLIGHT), max_batch)
    tally = Tally()
    await _with_batches(bench.bare, batch, in_flight, options["seconds"], tally)
    return {
        "batch": batch,
        "in_flight": in_flight,
        "messages_per_s": round(tally.messages / tally.measured_s, 1),
    }


def _verdict(callers: int, max_batch: int, tallies: dict[str, Tally]) -> dict[str, Any]:
    """Ours against the others: medians over the turns, in which load that comes and goes hits all.

    Of the whole, a block in which the machine did something else would decide.
    """

    def ratio(way: str) -> float:
        pairs = zip(tallies["ours"].turns, tallies[way].turns, strict=True)
        return statistics.median(ours / max(theirs, 1.0) for (ours, _), (theirs, _) in pairs)

    pairs = zip(tallies["ours"].turns[::2], tallies["one_call"].turns, strict=True)
    p99_ms = {way: float(np.quantile(tallies[way].latencies_ms, 0.99)) for way in ("ours", "plain")}
    return {
        "callers": callers,
        "max_batch": max_batch,
        "p50_over_one_call_ms": round(statistics.median(a - b for (_, a), (_, b) in pairs), 3),
        "of_bare": round(ratio("bare"), 3),
        "of_plain": round(ratio("plain"), 3),
        "p99_below_plain": p99_ms["ours"] < p99_ms["plain"],
    }
