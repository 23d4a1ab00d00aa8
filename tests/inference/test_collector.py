"""The collector's promises: by property under a clock of the test's own, then in a real loop."""

import asyncio
import math
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from inference.batching import BatchPolicy, Waiter
from inference.collector import Collector
from inference.config import CollectorConfig
from inference.deadline import Deadline
from inference.errors import (
    BadResponseError,
    ClientClosedError,
    DeadlineExceededError,
    OverloadedError,
    QueueFullError,
    UnreachableError,
)
from inference.hooks import Hooks
from inference.stats import Stage, StageStats

CONFIG = CollectorConfig(
    max_batch=4,
    max_wait_ms=5.0,
    max_in_flight_batches=3,
    max_queued=20,
    worthwhile_batch=2,
    sorted_batches=2,
)
MAX_WAIT_S = CONFIG.max_wait_ms / 1000
TICK_S = 1e-9  # what is due at an instant may be a rounding error late


class PolicyUnderRandomTraffic(RuleBasedStateMachine):
    """Calls come, go and time out, batches end well or badly, in any order."""

    waiters = Bundle("waiters")

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0
        self.policy: BatchPolicy[str] = BatchPolicy(CONFIG)
        self.ends: dict[int, list[str]] = {}
        self.names: dict[Waiter[str], int] = {}
        self.in_flight: list = []

    def look(self) -> None:
        for waiter in self.policy.expire(self.now_s):
            assert waiter.deadline_s <= self.now_s
            self.ends[self.names[waiter]].append("expired")
        while batch := self.policy.next_batch(self.now_s):
            self.in_flight.append(batch)
            assert 1 <= len(batch.waiters) <= CONFIG.max_batch
            assert len(self.in_flight) <= CONFIG.max_in_flight_batches
            assert batch.reason != "full" or len(batch.waiters) == CONFIG.max_batch, "a hole"
            lengths = [waiter.length for waiter in batch.waiters]
            assert lengths == sorted(lengths)
            for waiter in batch.waiters:
                assert waiter.deadline_s > self.now_s, "an expired call was sent"
                self.ends[self.names[waiter]].append("sent")

    @rule(
        target=waiters,
        length=st.integers(0, 9),
        budget_s=st.one_of(st.just(math.inf), st.floats(0, 0.05)),
    )
    def submit(self, length, budget_s):
        waiter = Waiter("x" * length, length, self.now_s, self.now_s + budget_s)
        name = self.names[waiter] = len(self.names)
        self.ends[name] = []
        queued = self.policy.queued
        try:
            self.policy.offer(waiter)
        except OverloadedError:
            assert queued == CONFIG.max_queued
            assert self.policy.queued == queued
            self.ends[name].append("refused")
        self.look()
        return waiter

    @rule(waiter=waiters)
    def cancel(self, waiter):
        ends = self.ends[self.names[waiter]]
        if not ends:
            self.policy.withdraw(waiter)
            ends.append("cancelled")
        self.look()

    @rule(waiters=st.lists(waiters, max_size=10))
    def cancel_many(self, waiters):
        for waiter in waiters:
            self.cancel(waiter)

    @rule(pick=st.integers(0, 10), is_answered=st.booleans(), is_overload=st.booleans())
    def end_a_batch(self, pick, is_answered, is_overload):
        if not self.in_flight:
            return
        batch = self.in_flight.pop(pick % len(self.in_flight))
        if is_answered:
            self.policy.succeeded(batch, self.now_s)
        else:
            self.policy.failed(batch, is_overload=is_overload)
        self.look()

    @rule(by_s=st.floats(0, 0.02))
    def pass_time(self, by_s):
        """Looks only when the policy asked to be woken: it must ask early enough."""
        until_s = self.now_s + by_s
        while (wake_s := self.policy.wake_s(self.now_s)) <= until_s:
            self.now_s = max(self.now_s, wake_s) + TICK_S
            self.look()
        self.now_s = max(self.now_s, until_s)

    @invariant()
    def each_call_ends_once(self):
        for waiter, name in self.names.items():
            ends = self.ends[name]
            # A call in flight may still run into its deadline: its caller is told that, once.
            assert len(ends) <= 1 or ends == ["sent", "expired"], (waiter, ends)

    @invariant()
    def nobody_waits_on_idle_servers(self):
        if not self.in_flight:
            assert self.policy.queued == 0

    @invariant()
    def nobody_waits_too_long_while_there_is_room(self):
        if self.policy.in_flight < self.policy.pacing.limit:
            for waiter in self.waiting():
                assert self.now_s - waiter.arrived_s <= MAX_WAIT_S + 2 * TICK_S

    @invariant()
    def the_count_of_those_who_wait_is_right(self):
        assert self.policy.queued == len(self.waiting())
        assert self.policy.in_flight == len(self.in_flight)

    def waiting(self) -> list[Waiter[str]]:
        return [waiter for waiter, name in self.names.items() if not self.ends[name]]

    def teardown(self):
        self.policy.close()
        self.look()
        while self.in_flight:
            self.policy.succeeded(self.in_flight.pop(), self.now_s)
            self.look()
        assert not self.waiting(), "closing left a call without an answer"
        assert self.policy.is_idle


TestPolicyUnderRandomTraffic = PolicyUnderRandomTraffic.TestCase
TestPolicyUnderRandomTraffic.settings = settings(
    max_examples=150, stateful_step_count=60, deadline=None
)


@given(st.integers(0, 2**32), st.integers(0, 40))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_text_starves_however_long_it_is(seed, ahead):
    """Short ones keep coming; the long one leaves when those ahead and one round have left."""
    chance = random.Random(seed)
    policy: BatchPolicy[str] = BatchPolicy(
        CollectorConfig(max_batch=4, max_in_flight_batches=1, sorted_batches=3)
    )

    def submit(length: int) -> Waiter[str]:
        waiter = Waiter("", length, 0.0, math.inf)
        policy.offer(waiter)
        return waiter

    for _ in range(ahead):
        submit(chance.randrange(5))
    long = submit(99)
    batches = 0
    while True:
        batch = policy.next_batch(0.0)
        batches += 1
        if long in batch.waiters:
            break
        for _ in range(chance.randrange(12)):
            submit(chance.randrange(5))
        policy.succeeded(batch, 0.0)
    assert batches <= ahead // 4 + 3 + 1


def test_cancelled_calls_leave_no_hole_in_a_sorted_round():
    policy: BatchPolicy[str] = BatchPolicy(
        CollectorConfig(max_batch=4, max_in_flight_batches=1, sorted_batches=2)
    )
    policy.offer(Waiter("", 0, 0.0, math.inf))
    first = policy.next_batch(0.0)
    waiting = [Waiter("", length, 0.0, math.inf) for length in range(12)]
    for waiter in waiting:
        policy.offer(waiter)
    for waiter in waiting[1:7]:
        policy.withdraw(waiter)
    policy.succeeded(first, 0.0)
    batch = policy.next_batch(0.0)
    assert [waiter.length for waiter in batch.waiters] == [0, 7, 8, 9]


def test_many_that_gave_up_do_not_pile_up_behind_a_patient_one():
    policy: BatchPolicy[str] = BatchPolicy(CollectorConfig(max_in_flight_batches=1))
    policy.offer(Waiter("", 0, 0.0, math.inf))
    assert policy.next_batch(0.0) is not None  # the servers hang: nothing leaves any more
    policy.offer(Waiter("", 0, 0.0, math.inf))
    for step in range(20_000):
        policy.offer(Waiter("", 0, 0.0, deadline_s=float(step)))
        policy.expire(float(step))
    assert policy.queued == 1
    assert len(policy._queue) + len(policy._deadlines) < 5_000


def policy_that_knows_its_servers(latency_s: float, **config: int) -> BatchPolicy[str]:
    policy: BatchPolicy[str] = BatchPolicy(CollectorConfig(**config))
    policy.offer(Waiter("", 0, 0.0, math.inf))
    policy.succeeded(policy.next_batch(0.0), latency_s)
    return policy


def fill(policy: BatchPolicy[str], now_s: float, calls: int) -> int:
    """Offer calls; how many batches leave at once."""
    for _ in range(calls):
        policy.offer(Waiter("", 0, now_s, math.inf))
    leaving = 0
    while policy.next_batch(now_s):
        leaving += 1
    return leaving


def test_batches_that_are_long_overdue_hold_up_nobody():
    policy = policy_that_knows_its_servers(0.02, max_batch=4, max_in_flight_batches=16)
    allowed = fill(policy, 10.0, calls=12)
    assert allowed == policy.pacing.limit == 3
    assert fill(policy, 10.05, calls=12) == 0
    overdue_s = policy.wake_s(10.05)
    assert overdue_s == pytest.approx(10.06)
    assert fill(policy, overdue_s, calls=0) == allowed
    assert policy.in_flight == 2 * allowed


def test_overdue_or_not_the_ceiling_holds():
    policy = policy_that_knows_its_servers(0.02, max_batch=4, max_in_flight_batches=3)
    for step in range(10):
        fill(policy, 10.0 + step, calls=8)
    assert policy.in_flight == 3
    assert policy.wake_s(30.0) == math.inf


# ---- the shell, in a real event loop


class Servers:
    """Answers batches when the test says so."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.deadlines: list[Deadline] = []
        self.answers: list[asyncio.Future] = []
        self._arrived = asyncio.Condition()

    async def __call__(self, items: list[str], deadline: Deadline):
        self.batches.append(items)
        self.deadlines.append(deadline)
        answer = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        async with self._arrived:
            self._arrived.notify_all()
        return await answer

    async def received(self, batches: int) -> None:
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.batches) >= batches)

    def answer(self, index: int, results=None) -> None:
        if results is None:
            results = [item.upper() for item in self.batches[index]]
        self.answers[index].set_result(results)


async def at_once(items: list[str], deadline: Deadline) -> list[str]:
    await asyncio.sleep(0)
    return [item.upper() for item in items]


async def test_a_lone_call_leaves_at_once_and_the_next_ones_leave_together():
    servers = Servers()
    collector = Collector(servers, CollectorConfig(max_wait_ms=60_000))
    first = asyncio.create_task(collector.submit("a"))
    await servers.received(1)
    others = [asyncio.create_task(collector.submit(text)) for text in ("ccc", "b", "dd")]
    await asyncio.sleep(0)
    servers.answer(0)
    assert await first == "A"
    await servers.received(2)
    servers.answer(1)
    assert await asyncio.gather(*others) == ["CCC", "B", "DD"]
    assert servers.batches == [["a"], ["b", "dd", "ccc"]]
    await collector.aclose()


async def test_a_thousand_callers_each_get_their_own_answer():
    rng = random.Random(7)
    texts = [f"{n}" * rng.randrange(1, 9) for n in range(1_000)]
    collector = Collector(at_once, CollectorConfig(max_batch=64))
    async with collector:
        assert await asyncio.gather(*map(collector.submit, texts)) == texts
    assert collector.queued == collector.in_flight == 0


async def test_a_crowd_whose_batches_end_together_leaves_in_as_few_again():
    servers = Servers()
    collector = Collector(servers, CollectorConfig(max_batch=64, max_wait_ms=60_000))

    async def caller() -> None:
        await collector.submit("first")
        await collector.submit("second")

    callers = [asyncio.create_task(caller()) for _ in range(100)]
    await servers.received(2)
    servers.answer(0)
    servers.answer(1)
    await servers.received(4)
    assert [len(batch) for batch in servers.batches] == [50, 50, 50, 50]
    servers.answer(2)
    servers.answer(3)
    await asyncio.gather(*callers)
    await collector.aclose()


async def test_company_is_awaited_no_longer_than_max_wait():
    servers = Servers()
    collector = Collector(servers, CollectorConfig(max_wait_ms=1.0))
    first = asyncio.create_task(collector.submit("a"))
    await servers.received(1)
    second = asyncio.create_task(collector.submit("b"))
    await servers.received(2)  # though the first is still on its way
    servers.answer(0)
    servers.answer(1)
    assert await asyncio.gather(first, second) == ["A", "B"]
    await collector.aclose()


async def test_a_cancelled_call_leaves_no_hole():
    servers = Servers()
    collector = Collector(servers, CollectorConfig(max_batch=2, max_wait_ms=60_000))
    first = asyncio.create_task(collector.submit("a"))
    await servers.received(1)
    gone = asyncio.create_task(collector.submit("gone"))
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    others = [asyncio.create_task(collector.submit(text)) for text in ("b", "c")]
    await servers.received(2)
    assert servers.batches[1] == ["b", "c"]
    servers.answer(0)
    servers.answer(1)
    assert await asyncio.gather(first, *others) == ["A", "B", "C"]
    await collector.aclose()


async def test_cancelling_a_call_in_flight_leaves_the_others_their_answer():
    servers = Servers()
    collector = Collector(servers)
    calls = [asyncio.create_task(collector.submit(text)) for text in ("a", "b")]
    await servers.received(1)
    calls[0].cancel()
    servers.answer(0)
    assert await calls[1] == "B"
    assert calls[0].cancelled()
    await collector.aclose()


async def test_a_failed_batch_fails_each_of_its_calls_with_that_very_error():
    error = UnreachableError("refused", replica="a")

    async def fail(items, deadline):
        raise error

    async with Collector(fail) as collector:
        results = await asyncio.gather(
            collector.submit("a"), collector.submit("b"), return_exceptions=True
        )
    assert results == [error, error]


async def test_an_error_of_one_item_reaches_its_caller_only():
    poison = BadResponseError("this one")

    async def judge(items, deadline):
        return [poison if item == "bad" else item.upper() for item in items]

    async with Collector(judge) as collector:
        results = await asyncio.gather(
            *map(collector.submit, ["a", "bad", "b"]), return_exceptions=True
        )
    assert results == ["A", poison, "B"]


async def test_a_wrong_number_of_results_is_nobodys_answer():
    async def judge(items, deadline):
        return items[1:]

    async with Collector(judge) as collector:
        with pytest.raises(BadResponseError, match="0 results for 1 items"):
            await collector.submit("a")


async def test_a_full_queue_refuses_at_once_and_says_how_long():
    servers = Servers()
    stats = StageStats()
    config = CollectorConfig(max_queued=2, max_in_flight_batches=1, max_wait_ms=60_000)
    collector = Collector(servers, config, stats=stats)
    calls = [asyncio.create_task(collector.submit("a"))]
    await servers.received(1)
    calls += [asyncio.create_task(collector.submit(text)) for text in ("b", "c")]
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError, match="2 calls are waiting") as refused:
        await collector.submit("d")
    assert refused.value.retry_after_ms >= 0
    assert stats.snapshot().counter("collector_refused") == 1
    servers.answer(0)
    await servers.received(2)
    servers.answer(1)
    assert await asyncio.gather(*calls) == ["A", "B", "C"]
    await collector.aclose()


async def test_a_hung_server_costs_a_caller_its_deadline_and_no_more():
    servers = Servers()
    collector = Collector(servers, CollectorConfig(max_in_flight_batches=1))
    patient = asyncio.create_task(collector.submit("patient"))
    await servers.received(1)
    with pytest.raises(DeadlineExceededError):  # queued: never sent
        await collector.submit("hasty", deadline=Deadline.after(0.01))
    assert servers.batches == [["patient"]]
    servers.answer(0)
    assert await patient == "PATIENT"
    await collector.aclose()


async def test_a_hasty_call_in_flight_ends_without_ending_its_batch():
    servers = Servers()
    collector = Collector(servers)
    later = Deadline.after(60)
    patient = asyncio.create_task(collector.submit("patient", deadline=later))
    hasty = asyncio.create_task(collector.submit("hasty", deadline=Deadline.after(0.01)))
    await servers.received(1)
    assert servers.deadlines == [later]
    with pytest.raises(DeadlineExceededError):
        await hasty
    servers.answer(0)
    assert await patient == "PATIENT"
    await collector.aclose()


async def test_closing_answers_those_who_wait_and_refuses_the_next():
    servers = Servers()
    collector = Collector(servers, CollectorConfig(max_wait_ms=60_000))
    calls = [asyncio.create_task(collector.submit("a"))]
    await servers.received(1)
    calls.append(asyncio.create_task(collector.submit("b")))
    await asyncio.sleep(0)
    closing = asyncio.create_task(collector.aclose())
    await servers.received(2)  # without waiting for company
    with pytest.raises(ClientClosedError):
        await collector.submit("late")
    assert not closing.done()
    servers.answer(1)
    servers.answer(0)
    assert await asyncio.gather(*calls) == ["A", "B"]
    await closing


async def test_closing_gives_up_at_its_deadline_and_tells_the_callers():
    servers = Servers()
    collector = Collector(servers, CollectorConfig(max_in_flight_batches=1))
    calls = [asyncio.create_task(collector.submit("a"))]
    await servers.received(1)
    calls.append(asyncio.create_task(collector.submit("b")))
    await asyncio.sleep(0)
    await collector.aclose(Deadline.after(0.01))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [ClientClosedError] * 2
    assert servers.answers[0].cancelled()


async def test_closing_returns_when_the_last_caller_has_gone():
    servers = Servers()
    collector = Collector(servers, CollectorConfig(max_in_flight_batches=1))
    first = asyncio.create_task(collector.submit("a"))
    await servers.received(1)
    second = asyncio.create_task(collector.submit("b"))
    await asyncio.sleep(0)
    closing = asyncio.create_task(collector.aclose())
    await asyncio.sleep(0)
    second.cancel()
    servers.answer(0)
    await closing
    assert await first == "A"
    assert servers.batches == [["a"]]


async def test_an_unused_collector_closes():
    async with Collector(at_once):
        pass


async def test_overload_told_by_the_servers_lets_fewer_batches_out():
    async def refuse(items, deadline):
        raise QueueFullError("busy")

    async with Collector(refuse) as collector:
        before = collector._policy.pacing.limit
        with pytest.raises(QueueFullError):
            await collector.submit("a")
        assert collector._policy.pacing.limit < before


def test_a_second_event_loop_is_refused_with_a_clear_error():
    collector = Collector(at_once)
    assert asyncio.run(collector.submit("a")) == "A"
    with pytest.raises(RuntimeError, match="belongs to the event loop"):
        asyncio.run(collector.submit("b"))


async def test_every_batch_is_told_and_counted():
    seen, stats = [], StageStats()
    async with Collector(at_once, hooks=Hooks(on_batch=seen.append), stats=stats) as collector:
        await asyncio.gather(*map(collector.submit, "abc"))
    (event,) = seen
    assert (event.size, event.reason, event.in_flight, event.queued) == (3, "idle", 1, 0)
    told = stats.snapshot()
    assert told.counter("collector_calls") == 3
    assert told.counter("collector_batches") == 1
    assert told.sketch(Stage.QUEUE).count == 3
