"""Ids of ours as they stand in addresses."""

from __future__ import annotations

MOST_ID = 2**63 - 1
_MOST_DIGITS = len(str(MOST_ID))


def parse_id(value: str) -> int | None:
    """The number, or None for what can't be an id: whoever asked is told that there is none."""
    if not (value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS):
        return None
    number = int(value)
    return number if number <= MOST_ID else None
