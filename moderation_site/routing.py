"""Every WebSocket of the console. `asgi.py` puts sign-in and origin checks before them."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.console.consumers import PoliciesConsumer
from apps.dashboard.consumers import OperateConsumer
from apps.review.consumers import ReviewConsumer

websocket_urlpatterns: list[URLPattern] = [
    path("ws/operate/", OperateConsumer.as_asgi()),
    path("ws/policies/", PoliciesConsumer.as_asgi()),
    path("ws/review/", ReviewConsumer.as_asgi()),
]
