"""Which replica gets the next call. No I/O: the caller brings clock and chance.

gRPC's own policies do not see answers: a replica that answers UNAVAILABLE at once keeps its third
of the calls, and so does one 50 ms slower than the rest (both measured on 1.85). Here two replicas
are drawn and the one with the smaller cost is taken: calls outstanding, times latency, times what
it recently did wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from inference.config import BalancerConfig, BalancerPolicy

__all__ = ["Balancer", "ReplicaLoad"]

# One sample of the failure share moves it by a tenth; overload doubles the cost up to this.
FAILURE_STEP = 0.1
MAX_OVERLOAD_FACTOR = 16.0
OVERLOAD_HALF_LIFE_S = 1.0
MIN_SUCCESS_SHARE = 0.05
MIN_LATENCY_MS = 0.05
# Latencies, and penalties, within this factor of each other count as the same.
ALIKE = 1.25


@dataclass(slots=True)
class ReplicaLoad:
    """What the balancer knows of one replica."""

    name: str
    config: BalancerConfig = field(default_factory=BalancerConfig)
    outstanding: int = 0
    latency_ms: float = 0.0  # EWMA over all attempts; 0 is "not known yet"
    usual_ms: float = 0.0  # EWMA over successes only: what this replica takes when all is well
    failure_share: float = 0.0
    overload_factor: float = 1.0
    is_draining: bool = False
    ejected_until_s: float = 0.0
    ejection_reason: str = ""
    _latency_at_s: float = 0.0
    _overload_at_s: float = 0.0
    _failed_at_s: float = 0.0

    def on_success(self, latency_ms: float, now_s: float) -> None:
        self._add_latency(latency_ms, now_s)
        self.usual_ms += (latency_ms - self.usual_ms) * (0.1 if self.usual_ms else 1.0)
        self.failure_share *= 1.0 - FAILURE_STEP

    def on_failure(self, latency_ms: float, now_s: float) -> None:
        # A failure is often faster than an answer; it must never make a replica look quick.
        if latency_ms > self.latency_ms:
            self._add_latency(latency_ms, now_s)
        share = self._failure_share_now(now_s)
        self.failure_share = share + (1.0 - share) * FAILURE_STEP
        self._failed_at_s = now_s

    def forget(self) -> None:
        """It was away and is back: what it did before says nothing."""
        self.latency_ms = self.failure_share = 0.0
        self.overload_factor = 1.0

    def on_overload(self, now_s: float) -> None:
        """Multiplicative decrease of what it gets; it comes back with time."""
        factor = self._overload_now(now_s) * 2.0
        self.overload_factor = min(MAX_OVERLOAD_FACTOR, factor)
        self._overload_at_s = now_s

    def _add_latency(self, latency_ms: float, now_s: float) -> None:
        if not self.latency_ms:
            self.latency_ms = latency_ms
        else:
            passed_s = max(0.0, now_s - self._latency_at_s)
            keep: float = 0.5 ** (passed_s / self.config.latency_half_life_s)
            # Many samples in one instant must still count: each moves it by a tenth at least.
            keep = min(keep, 0.9)
            self.latency_ms = latency_ms + (self.latency_ms - latency_ms) * keep
        self._latency_at_s = now_s

    def _overload_now(self, now_s: float) -> float:
        if self.overload_factor == 1.0:
            return 1.0
        passed_s = max(0.0, now_s - self._overload_at_s)
        decayed: float = (self.overload_factor - 1.0) * 0.5 ** (passed_s / OVERLOAD_HALF_LIFE_S)
        return 1.0 + decayed

    def _failure_share_now(self, now_s: float) -> float:
        if not self.failure_share:
            return 0.0
        idle_s = max(0.0, now_s - self._failed_at_s)
        kept: float = 0.5 ** (idle_s / self.config.forgive_half_life_s)
        return self.failure_share * kept

    def expected_ms(self, now_s: float, floor_ms: float) -> float:
        """What one call takes there.

        Args:
            now_s: The clock.
            floor_ms: The latency of the quickest known replica: what an unknown one is taken to
                have, and what one that nobody called for long is forgiven down to.
        """
        latency_ms = max(self.latency_ms or floor_ms, MIN_LATENCY_MS)
        idle_s = now_s - self._latency_at_s
        if latency_ms <= floor_ms or self.outstanding or idle_s <= 0:
            return latency_ms
        kept: float = 0.5 ** (idle_s / self.config.forgive_half_life_s)
        return floor_ms + (latency_ms - floor_ms) * kept

    def burden(self, now_s: float) -> float:
        """Calls it has and would have, times what it recently did wrong."""
        success_share = max(MIN_SUCCESS_SHARE, 1.0 - self._failure_share_now(now_s))
        penalty = self._overload_now(now_s) / success_share**2
        return (self.outstanding + 1) * (penalty if penalty > ALIKE else 1.0)

    def is_ejected(self, now_s: float) -> bool:
        return now_s < self.ejected_until_s


class Balancer:
    """Least busy of two (or round robin) over replicas that may be called."""

    def __init__(self, config: BalancerConfig, random: Callable[[], float]) -> None:
        self._config = config
        self._random = random
        self._turn = 0

    def eject(
        self,
        load: ReplicaLoad,
        among: Sequence[ReplicaLoad],
        now_s: float,
        reason: str,
        for_s: float | None = None,
    ) -> bool:
        """Put one aside for a while, unless too many already are.

        Returns:
            False when ``max_ejected_share`` is reached: a fleet that looks broken as a whole is
            more likely seen through a broken network, and someone has to answer.
        """
        others = sum(1 for other in among if other is not load and other.is_ejected(now_s))
        if others + 1 > self._config.max_ejected_share * len(among):
            return False
        load.ejected_until_s = now_s + (self._config.ejection_s if for_s is None else for_s)
        load.ejection_reason = reason
        return True

    def readmit(self, load: ReplicaLoad) -> None:
        load.ejected_until_s = 0.0
        load.ejection_reason = ""
        load.forget()

    def order(
        self, loads: Sequence[ReplicaLoad], now_s: float, avoid: Sequence[str] = ()
    ) -> list[ReplicaLoad]:
        """All that may be called, the chosen one first.

        Draining and ejected ones are left out. Those to avoid come last, in the order given, and
        are not left out: the one that just failed is better than none.
        """
        usable = [load for load in loads if not load.is_draining and now_s >= load.ejected_until_s]
        if len(usable) > 1:
            usable = self._arrange(usable, now_s)
        if avoid:
            usable.sort(key=lambda load: avoid.index(load.name) if load.name in avoid else -1)
        return usable

    def _arrange(self, usable: list[ReplicaLoad], now_s: float) -> list[ReplicaLoad]:
        if self._config.policy is BalancerPolicy.ROUND_ROBIN:
            self._turn += 1
            first = self._turn % len(usable)
            return usable[first:] + usable[:first]
        one = int(self._random() * len(usable))
        other = int(self._random() * (len(usable) - 1))
        other += other >= one
        floor_ms = min((load.latency_ms for load in usable if load.latency_ms), default=0.0)
        first_load, second_load = usable[one], usable[other]
        if _is_better(second_load, first_load, now_s, max(floor_ms, MIN_LATENCY_MS)):
            first_load, second_load = second_load, first_load
        rest = [load for load in usable if load is not first_load and load is not second_load]
        return [first_load, second_load, *rest]


def _is_better(one: ReplicaLoad, other: ReplicaLoad, now_s: float, floor_ms: float) -> bool:
    one_ms, other_ms = one.expected_ms(now_s, floor_ms), other.expected_ms(now_s, floor_ms)
    if max(one_ms, other_ms) <= ALIKE * min(one_ms, other_ms):
        # Else a quiet client would send everything to the one that is 1 % quicker.
        one_ms = other_ms = 1.0
    return one_ms * one.burden(now_s) < other_ms * other.burden(now_s)


def is_fair_share(wait_ms: float, usual_ms: float) -> bool:
    """Whether an attempt that its deadline ended had the time its replica normally needs.

    A 30 ms budget on a 300 ms model says nothing about the replica; on a 2 ms model it does. Of a
    replica that never answered nobody knows what is normal.
    """
    return usual_ms > 0 and wait_ms >= 2 * usual_ms
