"""The whole way, REST to durable verdict, against bare Triton on the same texts in the same run.

First Triton alone, called by the bare stub with requests made beforehand: its best over several
batch sizes is the machine's ceiling. Then all messages by REST as fast as they are taken. Then at
half of that rate, for the latency from submitting a message to its verdict being durable.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import psycopg
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as stubs

from benchmarks.stack import CpuMeter, running_stack
from benchmarks.texts import chat_texts, read_texts
from inference.stats import LatencySketch

RAW_BATCHES = (128, 256, 512)
RAW_IN_FLIGHT = 4
RAW_SECONDS = 4.0
SENDERS = 4
GROUPS = 97
CHUNK_ID_BITS = 10
LOOK_EVERY_S = 0.005


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=200_000, help="(%(default)s)")
    parser.add_argument("--batch", type=int, default=500, help="messages a request (%(default)s)")
    parser.add_argument("--half-rate-s", type=float, default=20.0, help="(%(default)s)")
    parser.add_argument("--data", type=Path, help="JSON lines with a `text` each, instead of ours")


def run(options: dict[str, Any]) -> dict[str, Any]:
    count, batch = options["messages"], options["batch"]
    texts = read_texts(options["data"], count) if options["data"] else chat_texts(count)
    with running_stack(options["stack"]) as ready:
        raw = measure_raw(ready["triton"], texts[:20_000])
        warm_up(ready, texts[: 20 * batch], batch)
        meter = CpuMeter(ready["pids"])
        fast = submit_all(ready, texts, batch)
        cpu_s = meter.spent_s()
        rate = fast.messages_per_s / 2
        half = submit_paced(ready, texts, batch, rate=rate, for_s=options["half_rate_s"])
    best = max(row["messages_per_s"] for row in raw)
    return {
        "messages": count,
        "batch": batch,
        "messages_per_s": round(fast.messages_per_s),
        "raw_triton_messages_per_s": best,
        "ratio": round(fast.messages_per_s / best, 3),
        "ingest_messages_per_s": round(fast.ingest_per_s),
        "latency_at_half_rate_ms": half.latency(),
        "half_rate_messages_per_s": round(fast.messages_per_s / 2),
        "lost": fast.lost + half.lost,
        "doubled": fast.doubled + half.doubled,
        "cpu_s": cpu_s,
        "cpu_us_per_message": {n: round(s / count * 1e6, 1) for n, s in cpu_s.items()},
        "raw_triton": raw,
    }


# ---------------------------------------------------------------- Triton alone


def measure_raw(replicas: Sequence[dict[str, str]], texts: Sequence[str]) -> list[dict[str, Any]]:
    """Bare stub, requests made beforehand, texts as they come and sorted by length."""
    rows = []
    for size, is_sorted in itertools.product(RAW_BATCHES, (False, True)):
        ordered = sorted(texts, key=len) if is_sorted else texts
        requests = [_request(ordered[at : at + size]) for at in range(0, len(ordered), size)]
        rate = _raw_rate(replicas, requests[: len(texts) // size], size)
        rows.append({"batch": size, "sorted": is_sorted, "messages_per_s": round(rate)})
    return rows


def _request(texts: Sequence[str]) -> pb.ModelInferRequest:
    encoded = [text.encode() for text in texts]
    request = pb.ModelInferRequest(model_name="moderation")
    request.inputs.add(name="TEXT", datatype="BYTES", shape=[len(texts), 1])
    request.raw_input_contents.append(
        b"".join(len(text).to_bytes(4, "little") + text for text in encoded)
    )
    return request


def _raw_rate(
    replicas: Sequence[dict[str, str]], requests: Sequence[pb.ModelInferRequest], size: int
) -> float:
    with _channels(replicas) as channels:
        calls = [stubs.GRPCInferenceServiceStub(channel).ModelInfer for channel in channels]
        for call in calls:
            call(requests[0])
        numbers = itertools.count()
        until_s = time.monotonic() + RAW_SECONDS

        def work(call: Any) -> int:
            done = 0
            while time.monotonic() < until_s:
                # A stride that is prime to the length mixes short and long requests.
                call(requests[next(numbers) * 7919 % len(requests)])
                done += size
            return done

        started_s = time.monotonic()
        with ThreadPoolExecutor(RAW_IN_FLIGHT * len(calls)) as pool:
            total = sum(pool.map(work, calls * RAW_IN_FLIGHT))
        return total / (time.monotonic() - started_s)


@contextlib.contextmanager
def _channels(replicas: Sequence[dict[str, str]]) -> Iterator[list[grpc.Channel]]:
    channels = [grpc.insecure_channel(replica["grpc"]) for replica in replicas]
    try:
        yield channels
    finally:
        for channel in channels:
            channel.close()


# ---------------------------------------------------------------- the product


@dataclass
class Submitted:
    """One run of requests and what became of their messages."""

    messages: int = 0
    started_s: float = 0.0
    submitted_s: float = 0.0
    durable_s: float = 0.0
    lost: int = 0
    doubled: int = 0
    sketch: LatencySketch = field(default_factory=LatencySketch)

    @property
    def messages_per_s(self) -> float:
        return self.messages / (self.durable_s - self.started_s)

    @property
    def ingest_per_s(self) -> float:
        return self.messages / (self.submitted_s - self.started_s)

    def latency(self) -> dict[str, Any]:
        return {
            name: round(value, 1) if value is not None else None
            for name, value in self.sketch.summary().items()
        }


def bodies(texts: Sequence[str], batch: int, run: str) -> list[bytes]:
    """The requests, encoded beforehand: the sender shares the cores that are measured."""
    return [
        json.dumps(
            {
                "messages": [
                    {
                        "group": f"{run}-{(at + k) % GROUPS}",
                        "external_id": f"{run}-{at + k}",
                        "sender": {"id": f"sender-{(at + k) % 5003}"},
                        "text": text,
                    }
                    for k, text in enumerate(texts[at : at + batch])
                ]
            },
            ensure_ascii=False,
        ).encode()
        for at in range(0, len(texts), batch)
    ]


class Sender:
    """One keep-alive connection to the API."""

    def __init__(self, ready: dict[str, Any]) -> None:
        url = urlsplit(ready["url"])
        self._connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=120)
        self._headers = {
            "Authorization": f"Bearer {ready['api_key']}",
            "Content-Type": "application/json",
        }

    def post(self, body: bytes) -> bytes:
        try:
            response, answer = self._ask(body)
        except (ConnectionError, http.client.RemoteDisconnected):
            # The server ends connections that were idle; a repeat of the same keys is harmless.
            self._connection.close()
            response, answer = self._ask(body)
        if response.status not in (200, 201, 202, 207):
            raise SystemExit(f"The API answered {response.status}: {answer[:300]!r}")
        return answer

    def _ask(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        self._connection.request("POST", "/api/v1/messages:batch", body, self._headers)
        response = self._connection.getresponse()
        return response, response.read()


def warm_up(ready: dict[str, Any], texts: Sequence[str], batch: int) -> None:
    submit_all(ready, texts, batch)


def submit_all(ready: dict[str, Any], texts: Sequence[str], batch: int) -> Submitted:
    """As fast as the API takes them, over a few connections; waits for the last verdict."""
    run = uuid.uuid4().hex[:8]
    todo = iter(bodies(texts, batch, run))
    result = Submitted(messages=len(texts))
    lock = threading.Lock()

    def work(sender: Sender) -> None:
        while True:
            with lock:
                body = next(todo, None)
            if body is None:
                return
            sender.post(body)

    senders = [Sender(ready) for _ in range(SENDERS)]
    result.started_s = time.monotonic()
    with ThreadPoolExecutor(SENDERS) as pool:
        list(pool.map(work, senders))
    result.submitted_s = time.monotonic()
    with psycopg.connect(ready["database_url"], autocommit=True) as database:
        while _waiting(database):
            time.sleep(LOOK_EVERY_S)
        result.durable_s = time.monotonic()
        result.lost, result.doubled = _lost_and_doubled(database, run, len(texts))
    return result


def submit_paced(
    ready: dict[str, Any], texts: Sequence[str], batch: int, *, rate: float, for_s: float
) -> Submitted:
    """At a fixed rate; a message's latency runs from when its request is due, sent in time or not,
    to its chunk being gone."""
    run = uuid.uuid4().hex[:8]
    count = min(len(texts), int(rate * for_s))
    result = Submitted(messages=count)
    # All of them before the clock starts: encoding on the way made a second's worth late, and
    # then sent it in one burst.
    requests = bodies(texts[:count], batch, run)
    pending: Pending = {}
    is_over = threading.Event()
    watcher = threading.Thread(
        target=_watch, args=(ready["database_url"], pending, result.sketch, is_over)
    )
    watcher.start()
    result.started_s = time.monotonic()
    senders = [Sender(ready) for _ in range(SENDERS)]
    sent = []
    with ThreadPoolExecutor(SENDERS) as pool:
        for number, body in enumerate(requests):
            due_s = result.started_s + number * batch / rate
            time.sleep(max(0.0, due_s - time.monotonic()))
            sent.append(pool.submit(_send_one, senders, body, due_s, pending))
    result.submitted_s = time.monotonic()
    is_over.set()
    watcher.join()
    for one in sent:
        one.result()
    result.durable_s = time.monotonic()
    with psycopg.connect(ready["database_url"], autocommit=True) as database:
        result.lost, result.doubled = _lost_and_doubled(database, run, count)
    return result


# When the requests were due that a chunk holds messages of, and how many of each.
Pending = dict[int, list[tuple[float, int]]]


def _send_one(senders: list[Sender], body: bytes, due_s: float, pending: Pending) -> None:
    sender = senders.pop()
    try:
        answer = json.loads(sender.post(body))
    finally:
        senders.append(sender)
    sizes = Counter(int(one["message"]["id"]) >> CHUNK_ID_BITS for one in answer["results"])
    for chunk, size in sizes.items():
        # Requests that arrive together may share a chunk.
        pending.setdefault(chunk, []).append((due_s, size))


def _watch(
    database_url: str, pending: Pending, sketch: LatencySketch, is_over: threading.Event
) -> None:
    """A chunk row goes in the transaction that stores its verdicts: gone means durable."""
    with psycopg.connect(database_url, autocommit=True) as database:
        while pending or not is_over.is_set():
            known = list(pending)
            waiting = {id_ for (id_,) in database.execute("SELECT id FROM chat_chunk").fetchall()}
            now_s = time.monotonic()
            for chunk in known:
                if chunk not in waiting:
                    for started_s, size in pending.pop(chunk):
                        sketch.add_many([(now_s - started_s) * 1000] * size)
            time.sleep(LOOK_EVERY_S)


def _waiting(database: psycopg.Connection[Any]) -> bool:
    row = database.execute("SELECT EXISTS (SELECT FROM chat_chunk)").fetchone()
    return bool(row and row[0])


def _lost_and_doubled(database: psycopg.Connection[Any], run: str, count: int) -> tuple[int, int]:
    row = database.execute(
        """
        SELECT count(DISTINCT message.external_id) FILTER (WHERE verdict.message_id IS NOT NULL),
          count(verdict.message_id)
        FROM chat_group AS its
        JOIN chat_message AS message ON message.group_id = its.id
        LEFT JOIN scoring_verdict AS verdict ON verdict.message_id = message.id
        WHERE its.external_id LIKE %s
        """,
        [f"{run}-%"],
    ).fetchone()
    assert row is not None
    judged, verdicts = row
    return count - judged, verdicts - judged
