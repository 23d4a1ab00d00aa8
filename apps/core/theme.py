"""Light, dark or the system's: a cookie, so that the first paint is already right."""

from __future__ import annotations

from django.http import HttpRequest

COOKIE = "theme"
THEMES = ("", "light", "dark")


def theme_of(request: HttpRequest) -> str:
    """The chosen theme; "" (the system's) for anything that is none."""
    chosen = request.COOKIES.get(COOKIE, "")
    return chosen if chosen in THEMES else ""
