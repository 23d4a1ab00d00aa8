"""How the audit log writes the state of a thing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template

from apps.core.templatetags.hostile import marked_plain

register = template.Library()


@register.filter
def facts(state: Mapping[str, Any] | None) -> str:
    """`version 2, spam .40 .80`: names and values, flat."""
    return ", ".join(_flat("", state or {}))


def _flat(name: str, value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [part for key, inner in value.items() for part in _flat(str(key), inner)]
    if isinstance(value, list):
        value = " ".join(str(each) for each in value)
    return [f"{name} {marked_plain(str('–' if value is None else value))}"]
