"""One instant from the caller down; every attempt gets what is left of it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

__all__ = ["Deadline"]


@dataclass(frozen=True, slots=True, order=True)
class Deadline:
    """An instant on the clock of ``time.monotonic()``.

    A deadline is made once, at the door, and handed down; nothing below makes a later one.
    ``now_s`` is for tests and for callers that already read the clock.
    """

    at_s: float

    @classmethod
    def after(cls, budget_s: float, *, now_s: float | None = None) -> Deadline:
        """The instant ``budget_s`` seconds from now."""
        return cls((time.monotonic() if now_s is None else now_s) + budget_s)

    @classmethod
    def never(cls) -> Deadline:
        """For background work that has its own limit elsewhere."""
        return cls(math.inf)

    def remaining_s(self, now_s: float | None = None) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at_s - (time.monotonic() if now_s is None else now_s))

    def has_passed(self, now_s: float | None = None) -> bool:
        return self.at_s <= (time.monotonic() if now_s is None else now_s)

    def within(self, budget_s: float, *, now_s: float | None = None) -> Deadline:
        """A narrower one: ``budget_s`` from now, or this one if it is earlier."""
        return min(self, Deadline.after(budget_s, now_s=now_s))

    def attempt_timeout_s(self, limit_s: float, now_s: float | None = None) -> float:
        """What one attempt may take: its own limit or what is left."""
        return min(limit_s, self.remaining_s(now_s))
