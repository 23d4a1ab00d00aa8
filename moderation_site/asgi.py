"""One port, three ways in: WebSockets (Channels), the API (a lean ASGI app), pages (Django).
Beside them /metrics, which must not depend on host names or HTTPS as pages do.

The API does not pass through Django's ASGI handler, which starts and joins a thread for every
request: measured at a twentieth of what a bare ASGI app does on the same cores.
"""

from __future__ import annotations

import gc
import os
from typing import cast

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "moderation_site.settings")
_django = get_asgi_application()

# After Django is set up: these import models.
from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402

from apps.api.app import ApiApp  # noqa: E402
from apps.api.http import AsgiApp, Message, Receive, Scope, Send  # noqa: E402
from apps.api.problems import DOCS_PATH  # noqa: E402
from apps.dashboard.heartbeat import Heartbeat  # noqa: E402
from apps.dashboard.metrics_endpoint import METRICS_PATH, metrics  # noqa: E402
from moderation_site.body_limit import limit_body  # noqa: E402
from moderation_site.routing import websocket_urlpatterns  # noqa: E402

pages = limit_body(cast(AsgiApp, _django))
api = ApiApp()
heartbeat = Heartbeat()
sockets = AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))

_HEALTH_PATHS = {"/healthz", "/readyz"}


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await _app_for(scope["path"])(scope, receive, send)
    elif scope["type"] == "websocket":
        await sockets(scope, receive, send)
    else:
        await _live(receive, send)


def _app_for(path: str) -> AsgiApp:
    if path == METRICS_PATH:
        return metrics
    return api if _is_for_api(path) else pages


def _is_for_api(path: str) -> bool:
    """The documentation is a page, with the site's frame and language."""
    return (path.startswith("/api/") and path != DOCS_PATH) or path in _HEALTH_PATHS


async def _live(receive: Receive, send: Send) -> None:
    """The server's lifespan: it says that it lives, and at its end stores what it accepted."""
    while True:
        message: Message = await receive()
        if message["type"] == "lifespan.startup":
            _spare_the_collector()
            heartbeat.start()
            await send({"type": "lifespan.startup.complete"})
        else:
            await heartbeat.stop()
            await api.close()
            await send({"type": "lifespan.shutdown.complete"})
            return


def _spare_the_collector() -> None:
    """What is loaded stays: looking through all of it again and again would halt every viewer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
