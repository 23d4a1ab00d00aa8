"""Group commit: requests that arrive while a transaction is in flight share the next one.

Alone, a message goes at once and pays for its own transaction. Under load one thread hop, one
transaction and one fsync serve as many requests as came in meanwhile, so the cost a message falls
as the load rises.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from django.db import DataError

from apps.api.problems import OVERLOADED, Problem
from apps.chat.services import Ingested, NewMessage

Store = Callable[[list[NewMessage]], Awaitable[list[Ingested]]]


@dataclass(frozen=True, slots=True)
class CollectorLimits:
    """`waiting_messages` bounds memory: beyond it, callers are told to come back."""

    batch_messages: int = 1_000
    waiting_messages: int = 20_000
    batches_in_flight: int = 2
    wait_s: float = 8.0


@dataclass(slots=True)
class _Job:
    messages: Sequence[NewMessage]
    done: asyncio.Future[list[Ingested]]


class IngestCollector:
    """Merges the messages of concurrent requests into few calls of `store`.

    Belongs to one event loop. Every job is answered: with what was stored, or with a Problem.
    """

    def __init__(self, store: Store, limits: CollectorLimits | None = None) -> None:
        self._store = store
        self._limits = limits or CollectorLimits()
        self._waiting: deque[_Job] = deque()
        self._waiting_messages = 0
        self._in_flight: set[asyncio.Task[None]] = set()
        self._is_closing = False

    async def submit(self, messages: Sequence[NewMessage]) -> list[Ingested]:
        """Store `messages` and answer in their order.

        Raises Problem (503) when the queue is full or closing, and when the wait was too long:
        then the messages may be stored or not, and sending them again settles it.
        """
        if self._is_closing:
            raise _come_back("This process is stopping.")
        if self._waiting_messages + len(messages) > self._limits.waiting_messages:
            raise _come_back("More messages arrive than the database takes.")
        loop = asyncio.get_running_loop()
        job = _Job(messages, loop.create_future())
        self._waiting.append(job)
        self._waiting_messages += len(messages)
        self._start_batches()
        # A tenth of what wait_for costs.
        timer = loop.call_later(
            self._limits.wait_s, _fail, job, _come_back("The database takes too long.")
        )
        try:
            return await job.done
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Refuse new messages, and return once all that were accepted are answered."""
        self._is_closing = True
        while self._in_flight:
            # Not gather: of tasks that are done it returns at once, before they are taken out.
            await asyncio.wait(self._in_flight)

    def _start_batches(self) -> None:
        while self._waiting and len(self._in_flight) < self._limits.batches_in_flight:
            jobs = self._take_batch()
            if jobs:
                task = asyncio.create_task(self._settle(jobs))
                self._in_flight.add(task)
                task.add_done_callback(self._batch_ended)

    def _batch_ended(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._start_batches()

    def _take_batch(self) -> list[_Job]:
        """The jobs that waited longest, as many as fit; at least one, whatever its size."""
        jobs: list[_Job] = []
        size = 0
        while self._waiting:
            if jobs and size + len(self._waiting[0].messages) > self._limits.batch_messages:
                break
            job = self._waiting.popleft()
            self._waiting_messages -= len(job.messages)
            # Nobody waits for it any more, and it is not begun.
            if not job.done.done():
                jobs.append(job)
                size += len(job.messages)
        return jobs

    async def _settle(self, jobs: list[_Job]) -> None:
        try:
            stored = await self._store([m for job in jobs for m in job.messages])
        except DataError as error:
            await self._settle_alone(jobs, error)
        except Exception as error:  # noqa: BLE001 each waiter gets it, and the edge logs it
            for job in jobs:
                _fail(job, error)
        else:
            first = 0
            for job in jobs:
                last = first + len(job.messages)
                if not job.done.done():
                    job.done.set_result(stored[first:last])
                first = last

    async def _settle_alone(self, jobs: list[_Job], error: DataError) -> None:
        """PostgreSQL refuses some value: only the request that brought it shall feel it."""
        if len(jobs) == 1:
            _fail(jobs[0], error)
            return
        for job in jobs:
            await self._settle([job])


def _fail(job: _Job, error: Exception) -> None:
    if not job.done.done():
        job.done.set_exception(error)


def _come_back(why: str) -> Problem:
    return Problem(
        OVERLOADED,
        f"{why} Send the same request again after Retry-After seconds: it takes effect once.",
    )
