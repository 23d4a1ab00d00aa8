"""Telling browsers, on commit, which items changed. They fetch what they may see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from apps.core import realtime

Change = Literal[
    "opened",
    "withdrawn",
    "leased",
    "released",
    "decided",
    "reopened",
    "escalated",
    "reported",
    "checked",
    "erased",
]


def announce(change: Change, item_ids: Sequence[int]) -> None:
    """Say that `change` happened to these items, if any."""
    if item_ids:
        realtime.publish(realtime.REVIEW, change, ids=item_ids)
