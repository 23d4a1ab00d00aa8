"""What the page frame needs to know about the request."""

from __future__ import annotations

from django import template
from django.http import HttpRequest
from django.utils.translation import to_locale

from apps.core.theme import THEMES, theme_of

register = template.Library()


@register.filter
def theme(request: HttpRequest | str) -> str:
    """The chosen theme, or "" for the system's. (An error page may have no request.)"""
    return theme_of(request) if isinstance(request, HttpRequest) else ""


@register.filter
def next_theme(request: HttpRequest) -> str:
    """What the theme switch changes to: system, light, dark and round again."""
    return THEMES[(THEMES.index(theme_of(request)) + 1) % len(THEMES)]


@register.filter
def language_tag(code: str) -> str:
    """A BCP 47 tag for `lang`: zh-hans -> zh-Hans."""
    return to_locale(code).replace("_", "-")


@register.filter
def within(request: HttpRequest, url: str) -> bool:
    """Whether the page is `url` or beneath it."""
    return request.path.startswith(url)


@register.filter
def initials(name: str) -> str:
    """Up to two letters for a person's round mark."""
    # Letters and digits only: a name may begin with a direction override.
    words = name.replace(".", " ").replace("_", " ").split()
    letters = [next(filter(str.isalnum, word), "") for word in words]
    return "".join(letter for letter in letters if letter)[:2].upper()
