"""Single calls become batches, without a lone call ever waiting for company.

`batching.BatchPolicy` decides who leaves when; this is the asyncio shell round it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

from inference.batching import DONE, Batch, BatchPolicy, Item, Waiter
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

__all__ = ["Collector"]

Result = TypeVar("Result")


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
        self._has_callers_to_run = False
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
        loop = self._loop
        if loop is None or not self._is_look_planned:
            loop = self._look_soon()
        future: asyncio.Future[Result] = loop.create_future()
        deadline_s = math.inf if deadline is None else deadline.at_s
        waiter = Waiter(item, self._length(item), time.monotonic(), deadline_s, future)
        try:
            self._policy.offer(waiter)
        except OverloadedError:
            self._count("collector_refused")
            raise
        try:
            return await future
        except asyncio.CancelledError:
            self._policy.withdraw(waiter)
            raise

    def _look_soon(self) -> asyncio.AbstractEventLoop:
        """Decide after all that is ready to run has run: calls made together leave together."""
        if self._is_look_planned:
            return self._the_loop
        # Only now: asking which loop runs is a system call before Python 3.12.
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise RuntimeError("a Collector belongs to the event loop that used it first")
        self._loop = loop
        self._is_look_planned = True
        loop.call_soon(self._look)
        return loop

    def _look(self) -> None:
        if self._has_callers_to_run:
            # Another batch ended after this look was planned; its callers run next. Without their
            # next calls, half a crowd would be split as if it were all.
            self._has_callers_to_run = False
            self._the_loop.call_soon(self._look)
            return
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
        if expired:
            self._count("collector_expired", len(expired))

    def _count(self, name: str, calls: int = 1) -> None:
        if self._stats is not None:
            self._stats.count(name, calls)

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
            _answer(batch, results)
            self._look_after_callers()

    def _settle(self, batch: Batch[Item], error: Exception) -> None:
        is_overload = isinstance(error, InferenceError) and error.is_overload
        self._policy.failed(batch, is_overload=is_overload)
        for waiter in batch.waiters:
            _fail(waiter, error)
        self._look_after_callers()

    def _look_after_callers(self) -> None:
        """Decide once those who were just answered have made their next calls."""
        self._has_callers_to_run = self._is_look_planned
        self._look_soon()

    def _tell(self, batch: Batch[Item]) -> None:
        size = len(batch.waiters)
        if self._stats is not None:
            self._stats.record_many(Stage.QUEUE, batch.waits_ms)
            self._stats.count("collector_calls", size)
            self._stats.count("collector_batches")
        if self._on_batch is not None:
            self._on_batch(
                BatchEvent(
                    size=size,
                    wait_ms=max(batch.waits_ms),
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


def _answer(batch: Batch[Item], results: Sequence[object]) -> None:
    """Once for each call of a batch, so nothing here is a call of its own that need not be."""
    for waiter, result in zip(batch.waiters, results, strict=True):
        ticket = waiter.ticket
        if ticket is None or ticket.done():
            continue  # cancelled, or out of time
        waiter.state = DONE
        if isinstance(result, BaseException):
            ticket.set_exception(result)
        else:
            ticket.set_result(result)


def _fail(waiter: Waiter[Item], error: BaseException) -> None:
    waiter.state = DONE
    if waiter.ticket is not None and not waiter.ticket.done():
        waiter.ticket.set_exception(error)
