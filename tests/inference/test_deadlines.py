"""Time running out, in both modes, on real servers."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from inference import (
    AsyncModerationClient,
    BalancerConfig,
    BalancerPolicy,
    Deadline,
    DeadlineConfig,
    ExpiryMode,
    HealthConfig,
    ModelRef,
    ReplicaConfig,
)
from inference.errors import DeadlineExceededError, NoReplicaError
from tests.inference.fault_proxy import BLACKHOLE, FaultProxy
from tests.inference.scripted_server import Script, after
from tests.inference.scripted_server import answer as scripted_answer
from tests.inference.support import Witness, quiet, sleep_for, until

LONG_MS = 400


async def executions(client: AsyncModerationClient, model: str) -> int:
    statistics = await client.statistics(ModelRef(model))
    return sum(each.execution_count for found in statistics.values() for each in found)


async def test_the_caller_is_answered_at_its_deadline_and_the_call_runs_on(
    pair: list[ReplicaConfig],
) -> None:
    async with AsyncModerationClient(quiet(pair[:1])) as client:
        before = await executions(client, "sleeper")
        with pytest.raises(DeadlineExceededError):
            await client.infer("sleeper", [sleep_for(LONG_MS)], deadline=Deadline.after(0.03))
        # Answered while the model still works: the call is kept, not cancelled.
        (state,) = client.replica_states()
        assert (state.in_flight, state.abandoned) == (1, 1)
        await until(lambda: client.replica_states()[0].abandoned == 0)
        assert client.replica_states()[0].in_flight == 0
        assert await executions(client, "sleeper") == before + 1


@pytest.mark.parametrize(
    ("mode", "is_kept"), [(ExpiryMode.WAIT_LOCALLY, True), (ExpiryMode.CANCEL, False)]
)
async def test_the_server_sees_a_cancel_only_in_cancelling_mode(
    scripted: Callable[..., ReplicaConfig], mode: ExpiryMode, is_kept: bool
) -> None:
    go, ended, seen = threading.Event(), threading.Event(), []

    def look(request: Any, context: grpc.ServicerContext) -> Any:
        if not context.add_callback(ended.set):
            ended.set()  # it has ended already
        if not is_kept:
            assert ended.wait(30), "the cancel never came"
        seen.append(context.is_active())
        return scripted_answer(request)

    replica = scripted(Script(infer=after(go, look)))
    config = quiet([replica], deadlines=DeadlineConfig(mode=mode))
    async with AsyncModerationClient(config) as client:
        with pytest.raises(DeadlineExceededError):
            await client.classify(["text"], deadline=Deadline.after(0.03))
        # grpc.aio cancels a call that nobody refers to any more.
        gc.collect()
        go.set()
        await until(lambda: bool(seen))
    assert seen == [is_kept]


async def test_cancelling_mode_keeps_nothing(pair: list[ReplicaConfig]) -> None:
    config = quiet(pair[:1], deadlines=DeadlineConfig(mode=ExpiryMode.CANCEL))
    async with AsyncModerationClient(config) as client:
        with pytest.raises(DeadlineExceededError):
            await client.infer("sleeper", [sleep_for(LONG_MS)], deadline=Deadline.after(0.03))
        assert client.replica_states()[0].abandoned == 0
        await until(lambda: client.replica_states()[0].in_flight == 0)


async def test_a_cancelled_ensemble_call_is_executed_all_the_same(
    pair: list[ReplicaConfig],
) -> None:
    """Why waiting locally is the default: cancelling saves the server nothing (server#6739)."""
    config = quiet(pair[:1], deadlines=DeadlineConfig(mode=ExpiryMode.CANCEL))
    async with AsyncModerationClient(config) as client:
        before = await executions(client, "scorer")
        first = asyncio.create_task(client.classify([f"sleep={LONG_MS}"]))
        await until(lambda: client.replica_states()[0].in_flight == 1)
        with pytest.raises(DeadlineExceededError):
            # Long enough to arrive, too short to be reached.
            await client.classify(["queued behind it"], deadline=Deadline.after(LONG_MS / 2_000))
        await first

        async def both_executed() -> bool:
            return await executions(client, "scorer") == before + 2

        await until(both_executed)


async def test_a_cancelled_caller_leaves_nothing_behind(pair: list[ReplicaConfig]) -> None:
    async with AsyncModerationClient(quiet(pair[:1])) as client:
        task = asyncio.create_task(client.infer("sleeper", [sleep_for(LONG_MS)]))
        await until(lambda: client.replica_states()[0].in_flight == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: client.replica_states()[0].in_flight == 0)
        assert client.replica_states()[0].abandoned == 0


async def test_a_replica_that_owes_too_many_answers_gets_no_more(
    pair: list[ReplicaConfig],
) -> None:
    deadlines = DeadlineConfig(max_abandoned_per_replica=2)
    async with AsyncModerationClient(quiet(pair[:1], deadlines=deadlines)) as client:
        for _ in range(2):
            with pytest.raises(DeadlineExceededError):
                await client.infer("sleeper", [sleep_for(LONG_MS)], deadline=Deadline.after(0.02))
        with pytest.raises(NoReplicaError, match="owes too many answers"):
            await client.infer("sleeper", [sleep_for(0)])
        await until(lambda: client.replica_states()[0].abandoned == 0)
        await client.infer("sleeper", [sleep_for(0)])


async def test_a_deadline_that_has_passed_sends_nothing(
    client: AsyncModerationClient, witness: Witness
) -> None:
    with pytest.raises(DeadlineExceededError):
        await client.classify(["text"], deadline=Deadline.after(-1.0))
    assert witness.attempts == []


async def test_an_attempt_that_takes_too_long_is_made_elsewhere_within_the_deadline(
    pair: list[ReplicaConfig], witness: Witness, proxy_for: Callable[..., FaultProxy]
) -> None:
    proxy = proxy_for(pair[0])
    stuck = ReplicaConfig("stuck", grpc=proxy.address)
    config = quiet(
        [stuck, pair[1]],
        deadlines=DeadlineConfig(attempt_timeout_ms=500),
        balancer=BalancerConfig(policy=BalancerPolicy.ROUND_ROBIN),
    )
    async with AsyncModerationClient(config, witness.hooks) as client:
        await client.classify(["text"])
        await client.classify(["text"])
        proxy.set(BLACKHOLE)
        witness.attempts.clear()
        for _ in range(2):
            (row,) = await client.classify(["spam"], deadline=Deadline.after(20))
            assert row.scores[1] == pytest.approx(0.97)
    tried = [(each.replica, each.outcome) for each in witness.attempts]
    first = tried.index(("stuck", "attempt_timeout"))
    assert tried[first + 1] == (pair[1].name, "ok")
    assert witness.attempts[first].call_id == witness.attempts[first + 1].call_id


async def test_short_budgets_on_a_slow_model_do_not_blame_the_replica(
    pair: list[ReplicaConfig],
) -> None:
    async with AsyncModerationClient(quiet(pair[:1])) as client:
        for _ in range(3):
            await client.infer("sleeper", [sleep_for(60)])
        for _ in range(15):
            with pytest.raises(DeadlineExceededError):
                await client.infer("sleeper", [sleep_for(60)], deadline=Deadline.after(0.01))
            await until(lambda: client.replica_states()[0].abandoned == 0)
        assert client.replica_states()[0].breaker == "closed"


async def test_health_checks_have_their_own_time(pair: list[ReplicaConfig]) -> None:
    config = quiet(pair, health=HealthConfig(timeout_ms=2_000))
    async with AsyncModerationClient(config) as client:
        await client.check_health()
        states = client.replica_states()
        assert {each.state for each in states} == {"ready"}
        assert {each.version for each in states} == {"2.51.0"}
        assert all(each.queue_depth == 0 for each in states)
        assert all((ModelRef("scorer", "1"), True) in each.models for each in states)


async def test_what_the_deadline_ends_is_never_retried(
    pair: list[ReplicaConfig], witness: Witness
) -> None:
    async with AsyncModerationClient(quiet(pair), witness.hooks) as client:
        for step in range(40):
            budget_s = 0.002 + step / 40_000
            with pytest.raises(DeadlineExceededError):
                await client.infer("sleeper", [sleep_for(20)], deadline=Deadline.after(budget_s))
        await until(lambda: sum(each.in_flight for each in client.replica_states()) == 0)
    assert witness.retries == []
    assert set(witness.outcomes) == {DeadlineExceededError.kind}
