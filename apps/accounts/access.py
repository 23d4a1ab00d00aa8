"""Who may open a page: decorators for views. (Services ask `permissions` themselves.)"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require

View = Callable[..., HttpResponse]


class SignedInRequest(HttpRequest):
    """What a view behind `requires` is called with."""

    user: User


def requires(permission: Permission | None = None) -> Callable[[View], View]:
    """Only for signed-in people, and with `permission` only for those whose role grants it."""

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not request.user.is_authenticated:
                return _to_sign_in(request)
            if permission is not None:
                require(request.user, permission)
            return view(request, *args, **kwargs)

        return guarded

    return decorate


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    # A fragment must not be replaced by the sign-in page: the whole page goes there.
    if request.headers.get("HX-Request"):
        return HttpResponseClientRedirect(reverse("accounts:sign-in"))
    return redirect_to_login(request.get_full_path())
