"""How much to claim, how much to have in flight, and when to hold off: pure, no clock of its own.

Batches grow by a step while they are full and judged within the latency target, and halve when
Triton says it is overloaded (additive increase, multiplicative decrease). The target counts only
while messages hardly wait to be claimed: behind a backlog a larger batch is the faster way for
everybody, and shrinking it made things worse (measured: a sixth of the throughput on a machine
busy with other work). When Triton is away claiming stops, and is tried again with one small batch
after a pause that grows.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Limits:
    """Messages unless the name says otherwise."""

    smallest_batch: int = 128
    largest_batch: int = 1024
    step: int = 256
    most_in_flight_batches: int = 3
    # From sending a batch to its answer: what is aimed at, and what is too long in any case.
    latency_target_ms: float = 150.0
    longest_latency_ms: float = 800.0
    first_pause_s: float = 0.25
    longest_pause_s: float = 4.0


@dataclass(slots=True)
class Pacer:
    """One worker's pace."""

    limits: Limits = field(default_factory=Limits)
    chance: Callable[[], float] = random.random
    batch: int = 0
    in_flight_batches: int = 0
    paused_because: str = ""
    paused_until_s: float = 0.0
    # The last thing heard of Triton is that no replica answers.
    is_away: bool = False
    _failures: int = 0

    def __post_init__(self) -> None:
        self.batch = self.limits.largest_batch // 2
        self.in_flight_batches = self.limits.most_in_flight_batches

    def limit(self, *, largest_batch: int, most_in_flight_batches: int) -> None:
        """Other limits from now on. What is below them grows as it always does."""
        self.limits = replace(
            self.limits,
            smallest_batch=min(Limits().smallest_batch, largest_batch),
            largest_batch=largest_batch,
            most_in_flight_batches=most_in_flight_batches,
        )
        self.batch = min(self.batch, largest_batch)
        self.in_flight_batches = min(self.in_flight_batches, most_in_flight_batches)

    def on_answer(self, messages: int, latency_ms: float, queue_ms: float) -> None:
        """A batch came back judged; its newest messages had waited `queue_ms` for the claim."""
        self._failures, self.paused_because, self.is_away = 0, "", False
        self.in_flight_batches = self.limits.most_in_flight_batches
        target_ms = self.limits.latency_target_ms
        if latency_ms > target_ms > queue_ms or latency_ms > self.limits.longest_latency_ms:
            self.batch = max(self.limits.smallest_batch, int(self.batch * 0.8))
        elif messages >= self.batch // 2:
            # A batch that was not nearly full says nothing about a larger one.
            self.batch = min(self.limits.largest_batch, self.batch + self.limits.step)

    def on_overload(self, kind: str, now_s: float) -> float:
        """Triton or our own door was full: smaller and fewer. Returns the pause in seconds."""
        self.batch = max(self.limits.smallest_batch, self.batch // 2)
        self.in_flight_batches, self.is_away = 1, False
        return self._pause(kind, now_s)

    def on_outage(self, kind: str, now_s: float) -> float:
        """No replica could answer. Returns the pause in seconds."""
        self.batch, self.in_flight_batches = self.limits.smallest_batch, 1
        self.is_away = True
        return self._pause(kind, now_s)

    def _pause(self, kind: str, now_s: float) -> float:
        limits = self.limits
        longest_s = min(limits.longest_pause_s, limits.first_pause_s * 2.0**self._failures)
        self._failures += 1
        # Never less than half: several workers must not come back as one.
        pause_s = longest_s * (0.5 + 0.5 * self.chance())
        self.paused_because, self.paused_until_s = kind, now_s + pause_s
        return pause_s

    def pause_left_s(self, now_s: float) -> float:
        """Seconds until claiming may go on; 0 when it may."""
        return max(0.0, self.paused_until_s - now_s)
