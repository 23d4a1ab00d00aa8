"""Single calls become batches, without a lone call ever waiting for company.

Two parts. `BatchPolicy` decides and does nothing else: it reads no clock and knows no event loop,
so its promises are property-tested with a clock of the test's own. `Collector` is the asyncio
shell round it. When a batch leaves:

- nothing is in flight: at once (`idle`);
- otherwise when as many wait as fit (`full`), or as its fair share of all that is outstanding
  (`share`): calls that return together would else travel as one herd, with the server idle while
  they turn round. Whether that pays depends on how parallel the servers are: `Formation` tries;
- or the oldest has waited `max_wait_ms` (`max_wait`), or the earliest deadline leaves just the
  time a batch takes (`deadline`), or the collector is closing (`closing`).

None leaves while as many batches are in flight as `InFlightLimit` allows; it follows the measured
latency. One that is long overdue no longer counts, so that a frozen replica can't hold up what goes
to the others. A call waits longer than `max_wait_ms` only when the servers are busy, and never
beyond its deadline.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import statistics
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence, Sized
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count, islice
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from inference.config import CollectorConfig
from inference.deadline import Deadline
from inference.errors import (
    BadResponseError,
    ClientClosedError,
    DeadlineExceededError,
    InferenceError,
    OverloadedError,
)
from inference.hooks import BatchEvent, Hooks
from inference.stats import Stage, StageStats

__all__ = ["Batch", "BatchPolicy", "Collector", "Formation", "InFlightLimit", "Waiter"]

Item = TypeVar("Item", bound=Sized)
Result = TypeVar("Result")

_SMOOTHING = 0.1  # weight of the newest latency in a moving average
_BASELINE_RISE, _BASELINE_FALL = 0.2, 0.5  # lone batches are rare under load: trust each more
_OVERDUE = 3  # times the usual latency
_OVERDUE_LEAST_S, _OVERDUE_UNKNOWN_S = 0.02, 0.1
_HARMFUL = 0.8  # several at once do less than this share of what one at a time does
_ALONE_FIRST, _ALONE_LONGEST = 20, 640  # batches one at a time before several are tried again
_PROBE_EVERY = 500  # batches; one of them alone costs well under 1 %
_PROBE_PAUSE = 20  # batches between probes for size classes not measured yet
_GONE_KEPT = 1024  # cancelled calls that may lie about before the queue is swept


class _State(Enum):
    QUEUED = auto()
    SENT = auto()
    DONE = auto()


@dataclass(slots=True, eq=False)
class Waiter(Generic[Item]):
    """One call. `ticket` is whatever the shell needs to answer it (here: a future)."""

    item: Item
    length: int
    arrived_s: float
    deadline_s: float
    ticket: asyncio.Future[Any] | None = None
    state: _State = _State.QUEUED


@dataclass(slots=True, eq=False)
class Batch(Generic[Item]):
    """What leaves together, sorted by length, so that the server pads little."""

    waiters: list[Waiter[Item]]
    reason: str
    sent_s: float
    in_flight: int  # batches in flight when it left, itself included
    is_alone: bool  # until another one leaves beside it
    overdue_s: float = math.inf  # from then on it holds up nobody
    outstanding: int = 1  # calls, when it left
    is_apart: bool = False  # the formation then
    next_deadline_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.next_deadline_s = min(waiter.deadline_s for waiter in self.waiters)

    @property
    def deadline_s(self) -> float:
        """The latest of its calls': a hasty one must not end the call of the others."""
        return max(waiter.deadline_s for waiter in self.waiters)

    @property
    def oldest_wait_s(self) -> float:
        return self.sent_s - min(waiter.arrived_s for waiter in self.waiters)

    def mean_age_s(self, now_s: float) -> float:
        """How long ago its calls arrived."""
        return now_s - statistics.fmean(waiter.arrived_s for waiter in self.waiters)

    def take_expired(self, now_s: float) -> list[Waiter[Item]]:
        if self.next_deadline_s > now_s:
            return []
        waiting = [waiter for waiter in self.waiters if waiter.state is _State.SENT]
        expired = [waiter for waiter in waiting if waiter.deadline_s <= now_s]
        for waiter in expired:
            waiter.state = _State.DONE
        self.next_deadline_s = min(
            (waiter.deadline_s for waiter in waiting if waiter.deadline_s > now_s),
            default=math.inf,
        )
        return expired


class InFlightLimit:
    """How many batches may be in flight: as many as the servers work on, and one or two more.

    TCP Vegas' reasoning. A batch that travels alone shows what its size takes on idle servers.
    When `n` are in flight and take longer than that, `n * (1 - alone / latency)` of them are
    waiting rather than worked on. With less than one waiting a server may run dry while answers
    travel, so one more is let out; with more than two, waiting only adds latency. Latencies
    compare within one size class (powers of two). Under steady load nothing travels alone, so
    now and then one is made to.
    """

    def __init__(self, ceiling: int, *, first: int = 2) -> None:
        self._ceiling = ceiling
        self._limit = min(first, ceiling)
        self._alone_s: dict[int, float] = {}
        self._latency_s: dict[int, float] = {}
        self._waiting: list[float] = []
        self._at_work: list[float] = []
        self._since_alone = 0
        self._probing = False
        self._alone_run = 0
        self._alone_until = _ALONE_FIRST

    @property
    def usual(self) -> int:
        """The limit, but for the moments when a batch is made to travel alone."""
        return self._limit

    @property
    def current(self) -> int:
        """The limit now."""
        return 1 if self._probing else self._limit

    def expected_s(self, size: int) -> float:
        """What a batch of this size takes at present; 0 before anything was measured."""
        latency_s = self._latency_s.get(size.bit_length())
        if latency_s is not None:
            return latency_s
        return max(self._latency_s.values(), default=0.0)

    def succeeded(
        self, size: int, latency_s: float, *, in_flight: int, was_alone: bool, has_more: bool
    ) -> None:
        """Learn from one batch. `has_more`: another one was held back by the limit."""
        size_class = size.bit_length()
        _follow(self._latency_s, size_class, latency_s, _SMOOTHING)
        if was_alone:
            self._alone_s[size_class] = self._baseline(size_class, latency_s)
            self._since_alone = 0
            self._probing = False
            self._try_more(has_more)
            return
        self._since_alone += 1
        alone_s = self._alone_s.get(size_class)
        pause = _PROBE_PAUSE if alone_s is None else _PROBE_EVERY
        if has_more and self._since_alone >= pause:
            self._probing = True
        elif alone_s is not None:
            is_slower = latency_s > alone_s
            self._adjust(
                in_flight, in_flight * (1 - alone_s / latency_s) if is_slower else 0.0, has_more
            )

    def _try_more(self, has_more: bool) -> None:
        """One at a time nothing is learnt about two: so they are tried, ever more rarely."""
        if self._limit > 1 or not has_more:
            return
        self._alone_run += 1
        if self._alone_run >= self._alone_until:
            self._alone_run = 0
            self._limit = min(2, self._ceiling)

    def _baseline(self, size_class: int, latency_s: float) -> float:
        known_s = self._alone_s.get(size_class, latency_s)
        weight = _BASELINE_RISE if latency_s > known_s else _BASELINE_FALL
        return known_s + weight * (min(latency_s, 2 * known_s) - known_s)

    def _adjust(self, in_flight: int, waiting: float, has_more: bool) -> None:
        self._waiting.append(waiting)
        self._at_work.append(in_flight - waiting)
        if len(self._waiting) < 2 * self._limit:  # let a change show before the next one
            return
        waiting, at_work = statistics.median(self._waiting), statistics.median(self._at_work)
        self._waiting.clear()
        self._at_work.clear()
        if at_work < _HARMFUL:
            # As on a machine whose processors others want: several only push each other out.
            self._limit = 1
            self._alone_until = min(2 * self._alone_until, _ALONE_LONGEST)
        elif waiting > 2:
            # Not to one: the servers would idle while its callers turn round.
            self._limit = max(min(2, self._limit), self._limit - 1)
        elif waiting < 1 and has_more:
            self._limit = min(self._ceiling, self._limit + 1)
            self._alone_until = _ALONE_FIRST

    def failed(self, *, is_overload: bool) -> None:
        """A batch failed. Overload halves the limit; other failures say nothing about it."""
        self._probing = False
        self._waiting.clear()
        self._at_work.clear()
        if is_overload:
            self._limit = max(1, self._limit // 2)


class Formation:
    """Whether a crowd that fits one batch travels apart, in several at once, or together.

    Apart, servers work in parallel and never wait for callers to turn round; together, the fixed
    costs of a call are paid once. Which is quicker differs by server and by hour, so both are
    tried: mostly the better one runs, now and then the other for a few batches. What counts is
    the mean time from a call's arrival to its answer over the number of calls outstanding: by
    Little's law that is the inverse of the throughput, at any load.
    """

    _TRIAL = 12  # batches
    _SETTLING = 4  # batches that a change of formation distorts
    _RUN, _LONGEST_RUN = 60, 960
    _BETTER = 0.95

    def __init__(self) -> None:
        self.is_apart = True
        self._best = True
        self._known_s: dict[bool, float] = {}
        self._paces_s: list[float] = []
        self._ignored = 0
        self._run = self._RUN

    def observe(self, was_apart: bool, pace_s: float) -> None:
        """Learn from a batch: seconds from arrival to answer, per call outstanding."""
        if was_apart is not self.is_apart:
            return
        self._ignored += 1
        if self._ignored <= self._SETTLING:
            return
        self._paces_s.append(pace_s)
        is_trial = len(self._known_s) < 2 or self.is_apart is not self._best
        if len(self._paces_s) >= (self._TRIAL if is_trial else self._run):
            self._judge()

    def _judge(self) -> None:
        # The median: one stalled batch says nothing about a formation.
        self._known_s[self.is_apart] = statistics.median(self._paces_s)
        self._paces_s.clear()
        self._ignored = 0
        other_s = self._known_s.get(not self.is_apart)
        if other_s is None or self.is_apart is self._best:
            self.is_apart = not self.is_apart
        elif self._known_s[self.is_apart] < self._BETTER * other_s:
            self._best = self.is_apart
            self._run = self._RUN
        else:
            self.is_apart = self._best
            self._run = min(2 * self._run, self._LONGEST_RUN)


def _follow(averages: dict[int, float], key: int, value: float, weight: float) -> None:
    """A moving average that one stalled batch moves by a tenth at most."""
    known = averages.get(key)
    averages[key] = value if known is None else known + weight * (min(value, 2 * known) - known)


class BatchPolicy(Generic[Item]):
    """Who leaves when. Every method that needs the time is told it (seconds, monotonic)."""

    def __init__(self, config: CollectorConfig) -> None:
        self._config = config
        self._max_wait_s = config.max_wait_ms / 1000
        self._queue: deque[Waiter[Item]] = deque()
        # The oldest few batches' worth, sorted by length once and used up before the next round:
        # sorting the whole queue again each time would let a long text starve.
        self._round: deque[Waiter[Item]] = deque()
        self._round_arrived_s = math.inf
        self._deadlines: list[tuple[float, int, Waiter[Item]]] = []
        self._order = count()
        self._in_flight: dict[int, Batch[Item]] = {}
        self._items_in_flight = 0
        self._is_closing = False
        self.queued = 0
        self.limit = InFlightLimit(config.max_in_flight_batches)
        self.formation = Formation()

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
            heapq.heappush(self._deadlines, (waiter.deadline_s, next(self._order), waiter))
        if max(len(self._queue), len(self._deadlines)) > 2 * self.queued + _GONE_KEPT:
            self._sweep()

    def _sweep(self) -> None:
        """Behind one patient call, thousands that gave up would otherwise pile up."""
        self._queue = deque(filter(_is_queued, self._queue))
        self._deadlines = [entry for entry in self._deadlines if _is_queued(entry[2])]
        heapq.heapify(self._deadlines)

    def _backlog_ms(self) -> float:
        """How long until what waits now will have left."""
        batches = math.ceil(self.queued / self._config.max_batch)
        turns = math.ceil(batches / self.limit.usual)
        return turns * self.limit.expected_s(self._config.max_batch) * 1000

    def withdraw(self, waiter: Waiter[Item]) -> None:
        """The caller has gone. If it was queued, another call takes its place in the batch."""
        if waiter.state is _State.QUEUED:
            self.queued -= 1
        waiter.state = _State.DONE

    def close(self) -> None:
        """Take no more; let what waits leave without waiting for company."""
        self._is_closing = True

    def abandon(self) -> list[Waiter[Item]]:
        """All calls without an answer, queued or in flight; nothing more will leave."""
        self.close()
        sent = [waiter for batch in self._in_flight.values() for waiter in batch.waiters]
        left = [w for w in (*self._round, *self._queue, *sent) if w.state is not _State.DONE]
        for waiter in left:
            self.withdraw(waiter)
        return left

    def expire(self, now_s: float) -> list[Waiter[Item]]:
        """The calls whose deadline has passed, queued or in flight; each is returned once."""
        expired = []
        while (deadline_s := self._earliest_deadline_s()) <= now_s and deadline_s < math.inf:
            waiter = heapq.heappop(self._deadlines)[2]
            self.withdraw(waiter)
            expired.append(waiter)
        for batch in self._in_flight.values():
            expired += batch.take_expired(now_s)
        return expired

    def _earliest_deadline_s(self) -> float:
        """Of the calls that wait."""
        while self._deadlines and not _is_queued(self._deadlines[0][2]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else math.inf

    def next_batch(self, now_s: float, *, only_full: bool = False) -> Batch[Item] | None:
        """The batch that must leave now, if there is one. Call until it gives None.

        Args:
            now_s: the time.
            only_full: leave small ones for later, when more calls may have come.
        """
        reason = self._reason_to_leave(now_s)
        if reason is None or (only_full and reason not in ("full", "share")):
            return None
        waiters = self._take(self._target() if reason in ("idle", "share") else self.max_batch)
        for batch in self._in_flight.values():
            batch.is_alone = False
        batch = Batch(
            waiters,
            reason,
            now_s,
            self.in_flight + 1,
            is_alone=not self._in_flight,
            overdue_s=now_s + self._patience_s(len(waiters)),
            outstanding=self.outstanding + len(waiters),
            is_apart=self.formation.is_apart,
        )
        self._in_flight[id(batch)] = batch
        self._items_in_flight += len(waiters)
        return batch

    @property
    def max_batch(self) -> int:
        return self._config.max_batch

    def _patience_s(self, size: int) -> float:
        usual_s = self.limit.expected_s(size)
        # Triton's dynamic batcher may miss the sign that its model is free again; it then looks
        # after half a second, or when the next request comes.
        return max(_OVERDUE * usual_s, _OVERDUE_LEAST_S) if usual_s else _OVERDUE_UNKNOWN_S

    def _has_room(self, now_s: float) -> bool:
        if self.in_flight >= self._config.max_in_flight_batches:
            return False
        on_time = sum(batch.overdue_s > now_s for batch in self._in_flight.values())
        return on_time < self.limit.current

    def _reason_to_leave(self, now_s: float) -> str | None:
        if not self.queued or not self._has_room(now_s):
            return None
        if self.queued >= self.max_batch:
            return "full"
        if not self._in_flight:
            return "idle"
        if self._is_closing:
            return "closing"
        if self.queued >= self._target():
            return "share"
        if self._oldest_arrived_s() + self._max_wait_s <= now_s:
            return "max_wait"
        return "deadline" if self._must_leave_s() <= now_s else None

    def _target(self) -> int:
        """A fair share of all that is outstanding, if that is worth a call of its own."""
        parts = self.limit.usual if self.formation.is_apart else 1
        share = math.ceil(self.outstanding / parts)
        return min(max(share, self._config.worthwhile_batch), self.max_batch)

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
        return self._earliest_deadline_s() - self.limit.expected_s(self.queued)

    def _take(self, size: int) -> list[Waiter[Item]]:
        taken = self._take_from(self._round, size)
        if len(taken) < size:
            if not taken and self.queued > size:
                self._start_round(size)
                taken = self._take_from(self._round, size)
            else:
                taken += self._take_from(self._queue, size - len(taken))
                taken.sort(key=_length)
        return taken

    def _take_from(self, source: deque[Waiter[Item]], size: int) -> list[Waiter[Item]]:
        taken: list[Waiter[Item]] = []
        while source and len(taken) < size:
            waiter = source.popleft()
            if _is_queued(waiter):
                waiter.state = _State.SENT
                taken.append(waiter)
        self.queued -= len(taken)
        return taken

    def _start_round(self, size: int) -> None:
        self._round_arrived_s = self._oldest_arrived_s()
        live = filter(_is_queued, _drain(self._queue))
        self._round.extend(sorted(islice(live, size * self._config.sorted_batches), key=_length))

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
        if self._can_be_parted(batch.outstanding):
            self.formation.observe(batch.is_apart, batch.mean_age_s(now_s) / batch.outstanding)
        self.limit.succeeded(
            len(batch.waiters),
            now_s - batch.sent_s,
            in_flight=batch.in_flight,
            was_alone=batch.is_alone,
            has_more=self.queued >= self._target(),
        )
        self._forget(batch)

    def _can_be_parted(self, outstanding: int) -> bool:
        """Whether the two formations differ: else there is nothing to learn."""
        least, most = 2 * self._config.worthwhile_batch, self.limit.usual * self.max_batch
        return least <= outstanding < most

    def failed(self, batch: Batch[Item], *, is_overload: bool) -> None:
        """The batch as a whole has failed."""
        self.limit.failed(is_overload=is_overload)
        self._forget(batch)

    def _forget(self, batch: Batch[Item]) -> None:
        del self._in_flight[id(batch)]
        self._items_in_flight -= len(batch.waiters)


def _length(waiter: Waiter[Item]) -> int:
    return waiter.length


def _is_queued(waiter: Waiter[Item]) -> bool:
    return waiter.state is _State.QUEUED


def _drain(waiters: deque[Waiter[Item]]) -> Iterable[Waiter[Item]]:
    while waiters:
        yield waiters.popleft()


class Collector(Generic[Item, Result]):
    """Answers single calls by batches, in one event loop.

    Example:
        async with Collector(send, config) as collector:
            result = await collector.submit("text", deadline=Deadline.after(0.03))

    Args:
        send: takes the items of one batch and the batch's deadline (the latest of its calls') and
            returns as many results, in order. A result that is an exception is raised for its
            call only. If `send` itself raises, each call of that batch gets that exception.
        config: sizes and times.
        length: what batches are sorted by.
        hooks: `on_batch` is told of every batch that leaves.
        stats: how long calls waited goes to `Stage.QUEUE`; counters `collector_calls`,
            `collector_batches`, `collector_refused`, `collector_expired`.
    """

    def __init__(
        self,
        send: Callable[[list[Item], Deadline], Awaitable[Sequence[Result | BaseException]]],
        config: CollectorConfig | None = None,
        *,
        length: Callable[[Item], int] = len,
        hooks: Hooks | None = None,
        stats: StageStats | None = None,
    ) -> None:
        self._send = send
        self._policy: BatchPolicy[Item] = BatchPolicy(config or CollectorConfig())
        self._length = length
        self._on_batch = hooks.on_batch if hooks else None
        self._stats = stats
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._wake_s = math.inf
        self._is_look_planned = False
        self._drained = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    @property
    def queued(self) -> int:
        """Calls that wait for their batch to leave."""
        return self._policy.queued

    @property
    def in_flight(self) -> int:
        """Batches on their way."""
        return self._policy.in_flight

    async def submit(self, item: Item, *, deadline: Deadline | None = None) -> Result:
        """Have one item judged as part of a batch.

        Cancelling the caller frees its place in a batch that has not left. One that has left goes
        on for the others.

        Args:
            item: what `send` takes a list of.
            deadline: by when the answer is wanted; None waits as long as `send` does.

        Returns:
            What `send` returned for this item.

        Raises:
            OverloadedError: too many calls wait; `retry_after_ms` says how long they will take.
            DeadlineExceededError: no answer in time.
            ClientClosedError: the collector is closed.
            Exception: whatever `send` raised, or returned for this item.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._bind(loop)
        future: asyncio.Future[Result] = loop.create_future()
        deadline_s = math.inf if deadline is None else deadline.at_s
        waiter = Waiter(item, self._length(item), time.monotonic(), deadline_s, future)
        self._offer(waiter)
        try:
            return await future
        except asyncio.CancelledError:
            self._policy.withdraw(waiter)
            raise

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not None:
            raise RuntimeError("a Collector belongs to the event loop that used it first")
        self._loop = loop

    def _offer(self, waiter: Waiter[Item]) -> None:
        try:
            self._policy.offer(waiter)
        except OverloadedError:
            if self._stats is not None:
                self._stats.count("collector_refused")
            raise
        self._look_soon()

    def _look_soon(self) -> None:
        """Decide after all that is ready to run has run: calls made together leave together."""
        if not self._is_look_planned and self._loop is not None:
            self._is_look_planned = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._is_look_planned = False
        # Not the loop's clock: uvloop's counts in milliseconds.
        now_s = time.monotonic()
        self._fail_expired(now_s)
        self._send_due(now_s)
        self._set_timer(self._policy.wake_s(now_s), now_s)
        if self._policy.is_idle:
            self._drained.set()

    @property
    def _the_loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "nothing is planned before the first call"
        return self._loop

    def _send_due(self, now_s: float, *, only_full: bool = False) -> None:
        while batch := self._policy.next_batch(now_s, only_full=only_full):
            task = self._the_loop.create_task(self._run(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self._tell(batch)

    def _set_timer(self, wake_s: float, now_s: float) -> None:
        if self._wake_s <= wake_s:
            return  # looking once too early is cheaper than a new timer for every call
        if self._timer is not None:
            self._timer.cancel()
        self._wake_s = wake_s
        self._timer = self._the_loop.call_later(max(0.0, wake_s - now_s), self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._wake_s = None, math.inf
        self._look()

    def _fail_expired(self, now_s: float) -> None:
        expired = self._policy.expire(now_s)
        for waiter in expired:
            _fail(waiter, DeadlineExceededError("no answer before the call's deadline"))
        if expired and self._stats is not None:
            self._stats.count("collector_expired", len(expired))

    async def _run(self, batch: Batch[Item]) -> None:
        items = [waiter.item for waiter in batch.waiters]
        try:
            results = await self._send(items, Deadline(batch.deadline_s))
            if len(results) != len(batch.waiters):
                raise BadResponseError(f"{len(results)} results for {len(batch.waiters)} items")
        except asyncio.CancelledError:
            # `aclose` gave up, or the loop is being shut down.
            self._settle(batch, ClientClosedError("the collector was closed"))
            raise
        except Exception as error:  # noqa: BLE001  not swallowed: each caller gets it
            self._settle(batch, error)
        else:
            now_s = time.monotonic()
            self._policy.succeeded(batch, now_s)
            # What is full already need not wait for the callers below to run.
            self._send_due(now_s, only_full=True)
            for waiter, result in zip(batch.waiters, results, strict=True):
                _answer(waiter, result)
            self._look_soon()

    def _settle(self, batch: Batch[Item], error: Exception) -> None:
        is_overload = isinstance(error, InferenceError) and error.is_overload
        self._policy.failed(batch, is_overload=is_overload)
        for waiter in batch.waiters:
            _fail(waiter, error)
        self._look_soon()

    def _tell(self, batch: Batch[Item]) -> None:
        size = len(batch.waiters)
        if self._stats is not None:
            waits_ms = [(batch.sent_s - waiter.arrived_s) * 1000 for waiter in batch.waiters]
            self._stats.record_many(Stage.QUEUE, waits_ms)
            self._stats.count("collector_calls", size)
            self._stats.count("collector_batches")
        if self._on_batch is not None:
            self._on_batch(
                BatchEvent(
                    size=size,
                    wait_ms=batch.oldest_wait_s * 1000,
                    reason=batch.reason,
                    in_flight=self._policy.in_flight,
                    queued=self._policy.queued,
                )
            )

    async def aclose(self, drain: Deadline | None = None) -> None:
        """Take no more calls, answer those that wait, then return.

        Args:
            drain: until when to wait for them; those left over then get `ClientClosedError`.
        """
        self._policy.close()
        if self._loop is None:
            return
        self._drained.clear()
        self._look_soon()
        left_s = math.inf if drain is None else drain.remaining_s()
        try:
            async with asyncio.timeout(left_s if left_s < math.inf else None):
                await self._drained.wait()
        except TimeoutError:
            await self._give_up()
        finally:
            if self._timer is not None:
                self._timer.cancel()

    async def _give_up(self) -> None:
        closed = ClientClosedError("the collector was closed before this call could leave")
        for waiter in self._policy.abandon():
            _fail(waiter, closed)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _answer(waiter: Waiter[Item], result: object) -> None:
    if isinstance(result, BaseException):
        _fail(waiter, result)
    elif waiter.ticket is not None and not waiter.ticket.done():
        waiter.state = _State.DONE
        waiter.ticket.set_result(result)


def _fail(waiter: Waiter[Item], error: BaseException) -> None:
    waiter.state = _State.DONE
    if waiter.ticket is not None and not waiter.ticket.done():
        waiter.ticket.set_exception(error)
