"""What a call costs with our client, with the bare stub and with tritonclient.

All three use grpc.aio on one event loop, one call at a time, against one replica, and turn texts
into lists of scores and flags. They take turns in short blocks, so that whatever else the machine
does hits all alike. The synchronous face is measured beside a bare blocking stub in the same way.
"""

from __future__ import annotations

import argparse
import random
import statistics
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

import grpc
import grpc.aio
import numpy as np
import uvloop
from tritonclient.grpc import aio as triton_aio
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as stubs

from benchmarks.replicas import add_repository_argument, triton_replicas
from inference import AsyncModerationClient, ClientConfig, ModerationClient, ReplicaConfig

BATCHES = (1, 16, 64, 256)
BLOCK = 10

Judge = Callable[[list[str]], Awaitable[object]]
Sample = tuple[float, float]
"""Seconds of wall-clock and of CPU time."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--calls", type=int, default=1000, help="calls per batch size and way")
    add_repository_argument(parser)


def run(options: dict[str, Any]) -> dict[str, Any]:
    with triton_replicas(1, options) as running:
        replica = running.replicas[0]
        measured = uvloop.run(_measure(replica, options["calls"]))
        sync = _measure_sync(replica, options["calls"])
    return {
        "rows": [row for series in measured for row in series.rows()],
        "overhead": [
            series.overhead(way) for way in ("ours", "tritonclient") for series in measured
        ],
        "sync_rows": [row for series in sync for row in series.rows()],
        "sync_overhead": [series.overhead("ours") for series in sync],
    }


def texts_of(batch: int) -> list[str]:
    return [f"message {index:03d} of a chat, fifty bytes or so in length" for index in range(batch)]


# ---------------------------------------------------------------- bare stub


def _bare_request(texts: list[str]) -> pb.ModelInferRequest:
    request = pb.ModelInferRequest(model_name="moderation")
    request.inputs.add(name="TEXT", datatype="BYTES", shape=[len(texts), 1])
    encoded = [text.encode() for text in texts]
    request.raw_input_contents.append(
        b"".join([part for text in encoded for part in (struct.pack("<I", len(text)), text)])
    )
    return request


def _bare_rows(response: Any) -> list[tuple[list[float], int]]:
    """Both outputs as plain values, unchecked."""
    raw = {
        output.name: content
        for output, content in zip(response.outputs, response.raw_output_contents, strict=True)
    }
    scores = np.frombuffer(raw["SCORES"], "<f4").reshape(-1, 4).tolist()
    return list(zip(scores, np.frombuffer(raw["UNDONE"], "<i4").tolist(), strict=True))


def _bare(channel: grpc.aio.Channel) -> Judge:
    stub = stubs.GRPCInferenceServiceStub(channel)

    async def judge(texts: list[str]) -> object:
        return _bare_rows(await stub.ModelInfer(_bare_request(texts), timeout=5.0))

    return judge


def _tritonclient(client: triton_aio.InferenceServerClient) -> Judge:
    async def judge(texts: list[str]) -> object:
        tensor = triton_aio.InferInput("TEXT", [len(texts), 1], "BYTES")
        tensor.set_data_from_numpy(np.array([[t.encode()] for t in texts], dtype=object))
        answer = await client.infer("moderation", [tensor], client_timeout=5.0)
        scores, undone = answer.as_numpy("SCORES").tolist(), answer.as_numpy("UNDONE").tolist()
        return list(zip(scores, undone, strict=True))

    return judge


# ---------------------------------------------------------------- measuring


async def _measure(replica: ReplicaConfig, calls: int) -> list[Series]:
    measured = []
    channel = grpc.aio.insecure_channel(replica.grpc)
    async with AsyncModerationClient(ClientConfig([replica])) as client:
        official = triton_aio.InferenceServerClient(replica.grpc)
        ways: dict[str, Judge] = {
            "ours": client.classify,
            "bare": _bare(channel),
            "tritonclient": _tritonclient(official),
        }
        for batch in BATCHES:
            series = Series(batch, ways)
            texts = texts_of(batch)
            for way in ways.values():
                await _block(way, texts)
            for names in _turns(ways, calls):
                for name in names:
                    series.add(name, await _block(ways[name], texts))
            measured.append(series)
        await official.close()
    await channel.close()
    return measured


def _turns(ways: Iterable[str], calls: int) -> Iterator[list[str]]:
    """The ways in a new order each time: who comes after whom must not matter."""
    chance = random.Random(3)
    for _ in range(max(1, calls // BLOCK)):
        yield chance.sample(list(ways), k=len(list(ways)))


async def _block(judge: Judge, texts: list[str]) -> list[Sample]:
    taken = []
    for _ in range(BLOCK):
        started_s, cpu_s = time.perf_counter(), time.process_time()
        await judge(texts)
        taken.append((time.perf_counter() - started_s, time.process_time() - cpu_s))
    return taken


class Series:
    """What all ways took with one batch size, block by block."""

    def __init__(self, batch: int, ways: Iterable[str]) -> None:
        self.batch = batch
        self.blocks: dict[str, list[list[Sample]]] = {way: [] for way in ways}

    def add(self, way: str, block: list[Sample]) -> None:
        self.blocks[way].append(block)

    def rows(self) -> list[dict[str, Any]]:
        """The median, since one call that met another process says nothing about the client.

        Beside it the tenth percentile, which a busy machine disturbs less, and this process's own
        CPU time, which it hardly disturbs.
        """
        table = []
        for way, blocks in self.blocks.items():
            wall_us = [wall_s * 1e6 for block in blocks for wall_s, _ in block]
            cpu_us = [cpu_s * 1e6 for block in blocks for _, cpu_s in block]
            row = {
                "batch": self.batch,
                "way": way,
                "us_per_call": round(statistics.median(wall_us), 1),
                "p10_us": round(statistics.quantiles(wall_us, n=10)[0], 1),
                "cpu_us": round(statistics.median(cpu_us), 1),
                "calls": len(wall_us),
            }
            table.append(row)
        return table

    def overhead(self, way: str) -> dict[str, Any]:
        """Over the bare stub: the median of the differences between neighbouring blocks.

        Load that comes and goes is in both of a pair. In the difference of two medians over the
        whole run it is not.
        """
        added_us = self._between(way, 0)
        bare_us = statistics.median(wall_s for each in self.blocks["bare"] for wall_s, _ in each)
        return {
            "batch": self.batch,
            "way": way,
            "added_us": round(added_us, 1),
            "added_percent": round(100 * added_us / (bare_us * 1e6), 1),
            "added_cpu_us": round(self._between(way, 1), 1),
        }

    def _between(self, way: str, part: int) -> float:
        pairs = zip(self.blocks[way], self.blocks["bare"], strict=True)
        return 1e6 * statistics.median(
            statistics.median(sample[part] for sample in theirs)
            - statistics.median(sample[part] for sample in bare)
            for theirs, bare in pairs
        )


def _measure_sync(replica: ReplicaConfig, calls: int) -> list[Series]:
    measured = []
    with (
        grpc.insecure_channel(replica.grpc) as channel,
        ModerationClient(ClientConfig([replica])) as client,
    ):
        stub = stubs.GRPCInferenceServiceStub(channel)

        def bare(texts: list[str]) -> object:
            return _bare_rows(stub.ModelInfer(_bare_request(texts), timeout=5.0))

        ways: dict[str, Callable[[list[str]], object]] = {"ours": client.classify, "bare": bare}
        for batch in BATCHES:
            series = Series(batch, ways)
            texts = texts_of(batch)
            for way in ways.values():
                _sync_block(way, texts)
            for names in _turns(ways, calls):
                for name in names:
                    series.add(name, _sync_block(ways[name], texts))
            measured.append(series)
    return measured


def _sync_block(judge: Callable[[list[str]], object], texts: list[str]) -> list[Sample]:
    taken = []
    for _ in range(BLOCK):
        started_s, cpu_s = time.perf_counter(), time.process_time()
        judge(texts)
        taken.append((time.perf_counter() - started_s, time.process_time() - cpu_s))
    return taken
