"""`{{ text|marked }}` draws text of strangers, hidden characters as named boxes."""

from __future__ import annotations

from django import template
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

from apps.core.marks import Kind, Piece, pieces

register = template.Library()


@register.filter
def marked(text: str) -> SafeString:
    """The whole text, line breaks kept."""
    return _draw(pieces(text))


@register.filter
def marked_line(text: str) -> SafeString:
    """The same for a row of one line: breaks and runs of spaces become one space."""
    if text.isascii() and text.isprintable():
        return escape(" ".join(text.split()))  # nothing to mark: what most rows are
    return _draw(pieces(" ".join(text.split())))


@register.filter
def marked_plain(text: str) -> str:
    """The same without markup, for options and titles: `[RLO]` in place of the box."""
    cut = pieces(" ".join(text.split()))
    shown = (Kind.PLAIN, Kind.LOOK)
    return "".join(p.text if p.kind in shown else f"[{p.name}]" for p in cut)


def _draw(cut: list[Piece]) -> SafeString:
    return format_html_join("", "{}", ((_draw_one(piece),) for piece in cut))


def _draw_one(piece: Piece) -> SafeString | str:
    if piece.kind is Kind.PLAIN:
        return piece.text
    if piece.kind is Kind.LOOK:
        return format_html(
            '<span class="cp" data-cp="{}" title="{}">{}</span>',
            piece.code_point,
            piece.title,
            piece.text,
        )
    return format_html(
        '<span class="cp" data-kind="{}" title="{}">{}</span>', piece.kind, piece.title, piece.name
    )
