"""uvicorn's WebSockets, with a way to write a frame that was encoded once for all viewers.

ASGI takes a message as text, which the server then encodes, frames and perhaps compresses for each
connection: for five hundred viewers of one feed the same work five hundred times. What a server
sends is not masked, so without compression the bytes are the same for all of them.

Use it as `uvicorn --ws moderation_site.sockets:WireProtocol --ws-per-message-deflate false`. Under
another server, or with compression, nothing changes but the cost: the extension is then not there.
"""

from __future__ import annotations

import asyncio
import socket
from typing import cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from apps.core.realtime import WIRE_EXTENSION

# A browser that has stopped reading is noticed when these are full. Left to itself the kernel
# takes megabytes a connection, which is minutes of frames.
KERNEL_BUFFER_BYTES = 64 * 1024
OWN_BUFFER_BYTES = 32 * 1024


class WireProtocol(WebSocketsSansIOProtocol):
    """Adds `WIRE_EXTENSION` to the scope of each connection, and holds little for a slow one."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=OWN_BUFFER_BYTES)
        connection = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BUFFER_BYTES)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        # The application's task was made just now and has not begun.
        if self.response.status_code == 101 and not self.conn.extensions:
            extensions = cast(dict[str, object], self.scope["extensions"])
            extensions[WIRE_EXTENSION] = self.write_frame

    def write_frame(self, frame: bytes) -> bool:
        """Write a whole frame, unless the connection is not open or its buffer is full."""
        if not self.handshake_complete or self.close_sent or self.disconnected:
            return False
        if self.transport.is_closing() or not self.writable.is_set():
            return False
        self.transport.write(frame)
        return True
