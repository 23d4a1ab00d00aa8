"""Whether a crowd should travel in one batch or in several depends on the servers. The policy finds
out by itself: here against simulated ones, by a simulated clock, so that each run is the same."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from inference.collector import Batch, BatchPolicy, Waiter
from inference.config import CollectorConfig

CALL_S, TEXT_S = 1.8e-3, 18e-6  # what the embedded Triton needs for a call and for each text in it
TURN_S = 15e-6  # what callers need for each answer before they ask again


@dataclass
class ClosedLoop:
    """Callers that ask again when they are answered, and servers with `cores` processors.

    A batch keeps one processor busy; more batches than processors share them evenly. Callers run
    in the collector's event loop: while they do, nothing is decided.
    """

    policy: BatchPolicy[str]
    cores: float
    now_s: float = 0.0
    busy_until_s: float = 0.0
    answered: int = 0
    _work_s: dict[Batch[str], float] = field(default_factory=dict)
    _returning: list[tuple[float, int]] = field(default_factory=list)

    def run(self, callers: int, batches: int) -> float:
        """Answers a second, after a third of the batches has passed."""
        self._ask(callers)
        self._look()
        for _ in range(batches // 3):
            self._until_a_batch_ends()
        since_s, before = self.now_s, self.answered
        for _ in range(batches - batches // 3):
            self._until_a_batch_ends()
        return (self.answered - before) / (self.now_s - since_s)

    def _until_a_batch_ends(self) -> None:
        done = self._step()
        while not done:
            done = self._step()

    def _step(self) -> bool:
        pace = min(1.0, self.cores / len(self._work_s)) if self._work_s else 1.0
        wake_s = max(self.policy.wake_s(self.now_s), self.busy_until_s) - self.now_s
        passes_s = min(
            [work_s / pace for work_s in self._work_s.values()]
            + [at_s - self.now_s for at_s, _ in self._returning]
            + [wake_s]
        )
        passes_s = max(0.0, passes_s) + 1e-9
        self.now_s += passes_s
        for batch in self._work_s:
            self._work_s[batch] -= passes_s * pace
        ended = [batch for batch, left_s in self._work_s.items() if left_s <= 0]
        for batch in ended:
            self._end(batch)
        self._let_return()
        if self.now_s >= self.busy_until_s:
            self._look()
        return bool(ended)

    def _end(self, batch: Batch[str]) -> None:
        del self._work_s[batch]
        count = len(batch.waiters)
        self.answered += count
        self.policy.succeeded(batch, self.now_s)
        self._look(only_full=True)
        self.busy_until_s = max(self.busy_until_s, self.now_s) + TURN_S * count
        self._returning.append((self.busy_until_s, count))

    def _let_return(self) -> None:
        for at_s, count in [each for each in self._returning if each[0] <= self.now_s]:
            self._returning.remove((at_s, count))
            self._ask(count)

    def _ask(self, calls: int) -> None:
        for _ in range(calls):
            self.policy.offer(Waiter("", 0, self.now_s, math.inf))

    def _look(self, *, only_full: bool = False) -> None:
        while batch := self.policy.next_batch(self.now_s, only_full=only_full):
            self._work_s[batch] = CALL_S + TEXT_S * len(batch.waiters)


class Fixed:
    """A formation that does not learn."""

    def __init__(self, is_apart: bool) -> None:
        self.is_apart = is_apart

    def observe(self, was_apart: bool, pace_s: float) -> None:
        pass


def throughput(callers: int, max_batch: int, cores: float, formation: Fixed | None = None) -> float:
    policy: BatchPolicy[str] = BatchPolicy(CollectorConfig(max_batch=max_batch))
    if formation is not None:
        policy.formation = formation  # type: ignore[assignment]
    return ClosedLoop(policy, cores).run(callers, batches=1_000)


@pytest.mark.parametrize("cores", [0.5, 1, 1.5, 2, 4])
@pytest.mark.parametrize(("callers", "max_batch"), [(50, 64), (100, 64), (100, 256), (1000, 64)])
def test_a_crowd_travels_about_as_fast_as_the_better_formation(callers, max_batch, cores):
    together = throughput(callers, max_batch, cores, Fixed(is_apart=False))
    apart = throughput(callers, max_batch, cores, Fixed(is_apart=True))
    assert throughput(callers, max_batch, cores) > 0.87 * max(together, apart)


def test_the_formation_matters_both_ways():
    """Else the test above would prove nothing."""
    apart, together = Fixed(is_apart=True), Fixed(is_apart=False)
    assert throughput(50, 64, 1, together) > 1.5 * throughput(50, 64, 1, apart)
    assert throughput(100, 256, 4, apart) > 1.15 * throughput(100, 256, 4, together)
