"""The banner of what fires, for pages of rooms below this one."""

from __future__ import annotations

from typing import Any

from django import template

from apps.alerts.clocks import read_clock
from apps.alerts.selectors import firing

register = template.Library()


@register.inclusion_tag("alerts/banner.html")
def alert_banner() -> dict[str, Any]:
    # Web processes have no task of their own to look at their clock.
    read_clock("web")
    return {"alerts": firing()}


@register.filter
def plain_number(value: float | None) -> str:
    """A figure of any unit: decimals only where they say something, a dash when unknown."""
    if value is None:
        return "–"
    places = 0 if value == round(value) or value >= 100 else 2
    # Like all other figures of the console, in both languages.
    return f"{value:,.{places}f}"


@register.filter
def unlocalised(value: object) -> str:
    """What a field is given back: no thousands separator, no needless ".0"."""
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else str(value)
