"""Each failure class, provoked on real servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from inference import (
    AsyncModerationClient,
    InferResult,
    ModelRef,
    PoolConfig,
    ReplicaConfig,
    RetryConfig,
    Tensor,
    TlsConfig,
)
from inference.errors import (
    BadResponseError,
    ConnectFailedError,
    InferenceError,
    InvalidRequestError,
    MessageTooLargeError,
    MisconfiguredError,
    ModelFailedError,
    ModelNotReadyError,
    PoisonedInputError,
    QueueExpiredError,
    QueueFullError,
    UnknownModelError,
    UnreachableError,
    WrongCallError,
)
from tests.inference.fault_proxy import DROP, Fault, FaultProxy
from tests.inference.support import Witness, quiet, sleep_for

ONE_ATTEMPT = RetryConfig(max_attempts=1)


async def test_a_full_queue_is_tried_on_the_other_replica(
    client: AsyncModerationClient, witness: Witness
) -> None:
    calls = [client.infer("tiny_queue", [sleep_for(150)]) for _ in range(12)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    refused = [each for each in witness.attempts if each.outcome == QueueFullError.kind]
    assert refused, "twelve at once do not fit two queues of one"
    unexpected = [r for r in results if isinstance(r, BaseException)]
    assert all(isinstance(each, QueueFullError) for each in unexpected)
    by_call: dict[str, list[str]] = {}
    for attempt in witness.attempts:
        by_call.setdefault(attempt.call_id, []).append(attempt.replica)
    for replicas in by_call.values():
        assert all(a != b for a, b in pairwise(replicas))
    # Overload is not failure: no breaker has counted it.
    assert {each.breaker for each in client.replica_states()} == {"closed"}


async def test_a_request_that_waited_too_long_in_the_queue_is_not_retried(
    pair: list[ReplicaConfig], witness: Witness
) -> None:
    async with AsyncModerationClient(quiet(pair[:1]), witness.hooks) as client:
        ends = await asyncio.gather(
            *(client.infer("impatient_queue", [sleep_for(200)]) for _ in range(2)),
            return_exceptions=True,
        )
    # Which of the two comes first is the network's business; on a busy machine the first waits too.
    kinds = [type(each) for each in ends]
    assert QueueExpiredError in kinds
    assert set(kinds) <= {InferResult, QueueExpiredError}
    assert witness.retries == []


@pytest.mark.parametrize(
    ("model", "inputs", "expected"),
    [
        (ModelRef("nope"), [sleep_for(0)], UnknownModelError),
        (ModelRef("sleeper", "99"), [sleep_for(0)], UnknownModelError),
        (ModelRef("sleeper", "newest"), [sleep_for(0)], InvalidRequestError),
        (ModelRef("sleeper"), [Tensor.from_texts("SLEEP_MS", ["1"])], InvalidRequestError),
        (ModelRef("sleeper"), [replace(sleep_for(0), name="OTHER")], InvalidRequestError),
        (
            ModelRef("sleeper"),
            [replace(sleep_for(0), shape=(1, 2), raw=bytes(8))],
            InvalidRequestError,
        ),
        (ModelRef("sleeper"), [replace(sleep_for(0), shape=(0, 1), raw=b"")], InvalidRequestError),
        (ModelRef("sleeper"), [replace(sleep_for(0), raw=b"")], InvalidRequestError),
        (ModelRef("sleeper"), [], InvalidRequestError),
        (
            ModelRef("scorer"),
            [Tensor("TEXT", "BYTES", (2, 1), b"\x05\x00\x00\x00cut")],
            InvalidRequestError,
        ),
        (ModelRef("scorer"), [Tensor.from_texts("TEXT", ["a"] * 257)], InvalidRequestError),
        (
            ModelRef("counter"),
            [
                Tensor.from_array("COUNT", np.array([1], dtype=np.int32)),
                Tensor.from_array("EVERY_MS", np.array([0], dtype=np.int32)),
            ],
            WrongCallError,
        ),
        (ModelRef("scorer"), [Tensor.from_texts("TEXT", ["poison"])], ModelFailedError),
    ],
    ids=[
        "unknown model",
        "unknown version",
        "version that is no number",
        "wrong type",
        "wrong name",
        "wrong shape",
        "empty batch",
        "no data",
        "no input",
        "malformed bytes",
        "batch over the model's limit",
        "decoupled model by a unary call",
        "model raises",
    ],
)
async def test_a_wrong_request_fails_at_once_and_blames_no_replica(
    client: AsyncModerationClient,
    witness: Witness,
    model: ModelRef,
    inputs: list[Tensor],
    expected: type[InferenceError],
) -> None:
    with pytest.raises(expected) as raised:
        await client.infer(model, inputs)
    assert type(raised.value) is expected
    assert raised.value.replica
    assert witness.outcomes == [expected.kind]
    assert all(each.state == "ready" for each in client.replica_states())


async def test_an_unloaded_model_is_not_ready_rather_than_unknown(
    pair: list[ReplicaConfig], witness: Witness
) -> None:
    async with AsyncModerationClient(quiet(pair), witness.hooks) as client:
        await client.unload_model("sleeper")
        try:
            with pytest.raises(ModelNotReadyError):
                await client.infer("sleeper", [sleep_for(0)])
            # Both were asked: another replica may still have had it.
            assert len({each.replica for each in witness.attempts}) == 2
            # It is not the model that replicas are kept for, so none is put aside.
            assert {each.state for each in client.replica_states()} == {"ready"}
        finally:
            await client.load_model("sleeper")
        answer = await client.infer("sleeper", [sleep_for(0)])
        assert answer.array("SLEPT_MS").tolist() == [[0]]


async def test_unloading_an_unknown_model_succeeds_and_loading_one_does_not(
    client: AsyncModerationClient,
) -> None:
    await client.unload_model("nope")
    with pytest.raises(UnknownModelError):
        await client.load_model("nope")


async def test_a_poisoned_item_is_named_alone(
    client: AsyncModerationClient, witness: Witness
) -> None:
    texts = [f"text {index}" for index in range(64)]
    texts[23] = "this is poison"
    texts[40] = "an ad"
    judged = await client.classify(texts)
    assert [index for index, row in enumerate(judged) if row.error] == [23]
    assert type(judged[23].error) is PoisonedInputError
    assert judged[40].scores[3] == pytest.approx(0.97)
    assert judged[0].scores[0] == pytest.approx(0.97)
    assert len(witness.attempts) <= 1 + 2 * 6
    assert {each.breaker for each in client.replica_states()} == {"closed"}


async def test_no_number_of_hostile_texts_opens_a_breaker(client: AsyncModerationClient) -> None:
    for _ in range(20):
        judged = await client.classify(["poison", "fine"])
        assert [type(row.error) for row in judged] == [PoisonedInputError, type(None)]
    assert {each.breaker for each in client.replica_states()} == {"closed"}
    assert {each.state for each in client.replica_states()} == {"ready"}


async def test_a_score_that_is_no_number_is_refused_alone(client: AsyncModerationClient) -> None:
    judged = await client.classify(["fine", "notanumber", "spam"])
    assert [type(row.error) for row in judged] == [type(None), BadResponseError, type(None)]
    assert judged[1].scores == (0.0, 0.0, 0.0, 0.0)


async def test_a_lone_surrogate_never_reaches_the_server(
    client: AsyncModerationClient, witness: Witness
) -> None:
    with pytest.raises(InvalidRequestError, match="not valid Unicode at 4") as raised:
        await client.classify(["good", "bad \ud83d"])
    assert raised.value.__cause__ is None
    assert witness.attempts == []


async def test_messages_over_the_limit_are_fatal_both_ways(
    pair: list[ReplicaConfig], witness: Witness
) -> None:
    config = quiet(pair, pool=PoolConfig(max_message_bytes=4096))
    async with AsyncModerationClient(config, witness.hooks) as client:
        with pytest.raises(MessageTooLargeError, match="Sent message larger"):
            await client.classify(["x" * 5000])
        with pytest.raises(MessageTooLargeError, match="Received message larger"):
            await client.classify(["x"] * 256)
    assert len(witness.attempts) == 2


async def test_tls_against_a_plain_port_is_a_wrong_setting_not_an_outage(
    pair: list[ReplicaConfig], witness: Witness
) -> None:
    async with AsyncModerationClient(quiet(pair, tls=TlsConfig()), witness.hooks) as client:
        with pytest.raises(MisconfiguredError):
            await client.classify(["text"])
    assert len(witness.attempts) == 1


async def test_where_nobody_listens_the_other_replica_answers(
    pair: list[ReplicaConfig], witness: Witness, unused_tcp_port: int
) -> None:
    dead = ReplicaConfig("dead", grpc=f"127.0.0.1:{unused_tcp_port}")
    async with AsyncModerationClient(quiet([dead, pair[0]]), witness.hooks) as client:
        for _ in range(20):
            await client.classify(["text"])
        dead_attempts = [each for each in witness.attempts if each.replica == "dead"]
        # After the first it is put aside, for a second since no health check runs.
        assert [each.outcome for each in dead_attempts] in ([], [ConnectFailedError.kind])


async def test_a_lone_dead_replica_gives_a_clear_class(unused_tcp_port: int) -> None:
    dead = ReplicaConfig("dead", grpc=f"127.0.0.1:{unused_tcp_port}")
    async with AsyncModerationClient(quiet([dead], retry=ONE_ATTEMPT)) as client:
        with pytest.raises(ConnectFailedError) as raised:
            await client.classify(["text"])
    assert raised.value.replica == "dead"
    assert raised.value.attempts == 1


@pytest.mark.parametrize("fault", [Fault(cut_after_bytes=200), DROP], ids=["half way", "at once"])
async def test_a_cut_connection_is_retried_elsewhere(
    pair: list[ReplicaConfig],
    witness: Witness,
    proxy_for: Callable[[ReplicaConfig], FaultProxy],
    fault: Fault,
) -> None:
    proxy = proxy_for(pair[0])
    proxy.set(fault)
    broken = ReplicaConfig("broken", grpc=proxy.address)
    async with AsyncModerationClient(quiet([broken, pair[1]]), witness.hooks) as client:
        for _ in range(30):
            (row,) = await client.classify(["spam"])
            assert row.scores[1] == pytest.approx(0.97)
    failed = [each for each in witness.attempts if each.outcome != "ok"]
    assert failed
    assert {each.replica for each in failed} == {"broken"}
    assert {each.outcome for each in failed} <= {UnreachableError.kind, ConnectFailedError.kind}
