"""Every WebSocket route of the site, for Channels' URLRouter."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.dashboard.consumers import OperateConsumer

websocket_urlpatterns: list[URLPattern] = [
    path("ws/operate/", OperateConsumer.as_asgi()),
]
