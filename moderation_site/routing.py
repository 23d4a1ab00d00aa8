"""Every WebSocket of the console. `asgi.py` puts sign-in and origin checks before them."""

from __future__ import annotations

from channels.generic.websocket import AsyncWebsocketConsumer
from django.urls import URLPattern, path, re_path

from apps.console.consumers import PoliciesConsumer
from apps.dashboard.consumers import OperateConsumer
from apps.review.consumers import ReviewConsumer


class Nowhere(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """Refuses the handshake. Without a route, Channels raises, which is an error of ours."""

    channel_layer_alias = None

    async def connect(self) -> None:
        await self.close()


websocket_urlpatterns: list[URLPattern] = [
    path("ws/operate/", OperateConsumer.as_asgi()),
    path("ws/policies/", PoliciesConsumer.as_asgi()),
    path("ws/review/", ReviewConsumer.as_asgi()),
    re_path("", Nowhere.as_asgi()),
]
