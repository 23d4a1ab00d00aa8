"""What the inference client tells of its calls, gathered until the worker's next sample.

A breaker may pass through half-open in milliseconds, between two samples: its changes are kept
with their times, so that the time line has all of them.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inference import Hooks
from inference.errors import OverloadedError, QueueExpiredError, QueueFullError
from inference.hooks import AttemptEvent, BreakerEvent, HedgeEvent, RetryEvent

# Of each second; a breaker that flaps is told by its last ones.
MOST_CHANGES = 50
_SHED = OverloadedError.kind
_REJECTED = {QueueFullError.kind, QueueExpiredError.kind}


@dataclass(frozen=True, slots=True)
class Told:
    """Since the last time. Each change says how long ago it was, so clocks need not agree."""

    counts: Counter[str]
    breaker_changes: Sequence[dict[str, Any]]


class ClientEars:
    """Hooks for the client of one process. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._changes: deque[tuple[float, BreakerEvent]] = deque(maxlen=MOST_CHANGES)
        self.hooks = Hooks(
            on_attempt=self._on_attempt,
            on_retry=self._on_retry,
            on_hedge=self._on_hedge,
            on_breaker=self._on_breaker,
        )

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def _on_attempt(self, event: AttemptEvent) -> None:
        if event.outcome == _SHED:
            self._count("shed")
        elif event.outcome in _REJECTED:
            self._count("rejected")

    def _on_retry(self, _: RetryEvent) -> None:
        self._count("retries")

    def _on_hedge(self, _: HedgeEvent) -> None:
        self._count("hedges")

    def _on_breaker(self, event: BreakerEvent) -> None:
        with self._lock:
            self._changes.append((time.monotonic(), event))

    def take(self) -> Told:
        with self._lock:
            counts, self._counts = self._counts, Counter()
            changes = list(self._changes)
            self._changes.clear()
        now_s = time.monotonic()
        return Told(counts, [_change(event, now_s - at_s) for at_s, event in changes])


def _change(event: BreakerEvent, ago_s: float) -> dict[str, Any]:
    return {
        "ago_s": round(ago_s, 4),
        "replica": event.replica,
        "state": str(event.new),
        "reason": event.reason,
    }
