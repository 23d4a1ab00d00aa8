"""GET /metrics, straight on ASGI: Prometheus calls by address, so neither the list of host names
nor the redirect to HTTPS may stand in its way.

With METRICS_TOKEN set it asks for that bearer token. Without, it answers callers on this machine
only, and none that a proxy passed on: what speaks for a proxy is what it adds to the headers.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.conf import settings
from django.db import DatabaseError, close_old_connections
from prometheus_client import CONTENT_TYPE_LATEST

from apps.dashboard.metrics import read_scrape, render
from apps.dashboard.selectors import database_now

log = logging.getLogger(__name__)

METRICS_PATH = "/metrics"
_PROXY_HEADERS = {b"x-forwarded-for", b"forwarded", b"x-real-ip", b"via"}
_TEXT = "text/plain; charset=utf-8"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def metrics(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application."""
    status, body, kind, more = await _answer(scope)
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


async def _answer(scope: Scope) -> tuple[int, bytes, str, list[tuple[bytes, bytes]]]:
    if scope["method"] not in {"GET", "HEAD"}:
        return 405, b"Only GET.\n", _TEXT, [(b"allow", b"GET, HEAD")]
    if settings.METRICS_TOKEN:
        if not _has_token(scope):
            asks = [(b"www-authenticate", b"Bearer")]
            return 401, b"Send METRICS_TOKEN as a bearer token.\n", _TEXT, asks
    elif not _is_from_here(scope):
        return 403, b"Set METRICS_TOKEN to read this from another machine.\n", _TEXT, []
    try:
        return 200, await asyncio.to_thread(_read), CONTENT_TYPE_LATEST, []
    except DatabaseError as error:
        log.warning("No metrics: %s", type(error).__name__)
        return 503, b"The database does not answer.\n", _TEXT, []


def _has_token(scope: Scope) -> bool:
    sent = dict(scope["headers"]).get(b"authorization", b"")
    scheme, _, token = sent.partition(b" ")
    expected = settings.METRICS_TOKEN.encode()
    return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), expected)


def _is_from_here(scope: Scope) -> bool:
    if scope.get("client") is None or _PROXY_HEADERS & {name for name, _ in scope["headers"]}:
        return False
    try:
        return ipaddress.ip_address(scope["client"][0]).is_loopback
    except ValueError:
        return False


def _read() -> bytes:
    close_old_connections()
    try:
        return render(read_scrape(now=database_now()))
    finally:
        # This thread may not come again for minutes; the pool takes its connection back.
        close_old_connections()
