"""Hundreds of viewers of the operator's page in one lean process: `bench fanout` starts it.

Each is a bare WebSocket on an event loop, with the rules of `live-link.js`: frames are numbered, a
jump or a new epoch is a gap, a lost connection is tried again after a random part of a wait that
doubles. A frame that another viewer had before is compared byte by byte instead of parsed again, so
that what is measured is the server and not this process. How late this process is itself is
measured too: by how much a timer fires after its time.

Commands come as JSON lines on standard input, each is answered by one line.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import random
import re
import socket
import struct
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop

from inference.stats import LatencySketch

PATH = "/ws/operate/?lang=en"
CONNECTING_AT_ONCE = 32
# What a stalled browser's machine may hold back before the server notices.
STALLED_RECEIVE_BYTES = 4_096
FRAMES_REMEMBERED = 64
TICK_S = 0.02
TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA
_LINK_JS = Path(__file__).resolve().parent.parent / "apps/core/static/js/live-link.js"


def _from_page(name: str) -> float:
    """The page's own rule for coming back, in seconds: what is measured is what ships."""
    found = re.search(rf"const {name} = ([\d_]+);", _LINK_JS.read_text(encoding="utf-8"))
    assert found is not None, name
    return int(found[1].replace("_", "")) / 1000


@dataclass(slots=True)
class Parsed:
    """One frame, parsed for the first viewer that got it."""

    payload: bytes
    topic: str
    epoch: str
    seq: int
    has_events: bool
    verdicts: int
    since_s: float
    sent_s: float

    @classmethod
    def of(cls, payload: bytes) -> Parsed:
        frame = json.loads(payload)
        events = frame["events"]
        return cls(
            payload,
            frame["topic"],
            frame["epoch"],
            frame["seq"],
            bool(events),
            sum(e["count"] for e in events) if frame["topic"] == "verdicts" else 0,
            min((e["since_s"] for e in events), default=0.0),
            frame["sent_s"],
        )


@dataclass
class Crowd:
    """All viewers, and what they saw since the last report."""

    host: str
    port: int
    cookie: str
    first_wait_s: float = field(default_factory=lambda: _from_page("FIRST_WAIT_MS"))
    longest_wait_s: float = field(default_factory=lambda: _from_page("LONGEST_WAIT_MS"))
    viewers: list[Viewer] = field(default_factory=list)
    remembered: dict[tuple[bytes, int], Parsed] = field(default_factory=dict)
    # From commit to receipt; of it, until the frame was sent, and from then on.
    lag: LatencySketch = field(default_factory=LatencySketch)
    until_sent: LatencySketch = field(default_factory=LatencySketch)
    since_sent: LatencySketch = field(default_factory=LatencySketch)
    late: LatencySketch = field(default_factory=LatencySketch)
    frames: int = 0
    bytes: int = 0
    differing: int = 0
    closes: Counter[str] = field(default_factory=Counter)
    tried_at_s: list[float] = field(default_factory=list)
    opened_at_s: list[float] = field(default_factory=list)
    is_leaving: bool = False

    def parsed(self, payload: bytes) -> Parsed:
        # The number stands at the front; a greeting repeats the last one and is shorter.
        key = payload[: payload.index(b'"sent_s"')], len(payload)
        found = self.remembered.get(key)
        if found is None:
            found = self.remembered[key] = Parsed.of(payload)
            if len(self.remembered) > FRAMES_REMEMBERED:
                del self.remembered[next(iter(self.remembered))]
        elif found.has_events and found.payload != payload:
            self.differing += 1
        return found

    def report(self, *, reset: bool) -> dict[str, Any]:
        told = {
            "connected": sum(v.is_open for v in self.viewers),
            "frames": self.frames,
            "bytes": self.bytes,
            "differing": self.differing,
            "closes": dict(self.closes),
            "verdicts": [v.verdicts for v in self.viewers],
            "gaps": [v.gaps for v in self.viewers],
            "open": [v.is_open for v in self.viewers],
            "lag": _quantiles(self.lag),
            "until_sent": _quantiles(self.until_sent),
            "since_sent": _quantiles(self.since_sent),
            "late": _quantiles(self.late),
            "tried_at_s": self.tried_at_s,
            "opened_at_s": self.opened_at_s,
        }
        if reset:
            self.frames = self.bytes = self.differing = 0
            self.lag, self.until_sent = LatencySketch(), LatencySketch()
            self.since_sent, self.late = LatencySketch(), LatencySketch()
            self.closes, self.tried_at_s, self.opened_at_s = Counter(), [], []
            for viewer in self.viewers:
                viewer.verdicts = viewer.gaps = 0
        return told


def _quantiles(sketch: LatencySketch) -> dict[str, float | None]:
    return {name: sketch.quantile(q) for name, q in (("p50", 0.5), ("p99", 0.99))}


class Viewer(asyncio.Protocol):
    """One browser's `<live-link>`."""

    def __init__(self, crowd: Crowd, *, may_stall: bool = False) -> None:
        self.crowd = crowd
        self.may_stall = may_stall
        self.verdicts = self.gaps = 0
        self.is_open = False
        self._tries = 0
        self._seen: dict[str, tuple[str, int]] = {}
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._code = ""
        self._retry: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Try once; what comes of it is told to `connection_made` and `connection_lost`."""
        crowd = self.crowd
        crowd.tried_at_s.append(time.monotonic())
        loop = asyncio.get_running_loop()
        sock = socket.socket()
        sock.setblocking(False)
        if self.may_stall:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, STALLED_RECEIVE_BYTES)
        try:
            await loop.sock_connect(sock, (crowd.host, crowd.port))
            await loop.create_connection(lambda: self, sock=sock)
        except OSError:
            sock.close()
            self._again()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._buffer, self._code = b"", ""
        crowd = self.crowd
        key = base64.b64encode(os.urandom(16)).decode()
        self._transport.write(
            f"GET {PATH} HTTP/1.1\r\nHost: {crowd.host}:{crowd.port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            f"Origin: http://{crowd.host}:{crowd.port}\r\nCookie: {crowd.cookie}\r\n\r\n".encode()
        )

    def connection_lost(self, error: Exception | None) -> None:
        self.crowd.closes[self._code or "lost"] += 1
        self.is_open = False
        self._transport = None
        self._again()

    def _again(self) -> None:
        if self.crowd.is_leaving:
            return
        most_s = min(self.crowd.longest_wait_s, self.crowd.first_wait_s * 2**self._tries)
        self._tries += 1
        self._retry = asyncio.ensure_future(self._later(random.random() * most_s))

    async def _later(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        await self.connect()

    def leave(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        if self._transport is not None:
            self._transport.abort()

    def stall(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def go_on(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        if not self.is_open and not self._opened():
            return
        at, buffer = 0, self._buffer
        while (end := _frame_end(buffer, at)) is not None:
            start, stop = end
            self._receive(buffer[at] & 0x0F, buffer[start:stop])
            at = stop
        self._buffer = buffer[at:]

    def _opened(self) -> bool:
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return False
        if b" 101 " not in head.split(b"\r\n", 1)[0]:
            self._code = head[9:12].decode()
            assert self._transport is not None
            self._transport.abort()
            return False
        self.is_open, self._buffer, self._tries = True, rest, 0
        self.crowd.opened_at_s.append(time.monotonic())
        return True

    def _receive(self, opcode: int, payload: bytes) -> None:
        if opcode == TEXT:
            self._frame(payload)
        elif opcode == PING:
            self._send(PONG, payload)
        elif opcode == CLOSE:
            self._code = str(struct.unpack_from("!H", payload)[0]) if payload else "none"
            self._send(CLOSE, payload[:2])

    def _send(self, opcode: int, payload: bytes) -> None:
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
        if self._transport is not None:
            self._transport.write(bytes((0x80 | opcode, 0x80 | len(payload))) + mask + masked)

    def _frame(self, payload: bytes) -> None:
        crowd = self.crowd
        frame = crowd.parsed(payload)
        crowd.frames += 1
        crowd.bytes += len(payload)
        seen = self._seen.get(frame.topic)
        self._seen[frame.topic] = frame.epoch, frame.seq
        if seen and (frame.epoch, frame.seq) != (seen[0], seen[1] + frame.has_events):
            self.gaps += 1
        if frame.has_events:
            self.verdicts += frame.verdicts
            if frame.topic == "verdicts" and not self.may_stall:
                now_s = time.time()
                crowd.lag.add(max(0.0, (now_s - frame.since_s) * 1000))
                crowd.until_sent.add(max(0.0, (frame.sent_s - frame.since_s) * 1000))
                crowd.since_sent.add(max(0.0, (now_s - frame.sent_s) * 1000))


def _frame_end(buffer: bytes, at: int) -> tuple[int, int] | None:
    """Where the payload of the frame at `at` begins and ends; None while it is not all there."""
    have = len(buffer) - at
    if have < 2:
        return None
    size, start = buffer[at + 1] & 0x7F, at + 2
    if size == 126:
        if have < 4:
            return None
        size, start = struct.unpack_from("!H", buffer, start)[0], start + 2
    elif size == 127:
        if have < 10:
            return None
        size, start = struct.unpack_from("!Q", buffer, start)[0], start + 8
    return (start, start + size) if len(buffer) >= start + size else None


async def _connect(crowd: Crowd, count: int, stalling: int) -> None:
    """So many viewers; the last `stalling` of them can be stalled."""
    crowd.is_leaving = False
    crowd.viewers = [Viewer(crowd, may_stall=number >= count - stalling) for number in range(count)]
    slots = asyncio.Semaphore(CONNECTING_AT_ONCE)

    async def open_(viewer: Viewer) -> None:
        async with slots:
            await viewer.connect()
            while not viewer.is_open:  # noqa: ASYNC110 (of one of hundreds, for a few milliseconds)
                await asyncio.sleep(0.005)

    await asyncio.gather(*map(open_, crowd.viewers))


async def _watch_the_clock(crowd: Crowd) -> None:
    while True:
        due_s = time.monotonic() + TICK_S
        await asyncio.sleep(TICK_S)
        crowd.late.add(max(0.0, (time.monotonic() - due_s) * 1000))


async def _obey(crowd: Crowd, command: dict[str, Any]) -> dict[str, Any]:
    stalling = [viewer for viewer in crowd.viewers if viewer.may_stall]
    match command["do"]:
        case "connect":
            await _connect(crowd, command["count"], command["stalling"])
        case "stall":
            for viewer in stalling:
                viewer.stall()
        case "go on":
            for viewer in stalling:
                viewer.go_on()
        case "leave":
            crowd.is_leaving = True
            for viewer in crowd.viewers:
                viewer.leave()
        case "report":
            return crowd.report(reset=command["reset"])
    return {"done": command["do"]}


async def main(url: str, cookie: str) -> None:
    address = urlsplit(url)
    crowd = Crowd(address.hostname or "", address.port or 80, cookie)
    # Kept in a name, or it may be collected.
    ticking = asyncio.create_task(_watch_the_clock(crowd))
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        print(json.dumps(await _obey(crowd, json.loads(line))), flush=True)
    ticking.cancel()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        # Not on the command line, where every user of the machine could read it.
        uvloop.run(main(sys.argv[1], os.environ["FANOUT_COOKIE"]))
