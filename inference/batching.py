"""Which calls leave together, and when. No I/O, no clock, no event loop: `collector` brings them.

When a batch leaves:

- nothing is in flight: at once (`idle`);
- otherwise when as many wait as fit (`full`), or as its fair share of all that is outstanding
  (`share`): calls that return together would else travel as one herd, with the server idle while
  they turn round;
- or the oldest has waited `max_wait_ms` (`max_wait`), or the earliest deadline leaves just the
  time a batch takes (`deadline`), or the collector is closing (`closing`).

None leaves while as many batches are in flight as `Pacing` allows, which is also how many a fair
share is of: it tries what is quickest. One that is long overdue no longer counts, so that a frozen
replica can't hold up what goes to the others. A call waits longer than `max_wait_ms` only when the
servers are busy, and never beyond its deadline.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Sized
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count
from operator import attrgetter
from typing import Any, Generic, TypeVar

from inference.config import CollectorConfig
from inference.errors import ClientClosedError, OverloadedError
from inference.pacing import Pacing

__all__ = ["Batch", "BatchPolicy", "Item", "Waiter"]

Item = TypeVar("Item", bound=Sized)

_OVERDUE = 3  # times the usual latency
_OVERDUE_LEAST_S, _OVERDUE_UNKNOWN_S = 0.02, 0.1
_GONE_KEPT = 1024  # cancelled calls that may lie about before the queue is swept


class _State(Enum):
    QUEUED = auto()
    SENT = auto()
    DONE = auto()


# Looking a member up is a call of its own before Python 3.12, and these are read for every text.
QUEUED, SENT, DONE = _State


@dataclass(slots=True, eq=False)
class Waiter(Generic[Item]):
    """One call. `ticket` is whatever the shell needs to answer it (here: a future)."""

    item: Item
    length: int
    arrived_s: float
    deadline_s: float
    ticket: asyncio.Future[Any] | None = None
    state: _State = QUEUED


@dataclass(slots=True, eq=False)
class Batch(Generic[Item]):
    """What leaves together, sorted by length, so that the server pads little."""

    waiters: list[Waiter[Item]]
    reason: str
    sent_s: float
    overdue_s: float  # from then on it holds up nobody
    limit: int  # the pacing's, when it left
    waits_ms: list[float] = field(init=False)  # of each call, until the batch left
    # The latest of its calls': a hasty one must not end the call of the others.
    deadline_s: float = field(init=False)
    next_deadline_s: float = field(init=False)

    def __post_init__(self) -> None:
        sent_s = self.sent_s
        self.waits_ms = [(sent_s - waiter.arrived_s) * 1000 for waiter in self.waiters]
        deadlines_s = {waiter.deadline_s for waiter in self.waiters}  # a set: often there is one
        self.deadline_s = max(deadlines_s)
        self.next_deadline_s = min(deadlines_s)

    def take_expired(self, now_s: float) -> list[Waiter[Item]]:
        if self.next_deadline_s > now_s:
            return []
        waiting = [waiter for waiter in self.waiters if waiter.state is SENT]
        expired = [waiter for waiter in waiting if waiter.deadline_s <= now_s]
        for waiter in expired:
            waiter.state = DONE
        self.next_deadline_s = min(
            (waiter.deadline_s for waiter in waiting if waiter.deadline_s > now_s),
            default=math.inf,
        )
        return expired


_length = attrgetter("length")


class _Deadlines(Generic[Item]):
    """Which of the calls that wait has the earliest deadline.

    Most callers allow the same time, so that each deadline is later than the one before: those
    need no more than a queue, a tenth of a heap's price. Only the hastier ones go to a heap.
    """

    def __init__(self) -> None:
        self._in_order: deque[Waiter[Item]] = deque()
        self._hasty: list[tuple[float, int, Waiter[Item]]] = []
        self._order = count()  # of two at the same instant: waiters cannot be compared

    def __len__(self) -> int:
        return len(self._in_order) + len(self._hasty)

    def add(self, waiter: Waiter[Item]) -> None:
        in_order = self._in_order
        if not in_order or in_order[-1].deadline_s <= waiter.deadline_s:
            in_order.append(waiter)
        else:
            heapq.heappush(self._hasty, (waiter.deadline_s, next(self._order), waiter))

    def first(self) -> Waiter[Item] | None:
        """The one whose time ends first; those that no longer wait are forgotten on the way."""
        in_order, hasty = self._in_order, self._hasty
        while in_order and in_order[0].state is not QUEUED:
            in_order.popleft()
        while hasty and hasty[0][2].state is not QUEUED:
            heapq.heappop(hasty)
        if hasty and (not in_order or hasty[0][0] < in_order[0].deadline_s):
            return hasty[0][2]
        return in_order[0] if in_order else None

    def sweep(self) -> None:
        """Forget all that no longer wait."""
        self._in_order = deque(filter(_is_queued, self._in_order))
        self._hasty = [entry for entry in self._hasty if _is_queued(entry[2])]
        heapq.heapify(self._hasty)


class BatchPolicy(Generic[Item]):
    """Who leaves when. Every method that needs the time is told it (seconds, monotonic)."""

    def __init__(self, config: CollectorConfig) -> None:
        self._config = config
        self._max_wait_s = config.max_wait_ms / 1000
        self._least_batch = min(config.worthwhile_batch, config.max_batch)
        self._queue: deque[Waiter[Item]] = deque()
        # The oldest few batches' worth, sorted by length once and used up before the next round:
        # sorting the whole queue again each time would let a long text starve.
        self._round: deque[Waiter[Item]] = deque()
        self._round_arrived_s = math.inf
        self._deadlines: _Deadlines[Item] = _Deadlines()
        self._in_flight: dict[int, Batch[Item]] = {}
        self._items_in_flight = 0
        self._ended_s = -math.inf  # the last batch
        self._answered = 0  # calls of small batches, until the next that tells something
        self._is_closing = False
        self.queued = 0
        self.pacing = Pacing(config.max_in_flight_batches)

    @property
    def in_flight(self) -> int:
        """Batches in flight."""
        return len(self._in_flight)

    @property
    def outstanding(self) -> int:
        """Calls that wait or are in flight."""
        return self.queued + self._items_in_flight

    @property
    def is_idle(self) -> bool:
        """Nothing waits and nothing is in flight."""
        return not self.queued and not self._in_flight

    def offer(self, waiter: Waiter[Item]) -> None:
        """Let a call wait for its batch.

        Raises:
            OverloadedError: `max_queued` calls wait already; nothing was kept.
            ClientClosedError: `close` was called.
        """
        if self._is_closing:
            raise ClientClosedError("the collector is closed")
        if self.queued >= self._config.max_queued:
            raise OverloadedError(
                f"{self.queued} calls are waiting", retry_after_ms=self._backlog_ms()
            )
        self.queued += 1
        self._queue.append(waiter)
        if waiter.deadline_s < math.inf:
            self._deadlines.add(waiter)

    def _sweep_if_worthwhile(self) -> None:
        """Behind one patient call, thousands that gave up would otherwise pile up."""
        if max(len(self._queue), len(self._deadlines)) <= 2 * self.queued + _GONE_KEPT:
            return
        self._queue = deque(filter(_is_queued, self._queue))
        self._deadlines.sweep()

    def _backlog_ms(self) -> float:
        """How long until what waits now will have left."""
        batches = math.ceil(self.queued / self._config.max_batch)
        turns = math.ceil(batches / self.pacing.limit)
        return turns * self.pacing.expected_s(self._config.max_batch) * 1000

    def withdraw(self, waiter: Waiter[Item]) -> None:
        """The caller has gone. If it was queued, another call takes its place in the batch."""
        was_queued, waiter.state = waiter.state is QUEUED, DONE
        if was_queued:
            self.queued -= 1
            self._sweep_if_worthwhile()

    def close(self) -> None:
        """Take no more; let what waits leave without waiting for company."""
        self._is_closing = True

    def abandon(self) -> list[Waiter[Item]]:
        """All calls without an answer, queued or in flight; nothing more will leave."""
        self.close()
        sent = [waiter for batch in self._in_flight.values() for waiter in batch.waiters]
        left = [w for w in (*self._round, *self._queue, *sent) if w.state is not DONE]
        for waiter in left:
            self.withdraw(waiter)
        return left

    def expire(self, now_s: float) -> list[Waiter[Item]]:
        """The calls whose deadline has passed, queued or in flight; each is returned once."""
        expired = []
        while (waiter := self._deadlines.first()) is not None and waiter.deadline_s <= now_s:
            self.withdraw(waiter)
            expired.append(waiter)
        for batch in self._in_flight.values():
            expired += batch.take_expired(now_s)
        return expired

    def _earliest_deadline_s(self) -> float:
        """Of the calls that wait."""
        waiter = self._deadlines.first()
        return math.inf if waiter is None else waiter.deadline_s

    def next_batch(self, now_s: float, *, only_full: bool = False) -> Batch[Item] | None:
        """The batch that must leave now, if there is one. Call until it gives None.

        Args:
            now_s: the time.
            only_full: leave small ones for later, when more calls may have come.
        """
        reason = self._reason_to_leave(now_s)
        if reason is None or (only_full and reason not in ("full", "share")):
            return None
        if not self._in_flight:
            self._tell_of_pause(now_s)
        if reason == "full":
            # Not all: a quarter stays behind, to be sorted with those who come.
            self.pacing.begin_with(math.ceil(self.outstanding // self.max_batch * 3 / 4))
        waiters = self._take(self._target())
        batch = Batch(
            waiters,
            reason,
            now_s,
            overdue_s=now_s + self._patience_s(len(waiters)),
            limit=self.pacing.limit,
        )
        self._in_flight[id(batch)] = batch
        self._items_in_flight += len(waiters)
        return batch

    def _tell_of_pause(self, now_s: float) -> None:
        """Callers that turn round take less time than a batch; a longer pause is want of calls."""
        if now_s - self._ended_s > self.pacing.expected_s(self.queued):
            self.pacing.pause()

    @property
    def max_batch(self) -> int:
        return self._config.max_batch

    def _patience_s(self, size: int) -> float:
        usual_s = self.pacing.expected_s(size)
        # Triton's dynamic batcher may miss the sign that its model is free again; it then looks
        # after half a second, or when the next request comes.
        return max(_OVERDUE * usual_s, _OVERDUE_LEAST_S) if usual_s else _OVERDUE_UNKNOWN_S

    def _has_room(self, now_s: float) -> bool:
        if self.in_flight >= self._config.max_in_flight_batches:
            return False
        on_time = sum(batch.overdue_s > now_s for batch in self._in_flight.values())
        return on_time < self.pacing.limit

    def _reason_to_leave(self, now_s: float) -> str | None:
        if not self.queued or not self._has_room(now_s):
            return None
        target = self._target()
        if self.queued >= target == self.max_batch:
            return "full"
        if not self._in_flight:
            return "idle"
        if self._is_closing:
            return "closing"
        if self.queued >= target:
            return "share"
        if self._oldest_arrived_s() + self._max_wait_s <= now_s:
            return "max_wait"
        return "deadline" if self._must_leave_s() <= now_s else None

    def _target(self) -> int:
        """A fair share of all that is outstanding, if that is worth a call of its own."""
        share = math.ceil(self.outstanding / self.pacing.limit)
        return min(max(share, self._least_batch), self.max_batch)

    def _oldest_arrived_s(self) -> float:
        self._drop_gone(self._round)
        if self._round:
            return self._round_arrived_s
        self._drop_gone(self._queue)
        return self._queue[0].arrived_s if self._queue else math.inf

    @staticmethod
    def _drop_gone(waiters: deque[Waiter[Item]]) -> None:
        while waiters and not _is_queued(waiters[0]):
            waiters.popleft()

    def _must_leave_s(self) -> float:
        return self._earliest_deadline_s() - self.pacing.expected_s(self.queued)

    def _take(self, size: int) -> list[Waiter[Item]]:
        # Few ever go: then nobody need be asked whether they still wait.
        pop = _pop if len(self._queue) + len(self._round) == self.queued else _pop_waiting
        taken = pop(self._round, size)
        if not taken and self.queued > size:
            self._round_arrived_s = self._oldest_arrived_s()
            next_ones = pop(self._queue, size * self._config.sorted_batches)
            self._round.extend(sorted(next_ones, key=_length))
            taken = pop(self._round, size)
        elif len(taken) < size:
            taken += pop(self._queue, size - len(taken))
            taken.sort(key=_length)
        for waiter in taken:
            waiter.state = SENT
        self.queued -= len(taken)
        self._sweep_if_worthwhile()
        return taken

    def wake_s(self, now_s: float) -> float:
        """When to look again if nothing else happens: a wait or a deadline ends. May be inf."""
        wake_s = min(
            (batch.next_deadline_s for batch in self._in_flight.values()), default=math.inf
        )
        if not self.queued:
            return wake_s
        wake_s = min(wake_s, self._earliest_deadline_s())
        if not self._has_room(now_s):
            return min(wake_s, self._next_overdue_s(now_s))
        return min(wake_s, self._oldest_arrived_s() + self._max_wait_s, self._must_leave_s())

    def _next_overdue_s(self, now_s: float) -> float:
        if self.in_flight >= self._config.max_in_flight_batches:
            return math.inf
        ends_s = (batch.overdue_s for batch in self._in_flight.values())
        return min((end_s for end_s in ends_s if end_s > now_s), default=math.inf)

    def succeeded(self, batch: Batch[Item], now_s: float) -> None:
        """The servers have answered."""
        self.pacing.succeeded(len(batch.waiters), now_s - batch.sent_s)
        self._ended_s = now_s
        self._answered += len(batch.waiters)
        if len(batch.waiters) >= self._least_batch:  # with fewer there is nothing to split
            was_full = batch.reason == "full"
            self.pacing.observe(batch.limit, now_s, self._answered, was_full=was_full)
            self._answered = 0
        self._forget(batch)

    def failed(self, batch: Batch[Item], *, is_overload: bool) -> None:
        """The batch as a whole has failed."""
        self.pacing.failed(is_overload=is_overload)
        self._forget(batch)

    def _forget(self, batch: Batch[Item]) -> None:
        del self._in_flight[id(batch)]
        self._items_in_flight -= len(batch.waiters)


def _is_queued(waiter: Waiter[Item]) -> bool:
    return waiter.state is QUEUED


def _pop(source: deque[Waiter[Item]], most: int) -> list[Waiter[Item]]:
    """The oldest."""
    if len(source) <= most:
        oldest = list(source)
        source.clear()
        return oldest
    return [source.popleft() for _ in range(most)]


def _pop_waiting(source: deque[Waiter[Item]], most: int) -> list[Waiter[Item]]:
    """The oldest that still wait; those that have gone are dropped on the way."""
    waiting: list[Waiter[Item]] = []
    while source and len(waiting) < most:
        waiting += filter(_is_queued, _pop(source, most - len(waiting)))
    return waiting
