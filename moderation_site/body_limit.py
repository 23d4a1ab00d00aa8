"""A limit on what pages are sent. Django writes a body to the disk, however long it is, before
anything asks who sends it; only then it looks at its own limits.
"""

from __future__ import annotations

from django.conf import settings

from apps.api.http import AsgiApp, Message, Receive, Scope, Send, declared_bytes

_REFUSAL = b"Nothing was done: the form is too large.\n"


def limit_body(app: AsgiApp) -> AsgiApp:
    """`app`, but for requests longer than `DATA_UPLOAD_MAX_MEMORY_SIZE`, which get a 413."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        left_bytes = settings.DATA_UPLOAD_MAX_MEMORY_SIZE

        async def receive_within_limit() -> Message:
            nonlocal left_bytes
            message = await receive()
            left_bytes -= len(message.get("body", b""))
            # To Django it looks like a client that hung up: it answers nothing.
            return message if left_bytes >= 0 else {"type": "http.disconnect"}

        if declared_bytes(dict(scope["headers"])) > left_bytes:
            await _refuse(send)
            return
        await app(scope, receive_within_limit, send)
        if left_bytes < 0:
            await _refuse(send)

    return limited


async def _refuse(send: Send) -> None:
    # The connection stays open: see `apps.api.http.too_large`.
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(_REFUSAL)).encode()),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": _REFUSAL})
