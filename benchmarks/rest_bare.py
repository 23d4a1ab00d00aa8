"""Views that do nothing, to measure REST against: each reads the body and answers one text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import re_path

ANSWER = (
    b'{"id":"1024","external_id":"m-1","group":"guild","revision":1,"status":"pending",'
    b'"verdict":null}'
)
Event = MutableMapping[str, Any]


async def bare(
    scope: Event, receive: Callable[[], Awaitable[Event]], send: Callable[[Event], Awaitable[None]]
) -> None:
    """Nothing but ASGI."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(ANSWER)).encode()),
    ]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


def starlette() -> Any:
    """Starlette's router, request and response."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def view(request: Request) -> Response:
        await request.body()
        return Response(ANSWER, 201, media_type="application/json")

    return Starlette(routes=[Route("/{path:path}", view, methods=["POST"])])


async def _django_view(request: HttpRequest) -> HttpResponse:
    _ = request.body
    # Without middleware nothing else adds the length.
    headers = {"Content-Length": str(len(ANSWER))}
    return HttpResponse(ANSWER, status=201, content_type="application/json", headers=headers)


urlpatterns = [re_path("", _django_view)]


def django() -> Any:
    """Django's ASGI handler: an async view without any middleware."""
    from django.core.asgi import get_asgi_application

    settings.configure(ROOT_URLCONF=__name__, MIDDLEWARE=[], ALLOWED_HOSTS=["*"], SECRET_KEY="x")
    return get_asgi_application()
