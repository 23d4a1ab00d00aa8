"""Numbers as the console writes them: a unit always, no jump in width, a dash for "unknown".

English and Chinese write them alike, so Django's formats, which group Chinese by four or not at
all, are left out of it; the browser's `Intl` for both languages agrees with this.
"""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

UNKNOWN = "–"


@register.filter
def count(value: float | None) -> str:
    """12345 -> 12,345"""
    return UNKNOWN if value is None else f"{round(value):,}"


@register.filter
def rate(value: float | None) -> str:
    """A number a second: one decimal below ten."""
    if value is None:
        return UNKNOWN
    return f"{value:.1f}" if 0 < value < 9.95 else f"{value:,.0f}"


@register.filter
def ms(value: float | None) -> str:
    """Milliseconds: one decimal below a hundred."""
    if value is None:
        return UNKNOWN
    return f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


@register.filter
def percent(share: float | None) -> str:
    """0.0031 -> 0.31; the unit stands beside it."""
    if share is None:
        return UNKNOWN
    return f"{share:.2%}"[:-1] if 0 < share < 0.0995 else f"{share:.1%}"[:-1]


@register.filter
def whole_percent(share: float) -> str:
    """0.312 -> 31%, for bars; what is there but rounds to nothing is "<1%"."""
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


@register.filter
def coefficient(value: float | None) -> str:
    """-0.034 -> −0.03: a number from -1 to 1, such as kappa."""
    return UNKNOWN if value is None else f"{value:.2f}".replace("-", "−")


@register.filter
def score(value: float | None) -> str:
    """0.86 -> .86; a certain 1 stays 1.00."""
    return "" if value is None else f"{value:.2f}".removeprefix("0")


@register.filter
def duration(seconds: float | None) -> SafeString | str:
    """2.4 s, 48 s, 1:42, 3:05:10: the number and, below a minute, its unit."""
    if seconds is None:
        return UNKNOWN
    if seconds < 9.95:
        return format_html('{}<span class="unit">s</span>', f"{seconds:.1f}")
    whole = round(seconds)
    if whole < 60:
        return format_html('{}<span class="unit">s</span>', whole)
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02}"
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


@register.simple_tag
def spark(points: list[object], name: str, height: int = 28) -> SafeString:
    """The path data of one series of `points` in a 200 wide box; unknown values leave a gap."""
    values: list[float | None] = [getattr(point, name) for point in points]
    known = [value for value in values if value is not None]
    if not known:
        return SafeString("")
    top = max(known) or 1.0
    step = 200 / max(len(values) - 1, 1)
    parts, is_down = [], False
    for index, value in enumerate(values):
        if value is not None:
            y = height - 2 - value / top * (height - 4)
            parts.append(f"{'L' if is_down else 'M'}{index * step:.1f},{y:.1f}")
        is_down = value is not None
    return SafeString(" ".join(parts))  # numbers only


@register.filter
def dot_y(row: int) -> int:
    """Where the dot in this row of a column has its middle, in a drawing 120 high."""
    return 115 - 10 * row
