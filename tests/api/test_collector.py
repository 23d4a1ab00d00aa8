"""Group commit: every job answered once, few calls, bounded queue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.db import DataError
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.api.collector import CollectorLimits, IngestCollector
from apps.api.problems import OVERLOADED, Problem
from apps.chat.services import Ingested, NewMessage, Outcome


def message(number: int, text: str = "x") -> NewMessage:
    return NewMessage(group="g", external_id=str(number), sender="s", text=text)


class Store:
    """Stands where the database is: remembers its calls, waits while it is held."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.in_flight = self.most_in_flight = 0
        self.may_go = asyncio.Event()
        self.may_go.set()

    async def __call__(self, messages: list[NewMessage]) -> list[Ingested]:
        self.calls.append([int(m.external_id) for m in messages])
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await self.may_go.wait()
        self.in_flight -= 1
        if any(m.text == "refused" for m in messages):
            raise DataError
        if any(m.text == "broken" for m in messages):
            raise ZeroDivisionError
        return [Ingested(int(m.external_id), Outcome.NEW, is_deleted=False) for m in messages]


def ids(stored: list[Ingested]) -> list[int]:
    return [one.id for one in stored]


async def started(tasks: list[asyncio.Task[Any]]) -> None:
    """Lets each task run up to its first wait."""
    for _ in tasks:
        await asyncio.sleep(0)


async def test_a_lone_message_goes_at_once() -> None:
    store = Store()
    collector = IngestCollector(store)
    assert ids(await collector.submit([message(1)])) == [1]
    assert store.calls == [[1]]


async def test_what_comes_while_calls_are_in_flight_shares_the_next() -> None:
    store = Store()
    store.may_go.clear()
    collector = IngestCollector(store, CollectorLimits(batches_in_flight=1))
    tasks = [asyncio.create_task(collector.submit([message(n)])) for n in range(50)]
    await started(tasks)
    store.may_go.set()

    assert [ids(stored) for stored in await asyncio.gather(*tasks)] == [[n] for n in range(50)]
    assert [len(call) for call in store.calls] == [1, 49]


async def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    store = Store()
    store.may_go.clear()
    collector = IngestCollector(store, CollectorLimits(waiting_messages=3, batches_in_flight=1))
    tasks = [asyncio.create_task(collector.submit([message(n)])) for n in range(4)]
    await started(tasks)

    with pytest.raises(Problem) as refused:
        await collector.submit([message(9)])

    assert refused.value.kind is OVERLOADED
    assert (b"retry-after", b"1") in refused.value.headers
    store.may_go.set()
    await asyncio.gather(*tasks)
    assert ids(await collector.submit([message(10)])) == [10]


async def test_closing_answers_what_was_accepted_and_refuses_the_rest() -> None:
    store = Store()
    store.may_go.clear()
    collector = IngestCollector(store, CollectorLimits(batches_in_flight=1, batch_messages=2))
    tasks = [asyncio.create_task(collector.submit([message(n)])) for n in range(7)]
    await started(tasks)
    closing = asyncio.create_task(collector.close())
    await asyncio.sleep(0)

    with pytest.raises(Problem):
        await collector.submit([message(9)])
    store.may_go.set()
    await closing

    assert all(task.done() for task in tasks)
    assert [task.result()[0].id for task in tasks] == list(range(7))


async def test_a_request_that_postgresql_refuses_hurts_no_other() -> None:
    store = Store()
    store.may_go.clear()
    collector = IngestCollector(store, CollectorLimits(batches_in_flight=1))
    texts = ["x", "x", "refused", "x"]
    tasks = [asyncio.create_task(collector.submit([message(n, t)])) for n, t in enumerate(texts)]
    await started(tasks)
    store.may_go.set()

    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert [ids(r) if isinstance(r, list) else type(r) for r in results] == [
        [0],
        [1],
        DataError,
        [3],
    ]


async def test_any_other_failure_reaches_every_waiter() -> None:
    collector = IngestCollector(Store())
    results = await asyncio.gather(
        collector.submit([message(1)]),
        collector.submit([message(2, "broken")]),
        return_exceptions=True,
    )
    assert isinstance(results[1], ZeroDivisionError)


async def test_a_waiter_that_goes_away_leaves_no_hole() -> None:
    store = Store()
    store.may_go.clear()
    collector = IngestCollector(store, CollectorLimits(batches_in_flight=1))
    tasks = [asyncio.create_task(collector.submit([message(n)])) for n in range(4)]
    await started(tasks)
    tasks[0].cancel()
    tasks[2].cancel()
    await asyncio.sleep(0)
    store.may_go.set()

    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert ids(results[1]) == [1]
    assert ids(results[3]) == [3]
    assert store.calls == [[0], [1, 3]]


async def test_who_waits_too_long_is_told_to_send_again() -> None:
    store = Store()
    store.may_go.clear()
    collector = IngestCollector(store, CollectorLimits(wait_s=0.01))
    with pytest.raises(Problem) as late:
        await collector.submit([message(1)])
    assert late.value.kind is OVERLOADED
    store.may_go.set()
    await collector.close()


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(1, 12), max_size=30),
    batch_messages=st.integers(1, 20),
    batches_in_flight=st.integers(1, 3),
)
def test_every_job_gets_its_own_answers(
    sizes: list[int], batch_messages: int, batches_in_flight: int
) -> None:
    jobs: list[list[NewMessage]] = []
    number = 0
    for size in sizes:
        jobs.append([message(number + k) for k in range(size)])
        number += size

    async def run() -> None:
        store = Store()
        limits = CollectorLimits(batch_messages=batch_messages, batches_in_flight=batches_in_flight)
        collector = IngestCollector(store, limits)
        answers = await asyncio.gather(*[collector.submit(job) for job in jobs])
        assert [ids(a) for a in answers] == [[int(m.external_id) for m in job] for job in jobs]
        assert sorted(n for call in store.calls for n in call) == list(range(number))
        assert all(len(c) <= max(batch_messages, *sizes) for c in store.calls)
        assert store.most_in_flight <= batches_in_flight

    asyncio.run(run())
