"""Every WebSocket route of the site, for Channels' URLRouter."""

from __future__ import annotations

from django.urls import URLPattern

websocket_urlpatterns: list[URLPattern] = []
