"""A TCP proxy on loopback that misbehaves on demand, between the client and a real replica.

It runs in a thread of its own, so that it goes on while a test blocks. A fault set with ``set``
holds for connections that are open as well as for new ones. With an ``ssl_context`` it ends TLS,
so that a plain server behind it can be dialled with certificates.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """What the proxy does to the bytes that come from the server.

    Attributes:
        delay_s: Each piece comes this much later; pieces do not wait for each other.
        refuses: Connections are reset as soon as they are accepted.
        cut_after_bytes: Each connection is reset once that much has come, half way through.
        drip_bytes: Pieces of this size, ``drip_every_s`` apart: a slow drip.
        swallows: Nothing is passed on in either direction, and nothing is closed.
    """

    delay_s: float = 0.0
    refuses: bool = False
    cut_after_bytes: int | None = None
    drip_bytes: int | None = None
    drip_every_s: float = 0.001
    swallows: bool = False


NONE = Fault()
BLACKHOLE = Fault(swallows=True)
DROP = Fault(refuses=True)


class FaultProxy:
    """Listens on a port of its own and forwards to ``target`` (``host:port``)."""

    def __init__(self, target: str, ssl_context: ssl.SSLContext | None = None) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._ssl = ssl_context
        self.fault = NONE
        self.accepted_at_s: list[float] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._run(self._listen())
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def _run(self, work):  # type: ignore[no-untyped-def]
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._ssl)

    @property
    def accepted(self) -> int:
        return len(self.accepted_at_s)

    @property
    def open_connections(self) -> int:
        return len(self._writers)

    def set(self, fault: Fault) -> None:
        self.fault = fault

    def reset_all(self) -> None:
        """Reset every open connection, as a dying host's neighbour would see it."""

        async def reset() -> None:
            for writer in list(self._writers):
                _reset(writer)

        self._run(reset())

    def close(self) -> None:
        async def stop() -> None:
            self._server.close()
            self.fault = DROP  # for what is being accepted at this moment
            while rest := asyncio.all_tasks() - {asyncio.current_task()}:
                # Aborted, not cancelled: asyncio logs a cancelled connection as an error.
                for writer in list(self._writers):
                    writer.transport.abort()
                await asyncio.wait(rest, return_when=asyncio.FIRST_COMPLETED)

        self._run(stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted_at_s.append(time.monotonic())
        if self.fault.refuses:
            _reset(writer)
            return
        self._writers.add(writer)
        try:
            await self._forward(reader, writer)
        finally:
            self._writers.discard(writer)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream, out = await asyncio.open_connection(self._host, self._port)
        except OSError:
            _reset(writer)
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._up(reader, out))
                group.create_task(self._down(upstream, writer))
        except* (OSError, EOFError):
            pass  # one side hung up: so do we
        finally:
            out.transport.abort()
            writer.transport.abort()

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not self.fault.swallows:
                writer.write(data)
                await writer.drain()
        raise EOFError

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._deliver(under_way, writer))
            while data := await reader.read(65536):
                if not self.fault.swallows:
                    under_way.put_nowait((loop.time() + self.fault.delay_s, data))
            raise EOFError

    async def _deliver(
        self, under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        loop, passed = asyncio.get_running_loop(), 0
        while True:
            due_s, data = await under_way.get()
            await asyncio.sleep(due_s - loop.time())
            for piece in _pieces(data, self.fault.drip_bytes):
                if self.fault.drip_bytes is not None:
                    await asyncio.sleep(self.fault.drip_every_s)
                limit = self.fault.cut_after_bytes
                if limit is not None and passed + len(piece) > limit:
                    writer.write(piece[: limit - passed])
                    await writer.drain()
                    _reset(writer)
                    raise EOFError
                passed += len(piece)
                writer.write(piece)
                await writer.drain()


def _pieces(data: bytes, size: int | None) -> Iterator[bytes]:
    step = size or len(data)
    return (data[start : start + step] for start in range(0, len(data), step))


def _reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
