"""Times as the console writes them: ages `1:42`, times of day `14:28:30`."""

from __future__ import annotations

from datetime import datetime, timedelta

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.filter
def fraction(value: float) -> str:
    """A position from 0 to 1 for CSS, whatever the language writes for a decimal point."""
    return f"{value:.4f}"


@register.filter
def age(value: timedelta | float) -> str:
    """`1:42`, `2:03:20` or `5 d`."""
    seconds = int(value.total_seconds() if isinstance(value, timedelta) else value)
    minutes, seconds = divmod(max(seconds, 0), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24}\u00a0d"
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


@register.filter
def since(moment: datetime) -> SafeString:
    """The age of something, which `live-ages.js` keeps right."""
    return format_html(
        '<time datetime="{}" data-since>{}</time>',
        moment.isoformat(),
        age(timezone.now() - moment),
    )


@register.filter
def clock(moment: datetime | None) -> str:
    """The time of day, with the date before it when that isn't today."""
    if moment is None:
        return "–"
    local = timezone.localtime(moment)
    same_day = local.date() == timezone.localdate()
    return local.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M")
