"""Submitting by REST, with everything in place, against views that do nothing, in the same run.

One web process, keep-alive connections, each sending its next request when it has the answer to
the last. Only PostgreSQL and Redis run beside it (no worker), so what is measured is taking
messages in: check the key, decode, validate, store durably, answer. Server and sender share the
machine's cores.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import psutil
import uvloop

from benchmarks.stack import PROJECT
from benchmarks.texts import chat_texts
from moderation_site.local.ports import free_ports
from moderation_site.local.servers_process import ServersProcess

CONNECTIONS = (1, 16, 64, 256)
BATCHES = (100, 1_000)
BATCH_CONNECTIONS = 4
GROUPS, SENDERS = 97, 5_003
START_WITHIN_S = 60.0
BARE = {
    "bare_asgi": ("benchmarks.rest_bare:bare",),
    "starlette": ("--factory", "benchmarks.rest_bare:starlette"),
    "django_async_view": ("--factory", "benchmarks.rest_bare:django"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=5.0, help="for each row (%(default)s)")


def run(options: dict[str, Any]) -> dict[str, Any]:
    seconds = options["seconds"]
    with _ours(options["stack"]) as ours:
        bodies = Bodies()
        _measure(ours, bodies.single, "/api/v1/messages", 16, 1.0)
        rows = _bare_rows(bodies, seconds)
        for connections in CONNECTIONS:
            measured = _measure(ours, bodies.single, "/api/v1/messages", connections, seconds)
            rows.append(measured.row("ours", connections, 1))
        for batch in BATCHES:
            measured = _measure(
                ours, bodies.batch(batch), "/api/v1/messages:batch", BATCH_CONNECTIONS, seconds
            )
            rows.append(measured.row("ours", BATCH_CONNECTIONS, batch))
    return {"seconds": seconds, "share_of_bare_asgi": _share(rows), "rows": rows}


def _bare_rows(bodies: Bodies, seconds: float) -> list[dict[str, Any]]:
    rows = []
    for way, arguments in BARE.items():
        with _uvicorn(arguments, {}, path="/") as target:
            for connections in CONNECTIONS:
                measured = _measure(target, bodies.single, "/api/v1/messages", connections, seconds)
                rows.append(measured.row(way, connections, 1))
    return rows


def _share(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Ours in requests a second, over a bare ASGI application's, by connections."""
    rates = {(r["way"], r["connections"]): r["requests_per_s"] for r in rows if r["batch"] == 1}
    return {str(c): round(rates["ours", c] / rates["bare_asgi", c], 3) for c in CONNECTIONS}


# ---------------------------------------------------------------- what is sent


class Bodies:
    """Requests that are each new: numbered, over some groups and many senders."""

    def __init__(self) -> None:
        self._texts = [json.dumps(text) for text in chat_texts(5_000)]
        self._run = f"{os.getpid()}-{time.time_ns()}"
        self._number = 0

    def single(self) -> bytes:
        self._number += 1
        number = self._number
        return (
            f'{{"group":"bench-{number % GROUPS}","external_id":"{self._run}-{number}",'
            f'"sender":{{"id":"sender-{number % SENDERS}"}},'
            f'"text":{self._texts[number % len(self._texts)]}}}'
        ).encode()

    def batch(self, size: int) -> Callable[[], bytes]:
        def body() -> bytes:
            return b'{"messages":[' + b",".join(self.single() for _ in range(size)) + b"]}"

        return body


# ---------------------------------------------------------------- sending


@dataclass(slots=True)
class Target:
    host: str
    port: int
    pid: int
    api_key: str = "none"


@dataclass(slots=True)
class Measured:
    """The answers that came within the time, in seconds each."""

    latencies_s: list[float] = field(default_factory=list)
    elapsed_s: float = 0.0
    server_cpu_s: float = 0.0

    def row(self, way: str, connections: int, batch: int) -> dict[str, Any]:
        ordered = sorted(self.latencies_s)
        rate = len(ordered) / self.elapsed_s
        return {
            "way": way,
            "connections": connections,
            "batch": batch,
            "requests_per_s": round(rate),
            "messages_per_s": round(rate * batch),
            "p50_ms": round(ordered[len(ordered) // 2] * 1e3, 2),
            "p99_ms": round(ordered[len(ordered) * 99 // 100] * 1e3, 2),
            "server_cpu_us_per_request": round(self.server_cpu_s / len(ordered) * 1e6),
        }


class Connection(asyncio.Protocol):
    """Sends a request, waits for the answer, sends the next, until the time is over."""

    def __init__(self, head: str, body: Callable[[], bytes], until_s: float, into: Measured):
        self._head, self._body, self._until_s, self._into = head, body, until_s, into
        self._buffer = b""
        self._sent_s = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface, but not the base class.
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        body = self._body()
        self._sent_s = time.perf_counter()
        self._transport.write(f"{self._head}content-length: {len(body)}\r\n\r\n".encode() + body)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if not end or len(body) < _content_length(head):
            return
        if head[9:12] not in (b"200", b"201"):
            self.done.set_exception(SystemExit(f"The server answered {self._buffer[:300]!r}"))
            self._transport.close()
            return
        self._buffer = b""
        now_s = time.perf_counter()
        self._into.latencies_s.append(now_s - self._sent_s)
        if now_s < self._until_s:
            self._send()
        else:
            self.done.set_result(None)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionResetError())


def _content_length(head: bytes) -> int:
    _, _, rest = head.lower().partition(b"content-length:")
    return int(rest.partition(b"\r\n")[0])


def _measure(
    target: Target, body: Callable[[], bytes], path: str, connections: int, seconds: float
) -> Measured:
    return uvloop.run(_send_all(target, body, path, connections, seconds))


async def _send_all(
    target: Target, body: Callable[[], bytes], path: str, connections: int, seconds: float
) -> Measured:
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {target.host}:{target.port}\r\n"
        f"authorization: Bearer {target.api_key}\r\ncontent-type: application/json\r\n"
    )
    measured = Measured()
    cpu_before_s = _cpu_s(target.pid)
    started_s = time.perf_counter()
    loop = asyncio.get_running_loop()
    opened = [
        await loop.create_connection(
            lambda: Connection(head, body, started_s + seconds, measured), target.host, target.port
        )
        for _ in range(connections)
    ]
    await asyncio.gather(*[connection.done for _, connection in opened])
    measured.elapsed_s = time.perf_counter() - started_s
    measured.server_cpu_s = _cpu_s(target.pid) - cpu_before_s
    return measured


def _cpu_s(pid: int) -> float:
    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    return sum(sum(member.cpu_times()[:2]) for member in family)


# ---------------------------------------------------------------- servers


@contextlib.contextmanager
def _uvicorn(
    arguments: tuple[str, ...], environment: dict[str, str], path: str
) -> Iterator[Target]:
    """A web process with the product's own options."""
    [port] = free_ports(1)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "uvicorn", *arguments, "--port", str(port)),
            *("--no-access-log", "--no-server-header", "--log-level", "warning"),
        ],
        cwd=PROJECT,
        env={**os.environ, **environment},
    )
    try:
        _wait_until_up(process, f"http://127.0.0.1:{port}{path}")
        yield Target("127.0.0.1", port, process.pid)
    finally:
        process.terminate()
        process.wait()


def _wait_until_up(process: subprocess.Popen[bytes], url: str) -> None:
    until_s = time.monotonic() + START_WITHIN_S
    while process.poll() is None and time.monotonic() < until_s:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("A server to be measured did not start.")


@contextlib.contextmanager
def _ours(ready_file: Path | None) -> Iterator[Target]:
    """The API of a running stack, or a web process of ours over stores of ours."""
    if ready_file is not None:
        ready = json.loads(ready_file.read_text(encoding="utf-8"))
        url = urlsplit(ready["url"])
        yield Target(url.hostname or "", url.port or 80, ready["pids"]["web"], ready["api_key"])
        return
    with tempfile.TemporaryDirectory(prefix="bench-rest-") as folder:
        stores = ServersProcess(Path(folder), only=frozenset({"postgres", "redis"}))
        ready = stores.start()
        try:
            environment = {
                "DATABASE_URL": ready["database_url"],
                "REDIS_URL": ready["redis_url"],
                "DATA_DIR": folder,
                "SECRET_KEY": "for-a-benchmark-only",
                "DJANGO_SETTINGS_MODULE": "moderation_site.settings",
            }
            api_key = _prepare(environment)
            arguments = ("moderation_site.asgi:application",)
            with _uvicorn(arguments, environment, path="/readyz") as target:
                target.api_key = api_key
                yield target
        finally:
            stores.stop()


_MAKE_KEY = """
import django
django.setup()
from apps.accounts.services import create_api_key
print(create_api_key(name="bench")[1])
"""


def _prepare(environment: dict[str, str]) -> str:
    """Migrates, and returns a new API key."""
    merged = {**os.environ, **environment}
    for arguments in (["migrate", "-v", "0"], ["collectstatic", "--noinput", "-v", "0"]):
        subprocess.run(
            [sys.executable, "manage.py", *arguments], cwd=PROJECT, env=merged, check=True
        )
    made = subprocess.run(
        [sys.executable, "-c", _MAKE_KEY],
        cwd=PROJECT,
        env=merged,
        check=True,
        capture_output=True,
        text=True,
    )
    return made.stdout.strip()
