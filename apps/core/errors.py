"""Error pages. They ask neither the session nor the database, which may be what failed."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _page(request, "400", status=400)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    # `permissions.require` names what is missing.
    return _page(request, "403", status=403, missing=str(exception))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's CSRF_FAILURE_VIEW. The reason is for developers and stays out of the page."""
    return _page(request, "csrf", status=403)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _page(request, "404", status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    return _page(request, "500", status=500)


def _page(request: HttpRequest, name: str, *, status: int, missing: str = "") -> HttpResponse:
    # The request goes in as a plain value: no context processor runs.
    content = render_to_string(f"errors/{name}.html", {"request": request, "missing": missing})
    return HttpResponse(content, status=status)
