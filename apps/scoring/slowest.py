"""The slowest batches of each second, with where their time went: what a spike was made of.

A few a process and second are kept in its sample, and go with it after an hour. They hold ids and
times, never text: whoever may read messages finds them by their chunks.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

KEPT_A_SECOND = 3
# Chunks named of one batch; they are enough to find messages of it.
CHUNKS_NAMED = 8


@dataclass(frozen=True, slots=True)
class CallTrace:
    """One call to Triton: when it was sent after the claim, and how long its answer took."""

    sent_after_ms: float
    took_ms: float
    size: int


@dataclass(frozen=True, slots=True)
class BatchTrace:
    """One batch's way, in milliseconds. `queue_ms` is what its oldest message had waited."""

    claim: str
    size: int
    chunks: Sequence[int]
    queue_ms: float
    claim_ms: float
    encode_ms: float
    inference_ms: float
    store_ms: float
    calls: Sequence[CallTrace]

    @property
    def total_ms(self) -> float:
        """From the oldest message's arrival to its durable verdict."""
        return self.queue_ms + self.since_claim_ms

    @property
    def since_claim_ms(self) -> float:
        return self.claim_ms + self.encode_ms + self.inference_ms + self.store_ms

    def to_json(self) -> dict[str, Any]:
        values: dict[str, Any] = _rounded(asdict(self))
        return values

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BatchTrace:
        return cls(**{**value, "calls": [CallTrace(**call) for call in value["calls"]]})


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return round(value, 2) if isinstance(value, float) else value


class Slowest:
    """Keeps the slowest of what it is offered. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heap: list[tuple[float, int, BatchTrace]] = []
        self._numbers = itertools.count()

    def offer(self, trace: BatchTrace) -> None:
        entry = (trace.total_ms, next(self._numbers), trace)
        with self._lock:
            if len(self._heap) < KEPT_A_SECOND:
                heapq.heappush(self._heap, entry)
            else:
                heapq.heappushpop(self._heap, entry)

    def take(self) -> list[BatchTrace]:
        """Slowest first, and start anew."""
        with self._lock:
            taken, self._heap = self._heap, []
        return [trace for _, _, trace in sorted(taken, reverse=True)]
