"""One circuit breaker per replica. No I/O: the caller brings clock and chance.

closed ──rate too high──▶ open ──time over──▶ half_open ──probe succeeds──▶ ramping ──▶ closed
                           ▲                      │ probe fails: longer        │
                           └──────────────────────┴────────────────────────────┘

A replica that does not answer health checks opens it too, so that no call is lost to find out; when
it answers again, it is half open at once, and the next answer, to a call or a health check, is the
probe. So a replica comes back by a ramp also where no calls are made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock

from inference.config import BreakerConfig

__all__ = ["Breaker", "BreakerChange", "BreakerState", "Permit"]

BUCKETS = 10


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    RAMPING = "ramping"
    FORCED_OPEN = "forced_open"
    FORCED_CLOSED = "forced_closed"


CLOSED = BreakerState.CLOSED  # looking a member up is a call of its own before Python 3.12


@dataclass(frozen=True, slots=True)
class Permit:
    """The right to make one call. Give it back by exactly one of the breaker's ``on_*``."""

    # Results of calls that began before the last change of state say nothing about the new one.
    epoch: int
    is_probe: bool = False


@dataclass(frozen=True, slots=True)
class BreakerChange:
    old: BreakerState
    new: BreakerState
    reason: str
    open_s: float


@dataclass(slots=True)
class _Bucket:
    index: int
    successes: int = 0
    failures: int = 0


class _Window:
    """Successes and failures of the last ``window_s``, in ten buckets."""

    def __init__(self, window_s: float) -> None:
        self._bucket_s = window_s / BUCKETS
        self.clear()

    def clear(self) -> None:
        self._buckets: list[_Bucket] = []
        self._last = _Bucket(-1)

    def add(self, now_s: float, *, failed: bool) -> None:
        index = int(now_s / self._bucket_s)
        if index > self._last.index:
            self._last = _Bucket(index)
            self._buckets.append(self._last)
            self._drop_old(index)
        if failed:
            self._last.failures += 1
        else:
            self._last.successes += 1

    def totals(self, now_s: float) -> tuple[int, int]:
        self._drop_old(int(now_s / self._bucket_s))
        return sum(b.successes for b in self._buckets), sum(b.failures for b in self._buckets)

    def _drop_old(self, index: int) -> None:
        self._buckets = [bucket for bucket in self._buckets if bucket.index > index - BUCKETS]


class Breaker:
    """Failure rate over a sliding window, growing open time, one probe, a ramp back.

    Safe for several threads. ``on_change`` is called outside the lock.
    """

    def __init__(
        self,
        config: BreakerConfig,
        random: Callable[[], float],
        on_change: Callable[[BreakerChange], None] | None = None,
    ) -> None:
        self._config = config
        self._random = random
        self._on_change = on_change
        self._lock = Lock()
        self._window = _Window(config.window_s)
        self._state = BreakerState.CLOSED
        self._reason = ""
        self._epoch = 0
        self._ordinary = Permit(0)  # of this epoch, shared: a call a permit is a call an object
        self._since_s = 0.0
        self._openings = 0  # since it was last closed: the exponent of the open time
        self._open_until_s = 0.0
        self._probe_is_out = False
        self._is_unreachable = False  # opened by health checks and not closed since

    @property
    def state(self) -> BreakerState:
        return self._state

    @property
    def reason(self) -> str:
        """Why it is not closed; empty when it is."""
        return self._reason

    def seconds_to_probe(self, now_s: float) -> float | None:
        """Until the next probe may go; None when none is due."""
        if self._state is BreakerState.OPEN:
            return max(0.0, self._open_until_s - now_s)
        return None

    def is_callable(self, now_s: float) -> bool:
        """Whether ``try_acquire`` may succeed; takes nothing."""
        match self._state:
            case BreakerState.OPEN:
                return now_s >= self._open_until_s
            case BreakerState.HALF_OPEN:
                return not self._probe_is_out
            case BreakerState.FORCED_OPEN:
                return False
        return True

    def try_acquire(self, now_s: float) -> Permit | None:
        """A permit for one call, or None."""
        if self._state is CLOSED:
            return self._ordinary
        change: BreakerChange | None = None
        with self._lock:
            if self._state is BreakerState.OPEN and now_s >= self._open_until_s:
                change = self._move(BreakerState.HALF_OPEN, now_s, "probing")
            permit = self._permit(now_s)
        self._tell(change)
        return permit

    def _permit(self, now_s: float) -> Permit | None:
        match self._state:
            case BreakerState.HALF_OPEN if not self._probe_is_out:
                self._probe_is_out = True
                return Permit(self._epoch, is_probe=True)
            case BreakerState.RAMPING if self._random() >= self._ramp_share(now_s):
                return None
            case BreakerState.CLOSED | BreakerState.RAMPING | BreakerState.FORCED_CLOSED:
                return self._ordinary
        return None

    def _ramp_share(self, now_s: float) -> float:
        first, ramp_s = self._config.ramp_first_share, self._config.ramp_s
        passed = 1.0 if ramp_s <= 0 else min(1.0, (now_s - self._since_s) / ramp_s)
        return first + (1.0 - first) * passed

    def on_success(self, permit: Permit, now_s: float) -> None:
        with self._lock:
            if permit is self._ordinary and self._state is CLOSED:
                self._window.add(now_s, failed=False)  # nothing to judge: nearly every call
                return
        self._record(permit, now_s, failed=False)

    def on_failure(self, permit: Permit, now_s: float) -> None:
        self._record(permit, now_s, failed=True)

    def on_late_failure(self, now_s: float) -> None:
        """Count a failure that was recognised only after its call had given its permit back."""
        self._record(self._ordinary, now_s, failed=True)

    def on_unreachable(self, now_s: float, reason: str) -> None:
        """It answers no health check, and others can take its calls."""
        change: BreakerChange | None = None
        with self._lock:
            if self._state in (BreakerState.CLOSED, BreakerState.HALF_OPEN, BreakerState.RAMPING):
                change = self._open(now_s, reason)
            self._is_unreachable = self._state is BreakerState.OPEN
        self._tell(change)

    def on_reachable(self, now_s: float) -> None:
        """It answers health checks. Of one that failed calls this says nothing."""
        if self._state is BreakerState.CLOSED:
            return
        with self._lock:
            change = self._after_health_check(now_s)
        self._tell(change)

    def _after_health_check(self, now_s: float) -> BreakerChange | None:
        match self._state:
            case BreakerState.OPEN if self._is_unreachable:
                return self._move(BreakerState.HALF_OPEN, now_s, "probing")
            case BreakerState.HALF_OPEN if self._is_unreachable and not self._probe_is_out:
                return self._move(BreakerState.RAMPING, now_s, "the probe succeeded")
            case BreakerState.RAMPING if self._ramp_share(now_s) >= 1.0:
                return self._close(now_s)
        return None

    def on_neither(self, permit: Permit) -> None:
        """The call said nothing about the replica (our own fault, or cancelled)."""
        if permit.is_probe:
            with self._lock:
                if permit.epoch == self._epoch:
                    self._probe_is_out = False

    def _record(self, permit: Permit, now_s: float, *, failed: bool) -> None:
        change = None
        with self._lock:
            if permit.epoch == self._epoch:
                change = self._judge(now_s, failed=failed)
        self._tell(change)

    def _judge(self, now_s: float, *, failed: bool) -> BreakerChange | None:
        match self._state:
            case BreakerState.HALF_OPEN if self._probe_is_out:
                if failed:
                    return self._open(now_s, "the probe failed")
                return self._move(BreakerState.RAMPING, now_s, "the probe succeeded")
            case BreakerState.CLOSED | BreakerState.RAMPING:
                self._window.add(now_s, failed=failed)
                if failed and (reason := self._too_many(now_s)):
                    return self._open(now_s, reason)
                if self._state is BreakerState.RAMPING and self._ramp_share(now_s) >= 1.0:
                    return self._close(now_s)
        return None

    def _too_many(self, now_s: float) -> str:
        successes, failures = self._window.totals(now_s)
        volume = successes + failures
        if volume < self._config.min_volume or failures < self._config.failure_rate * volume:
            return ""
        return f"{failures} of {volume} failed in {self._config.window_s:g} s"

    def _open(self, now_s: float, reason: str) -> BreakerChange:
        exponent = min(self._openings, 60)
        open_s = min(
            self._config.open_max_s, self._config.open_first_s * self._config.open_growth**exponent
        )
        self._openings += 1
        self._open_until_s = now_s + open_s
        return self._move(BreakerState.OPEN, now_s, reason, open_s)

    def _close(self, now_s: float) -> BreakerChange:
        self._openings = 0
        self._is_unreachable = False
        return self._move(BreakerState.CLOSED, now_s, "")

    def _move(
        self, state: BreakerState, now_s: float, reason: str, open_s: float = 0.0
    ) -> BreakerChange:
        change = BreakerChange(self._state, state, reason, open_s)
        self._state, self._reason, self._since_s = state, reason, now_s
        self._epoch += 1
        self._ordinary = Permit(self._epoch)
        self._probe_is_out = False
        self._window.clear()
        return change

    def force(self, state: BreakerState, now_s: float) -> None:
        """An operator holds it open or closed until ``reset``.

        Raises:
            ValueError: for a state that is not forced.
        """
        if state not in (BreakerState.FORCED_OPEN, BreakerState.FORCED_CLOSED):
            raise ValueError(f"a breaker cannot be forced to be {state}")
        with self._lock:
            change = self._move(state, now_s, "forced")
        self._tell(change)

    def reset(self, now_s: float) -> None:
        """Closed, with nothing remembered."""
        with self._lock:
            change = self._close(now_s)
        self._tell(change)

    def _tell(self, change: BreakerChange | None) -> None:
        if change is not None and self._on_change is not None:
            self._on_change(change)
