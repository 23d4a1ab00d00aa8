"""Replicas that are killed, stopped and frozen under load; callers are to notice nothing."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from typing import Any

import pytest

from inference import (
    AsyncModerationClient,
    Deadline,
    DeadlineConfig,
    ExpiryMode,
    HealthConfig,
    RetryConfig,
)
from inference.errors import InferenceError, InferenceTimeoutError, NoReplicaError, ReplicaError
from tests.inference.conftest import Fragile
from tests.inference.support import Witness, quiet, sleep_for, until, waiting_at


def watched(fragile: Fragile, **changes: Any) -> Any:
    settings: dict[str, Any] = {
        "health": HealthConfig(every_s=0.1, down_every_s=0.05, timeout_ms=500),
        "deadlines": DeadlineConfig(default_budget_ms=10_000, attempt_timeout_ms=300),
        "retry": RetryConfig(budget_reserve=50),
    }
    return quiet(fragile.replicas, **(settings | changes))


class Load:
    """Callers that go on until told to stop; every call ends exactly once."""

    def __init__(self, client: AsyncModerationClient, callers: int = 8) -> None:
        self._client = client
        self.answered = 0
        self.errors: Counter[str] = Counter()
        self._is_over = False
        self._tasks = [asyncio.ensure_future(self._call(number)) for number in range(callers)]

    async def _call(self, number: int) -> None:
        while not self._is_over:
            try:
                rows = await self._client.classify(["spam", f"fine {number}"])
                assert [row.scores[1] > 0.9 for row in rows] == [True, False]
                self.answered += 1
            except InferenceError as error:
                self.errors[error.kind] += 1

    async def more(self, calls: int) -> None:
        goal = self.answered + calls
        await until(lambda: self.answered >= goal)

    async def stop(self) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)


def status(client: AsyncModerationClient, name: str) -> str:
    return next(each.state for each in client.replica_states() if each.name == name)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
async def test_callers_notice_nothing_when_one_of_two_goes(
    fragile: Fragile, witness: Witness, number: signal.Signals
) -> None:
    async with AsyncModerationClient(watched(fragile), witness.hooks) as client:
        load = Load(client)
        await load.more(200)
        assert {each.replica for each in witness.attempts} == {"triton-1", "triton-2"}
        fragile.signal("triton-1", number)
        await until(lambda: status(client, "triton-1") in ("down", "live", "ejected"))
        await load.more(200)
        gone = len(witness.attempts)
        await load.more(200)
        # While it is away it gets nothing but the odd probe.
        since = [each.replica for each in witness.attempts[gone:]]
        assert since.count("triton-1") <= 0.05 * len(since)
        fragile.thaw()
        await fragile.all_ready()
        await until(lambda: status(client, "triton-1") == "ready")

        def is_back() -> bool:
            return any(
                each.replica == "triton-1" and each.outcome == "ok"
                for each in witness.attempts[-50:]
            )

        await until(is_back)
        await load.stop()
    assert load.errors == {}
    assert len(witness.retries) <= 0.1 * len(witness.attempts) + 50


async def test_a_server_that_is_stopping_is_told_from_a_wrong_model_name(
    fragile: Fragile, witness: Witness
) -> None:
    """It says NOT_FOUND while calls run out, then nobody listens (server#6230, #6286)."""
    config = quiet(fragile.replicas[:1], retry=RetryConfig(max_attempts=1))
    async with AsyncModerationClient(config, witness.hooks) as client:
        begun = [
            asyncio.ensure_future(client.infer("sleeper", [sleep_for(1_000)])) for _ in range(2)
        ]

        async def have_both_arrived() -> bool:
            return await waiting_at(fragile.replicas[0]) == 1

        await until(have_both_arrived)
        fragile.signal("triton-1", signal.SIGTERM)
        kinds: list[str] = []
        while not kinds or kinds[-1] != "connect_failed":
            client.readmit("triton-1")
            client.reset_breaker("triton-1")
            try:
                await client.classify(["text"])
            except InferenceError as error:
                kinds.append(error.kind)
        assert set(kinds) <= {"stopping", "model_not_ready", "unreachable", "connect_failed"}
        assert {"stopping", "model_not_ready"} & set(kinds)
        # What it had taken on it finished.
        for call in begun:
            assert (await call).array("SLEPT_MS").tolist() == [[1_000]]


async def test_with_all_gone_calls_fail_clearly_and_come_back_by_themselves(
    fragile: Fragile,
) -> None:
    async with AsyncModerationClient(watched(fragile)) as client:
        await client.classify(["text"])
        for replica in fragile.replicas:
            fragile.signal(replica.name, signal.SIGKILL)
        await until(lambda: {each.state for each in client.replica_states()} == {"down"})
        with pytest.raises((ReplicaError, NoReplicaError)):
            await client.classify(["text"], deadline=Deadline.after(0.2))
        await fragile.all_ready()

        async def is_answered() -> bool:
            try:
                await client.classify(["text"])
            except InferenceError:
                return False
            return True

        await until(is_answered)


@pytest.mark.parametrize("mode", list(ExpiryMode))
async def test_a_storm_of_short_deadlines_loses_and_doubles_nothing(
    fragile: Fragile, witness: Witness, mode: ExpiryMode
) -> None:
    """Cancelling on the wire may crash Triton 2.51 (server#7368, #8034); we have to come back.

    Kept calls must not: the server that answers after the storm is the one from before it.
    """
    deadlines = DeadlineConfig(mode=mode, max_abandoned_per_replica=1000)
    config = watched(fragile, deadlines=deadlines, retry=RetryConfig(max_attempts=1))
    pids = fragile.pids()
    chance = random.Random(7)
    ends: Counter[str] = Counter()
    async with AsyncModerationClient(config, witness.hooks) as client:

        async def once(number: int) -> None:
            deadline = Deadline.after(chance.uniform(0.0005, 0.004))
            try:
                if number % 4 == 0:
                    await client.infer("tiny_queue", [sleep_for(1)], deadline=deadline)
                elif number % 4 == 1:
                    await client.infer("sleeper", [sleep_for(1)], deadline=deadline)
                else:
                    await client.classify(["spam"], deadline=deadline)
                ends["answered"] += 1
            except InferenceTimeoutError:
                ends["timed out"] += 1
            except InferenceError as error:
                ends[error.kind] += 1

        async def caller(number: int) -> None:
            for step in range(300):
                await once(number + step)

        await asyncio.gather(*(caller(number) for number in range(8)))
        assert ends.total() == 8 * 300
        assert ends["timed out"] > 0
        await fragile.all_ready()
        if mode is ExpiryMode.WAIT_LOCALLY:
            assert fragile.pids() == pids

        async def recovers() -> bool:
            try:
                (row,) = await client.classify(["spam"], deadline=Deadline.after(5))
            except InferenceError:
                return False
            return row.scores[1] > 0.9

        await until(recovers)
        await until(lambda: sum(e.in_flight for e in client.replica_states()) == 0)
    # Each attempt is told once: what the caller counted, plus at most the recovery's own.
    assert len({(e.call_id, e.attempt) for e in witness.attempts}) == len(witness.attempts)
