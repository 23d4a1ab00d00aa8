"""The client against two real replicas that behave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb

from inference import (
    LABELS,
    AsyncModerationClient,
    BalancerConfig,
    BalancerPolicy,
    BreakerState,
    Classification,
    Deadline,
    HedgeConfig,
    ModelRef,
    ModerationClient,
    PoolConfig,
    ReplicaConfig,
    RetryConfig,
    Tensor,
)
from inference.errors import (
    BadResponseError,
    ClientClosedError,
    InvalidRequestError,
    MisconfiguredError,
    NoReplicaError,
    UnreachableError,
)
from inference.hooks import CallEvent, HedgeEvent, Hooks, ReplicaEvent
from inference.transport import decode_classifications, decode_result, encode_texts
from tests.inference.fault_proxy import BLACKHOLE, Fault, FaultProxy
from tests.inference.scripted_server import (
    Infer,
    Script,
    batch_of,
    fail_with,
    with_rows,
    with_wrong_id,
)
from tests.inference.scripted_server import answer as scripted_answer
from tests.inference.support import Witness, quiet, sleep_for, until


def label_of(row: Classification) -> str:
    return LABELS[row.scores.index(max(row.scores))]


# ---------------------------------------------------------------- calls


async def test_texts_are_judged_in_order(client: AsyncModerationClient) -> None:
    texts = ["hello", "spam here", "so toxic", "an ad", "", "多个字节的文字", "a\0b"]
    judged = await client.classify(texts)
    assert [label_of(row) for row in judged] == ["ok", "spam", "toxic", "ad", "ok", "ok", "ok"]
    # The fixture model answers the length of what it received: every byte has arrived, NUL too.
    assert [row.undone for row in judged] == [len(text.encode()) % 8 for text in texts]


async def test_no_texts_are_no_call(client: AsyncModerationClient, witness: Witness) -> None:
    assert await client.classify([]) == []
    assert witness.attempts == []


async def test_a_list_longer_than_the_model_takes_goes_as_several_calls(
    client: AsyncModerationClient, witness: Witness
) -> None:
    texts = [f"{'spam' if index % 3 == 0 else 'fine'} {index}" for index in range(600)]
    judged = await client.classify(texts)
    expected = ["spam" if index % 3 == 0 else "ok" for index in range(600)]
    assert [label_of(row) for row in judged] == expected
    assert sorted(each.batch for each in witness.attempts) == [88, 256, 256]


async def test_another_release_is_called_by_name_and_version(
    client: AsyncModerationClient, witness: Witness
) -> None:
    await client.classify(["text"], release=ModelRef("scorer", "1"))
    assert witness.attempts[0].model == "scorer"


async def test_any_model_is_called_with_typed_tensors(client: AsyncModerationClient) -> None:
    result = await client.infer(
        "scorer", [Tensor.from_texts("TEXT", ["spam", b"ad"])], outputs=["SCORES"]
    )
    assert set(result.outputs) == {"SCORES"}
    scores = result.array("SCORES")
    assert scores.shape == (2, 4)
    assert scores.argmax(axis=1).tolist() == [1, 3]
    assert not scores.flags.writeable, "a view, not a copy"
    assert result.model == ModelRef("scorer", "1")
    with pytest.raises(BadResponseError, match="no output UNDONE"):
        result.array("UNDONE")


async def test_metadata_statistics_and_readiness_are_typed(client: AsyncModerationClient) -> None:
    assert await client.is_ready()
    metadata = await client.model_metadata()
    assert [(each.name, each.datatype, each.shape) for each in metadata.inputs] == [
        ("TEXT", "BYTES", (-1, 1))
    ]
    assert [(each.name, each.datatype, each.shape) for each in metadata.outputs] == [
        ("SCORES", "FP32", (-1, 4)),
        ("UNDONE", "INT32", (-1, 1)),
    ]
    statistics = await client.statistics(ModelRef("scorer"))
    assert set(statistics) == {"triton-1", "triton-2"}
    before = sum(each.inference_count for found in statistics.values() for each in found)
    await client.classify(["a", "b", "c"])
    after = await client.statistics(ModelRef("scorer"))
    assert sum(each.inference_count for found in after.values() for each in found) == before + 3


async def test_a_closed_client_says_so(pair: list[ReplicaConfig]) -> None:
    client = AsyncModerationClient(quiet(pair))
    await client.classify(["text"])
    await client.aclose()
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await client.classify(["text"])


async def test_the_hooks_hear_of_a_call_and_its_attempts_without_its_text(
    pair: list[ReplicaConfig],
) -> None:
    heard: list[object] = []
    hooks = Hooks(on_call_start=heard.append, on_attempt=heard.append, on_call=heard.append)
    async with AsyncModerationClient(quiet(pair), hooks) as client:
        await client.classify(["secret words", "poison"])
    assert all("secret" not in repr(event) for event in heard)
    ends = [event for event in heard if isinstance(event, CallEvent)]
    # The batch, its two halves.
    assert [(each.outcome, each.batch) for each in ends] == [
        ("model_failed", 2),
        ("ok", 1),
        ("model_failed", 1),
    ]


# ---------------------------------------------------------------- answers are checked


def answer(**changes: object) -> pb.ModelInferResponse:
    values: dict[str, object] = {
        "id": "7",
        "scores": np.full((2, 4), 0.25, dtype="<f4").tobytes(),
        "undone": np.array([0, 3], dtype="<i4").tobytes(),
    }
    values |= changes
    response = pb.ModelInferResponse(model_name="moderation", model_version="1", id=values["id"])
    response.outputs.add(name="SCORES", datatype="FP32", shape=[2, 4])
    response.raw_output_contents.append(values["scores"])
    if values["undone"] is not None:
        response.outputs.add(name="UNDONE", datatype="INT32", shape=[2, 1])
        response.raw_output_contents.append(values["undone"])
    return response


def test_a_right_answer_is_read() -> None:
    rows = decode_classifications(answer(), "7", 2)
    assert rows == [((0.25,) * 4, 0, None), ((0.25,) * 4, 3, None)]
    assert isinstance(rows[0], Classification)


@pytest.mark.parametrize(
    ("response", "count"),
    [
        (answer(id="8"), 2),
        (answer(), 3),
        (answer(scores=b"\0" * 16), 2),
        (answer(undone=b"\0" * 4), 2),
        (answer(undone=None), 2),
        (answer(scores=np.full((2, 4), np.nan, dtype="<f4").tobytes()), 2),
    ],
    ids=["another id", "fewer rows", "half scores", "half flags", "no flags", "all NaN"],
)
def test_a_wrong_answer_is_refused(response: pb.ModelInferResponse, count: int) -> None:
    with pytest.raises(BadResponseError):
        decode_classifications(response, "7", count)


@given(st.lists(st.binary(min_size=16, max_size=16), min_size=2, max_size=6))
def test_each_row_that_is_not_finite_is_refused_and_no_other(rows: list[bytes]) -> None:
    """Whatever 16 bytes a server may send for a row of scores."""
    rows = [*rows, b"\0" * 16]
    response = answer(scores=b"".join(rows), undone=b"\0" * 4 * len(rows))
    judged = decode_classifications(response, "7", len(rows))
    are_finite = [bool(np.isfinite(np.frombuffer(row, "<f4")).all()) for row in rows]
    assert [row.error is None for row in judged] == are_finite


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", range(4))
def test_a_score_that_is_no_number_costs_its_row_only(bad: float, place: int) -> None:
    scores = np.full((2, 4), 0.25, dtype="<f4")
    scores[1, place] = bad
    judged = decode_classifications(answer(scores=scores.tobytes()), "7", 2)
    assert [row.error is None for row in judged] == [True, False]


@pytest.mark.parametrize(
    "wrong", [with_wrong_id, with_rows(3), with_rows(1)], ids=["another id", "more", "fewer"]
)
async def test_a_replica_with_wrong_answers_is_left_for_another(
    pair: list[ReplicaConfig],
    witness: Witness,
    scripted: Callable[..., ReplicaConfig],
    wrong: Infer,
) -> None:
    policy = BalancerConfig(policy=BalancerPolicy.ROUND_ROBIN)
    replicas = [scripted(Script(infer=wrong)), pair[0]]
    async with AsyncModerationClient(quiet(replicas, balancer=policy), witness.hooks) as client:
        for _ in range(24):
            judged = await client.classify(["spam", "fine"])
            assert [label_of(row) for row in judged] == ["spam", "ok"]
        state = next(each for each in client.replica_states() if each.name == "scripted")
    assert {each.outcome for each in witness.attempts if each.replica == "scripted"} == {
        BadResponseError.kind
    }
    assert state.breaker == "open"
    assert state.breaker_reason == "10 of 10 failed in 10 s"
    assert state.seconds_to_probe is not None


async def test_a_model_that_raises_on_one_replica_only_is_that_replicas_fault(
    pair: list[ReplicaConfig], scripted: Callable[..., ReplicaConfig]
) -> None:
    broken = fail_with(grpc.StatusCode.INTERNAL, "Failed to process the request(s)")
    policy = BalancerConfig(policy=BalancerPolicy.ROUND_ROBIN)
    replicas = [scripted(Script(infer=broken)), pair[0]]
    async with AsyncModerationClient(quiet(replicas, balancer=policy)) as client:
        for _ in range(40):
            judged = await client.classify(["spam", "fine"])
            assert [label_of(row) for row in judged] == ["spam", "ok"]
        state = next(each for each in client.replica_states() if each.name == "scripted")
    assert state.breaker == "open"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (grpc.StatusCode.UNAVAILABLE, "Server is stopping, scheduler for model has stopped ..."),
        (grpc.StatusCode.UNAVAILABLE, "GRPC server is shutting down and has stopped ..."),
        (grpc.StatusCode.NOT_FOUND, "Request for unknown model: 'm' has no available versions"),
    ],
)
async def test_a_stopping_replica_is_left_after_its_first_word(
    pair: list[ReplicaConfig],
    witness: Witness,
    scripted: Callable[..., ReplicaConfig],
    code: grpc.StatusCode,
    message: str,
) -> None:
    policy = BalancerConfig(policy=BalancerPolicy.ROUND_ROBIN)
    replicas = [scripted(Script(infer=fail_with(code, message))), pair[0]]
    async with AsyncModerationClient(quiet(replicas, balancer=policy), witness.hooks) as client:
        for _ in range(4):
            (row,) = await client.classify(["spam"])
            assert label_of(row) == "spam"
        state = next(each for each in client.replica_states() if each.name == "scripted")
    assert [each.replica for each in witness.attempts].count("scripted") == 1
    assert state.state == "ejected"
    assert state.breaker == "closed", "an orderly stop is no fault"


async def test_a_missing_header_is_a_wrong_setting(
    scripted: Callable[..., ReplicaConfig], witness: Witness
) -> None:
    restricted = fail_with(
        grpc.StatusCode.UNAVAILABLE, "This protocol is restricted, expecting header 'x-admin'"
    )
    replica = scripted(Script(infer=restricted))
    async with AsyncModerationClient(quiet([replica]), witness.hooks) as client:
        with pytest.raises(MisconfiguredError):
            await client.classify(["text"])
    assert len(witness.attempts) == 1


async def test_attempts_are_counted_by_the_server_as_configured(
    scripted: Callable[..., ReplicaConfig],
) -> None:
    """gRPC's own retries are off: else they would multiply with ours (grpc#35060)."""
    script = Script(infer=fail_with(grpc.StatusCode.UNAVAILABLE, "try again"))
    async with AsyncModerationClient(quiet([scripted(script)])) as client:
        with pytest.raises(UnreachableError) as raised:
            await client.classify(["text"])
    assert len(script.seen) == raised.value.attempts == 3


async def test_headers_go_with_every_call(scripted: Callable[..., ReplicaConfig]) -> None:
    seen: list[str | None] = []

    def look(request: Any, context: grpc.ServicerContext) -> Any:
        seen.append(dict(context.invocation_metadata()).get("x-admin"))
        return scripted_answer(request)

    config = quiet([scripted(Script(infer=look))], headers=[("x-admin", "letmein")])
    async with AsyncModerationClient(config) as client:
        await client.classify(["text"])
    assert seen == ["letmein"]


async def test_of_a_long_list_only_the_part_that_failed_says_so(
    scripted: Callable[..., ReplicaConfig],
) -> None:
    refuse = fail_with(grpc.StatusCode.INVALID_ARGUMENT, "no")

    def first_part_only(request: Any, context: grpc.ServicerContext) -> Any:
        step = scripted_answer if batch_of(request) == 256 else refuse
        return step(request, context)

    async with AsyncModerationClient(quiet([scripted(Script(infer=first_part_only))])) as client:
        judged = await client.classify(["text"] * 300)
        assert all(row.error is None for row in judged[:256])
        assert {type(row.error) for row in judged[256:]} == {InvalidRequestError}
        with pytest.raises(InvalidRequestError):
            await client.classify(["text"] * 3)


def test_an_output_without_bytes_is_refused() -> None:
    response = answer()
    del response.raw_output_contents[1]
    with pytest.raises(BadResponseError, match="2 outputs, 1 raw contents"):
        decode_result(response, "7", "a")
    result = decode_result(answer(scores=b"\0" * 12), "7", "a")
    with pytest.raises(BadResponseError, match="do not fit the shape"):
        result.array("SCORES")


@given(texts=st.lists(st.one_of(st.text(st.characters(codec="utf-8")), st.binary()), max_size=50))
def test_texts_survive_the_wire_format(texts: list[str | bytes]) -> None:
    expected = [text.encode() if isinstance(text, str) else text for text in texts]
    assert Tensor.from_texts("T", texts).texts() == expected
    request = pb.ModelInferRequest.FromString(encode_texts(ModelRef(), "1", texts))
    assert list(request.inputs[0].shape) == [len(texts), 1]
    assert Tensor("T", "BYTES", (len(texts), 1), request.raw_input_contents[0]).texts() == expected


def test_long_texts_keep_their_length() -> None:
    assert Tensor.from_texts("T", ["x" * 100_000, "y"]).texts() == [b"x" * 100_000, b"y"]


@given(raw=st.binary(max_size=40))
def test_a_broken_bytes_tensor_is_refused_or_read_wholly(raw: bytes) -> None:
    tensor = Tensor("T", "BYTES", (1,), raw)
    try:
        texts = tensor.texts()
    except BadResponseError:
        return
    assert Tensor.from_texts("T", texts).raw == raw


async def test_closing_tells_the_waiting(
    pair: list[ReplicaConfig], proxy_for: Callable[..., FaultProxy]
) -> None:
    proxy = proxy_for(pair[0])
    client = AsyncModerationClient(quiet([ReplicaConfig("silent", grpc=proxy.address)]))
    await client.classify(["text"])
    proxy.set(BLACKHOLE)
    waiting = asyncio.ensure_future(client.classify(["text"]))
    await until(lambda: client.replica_states()[0].in_flight == 1)
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await waiting


@pytest.mark.parametrize("dtype", ["?", "i1", ">i4", "<u8", "f2", ">f4", "f8"])
def test_arrays_of_any_byte_order_arrive_as_they_are(dtype: str) -> None:
    array = np.array([[0, 1], [1, 0]]).astype(dtype)[:, ::-1]
    assert Tensor.from_array("T", array).array().tolist() == array.tolist()


def test_a_dtype_without_a_wire_type_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="no wire type"):
        Tensor.from_array("T", np.array(["text"]))


# ---------------------------------------------------------------- balancing and operators


async def test_both_replicas_get_their_share(
    client: AsyncModerationClient, witness: Witness
) -> None:
    for _ in range(30):
        await asyncio.gather(*(client.classify(["text"]) for _ in range(10)))
    served = [each.replica for each in witness.attempts]
    assert min(served.count("triton-1"), served.count("triton-2")) > 75


async def test_round_robin_goes_round(pair: list[ReplicaConfig], witness: Witness) -> None:
    policy = BalancerConfig(policy=BalancerPolicy.ROUND_ROBIN)
    async with AsyncModerationClient(quiet(pair, balancer=policy), witness.hooks) as client:
        for _ in range(20):
            await client.classify(["text"])
    served = [each.replica for each in witness.attempts]
    assert served.count("triton-1") == served.count("triton-2") == 10


@pytest.fixture
def three(pair: list[ReplicaConfig], proxy_for: Callable[..., FaultProxy]) -> list[ReplicaConfig]:
    """Three endpoints: the third is another way to the first server."""
    return [*pair, ReplicaConfig("third", grpc=proxy_for(pair[0]).address)]


async def test_three_replicas_share_and_none_gets_it_all(
    three: list[ReplicaConfig], witness: Witness
) -> None:
    """gRPC's own default, pick_first, sends everything to one (server#6177, #4036)."""
    policy = BalancerConfig(policy=BalancerPolicy.ROUND_ROBIN)
    async with AsyncModerationClient(quiet(three, balancer=policy), witness.hooks) as client:
        for _ in range(30):
            await asyncio.gather(*(client.classify(["text"]) for _ in range(10)))
    served = [each.replica for each in witness.attempts]
    assert [served.count(each.name) for each in three] == [100, 100, 100]


async def test_a_cold_burst_is_spread(three: list[ReplicaConfig], witness: Witness) -> None:
    """Before anyone has answered (grpc#20226)."""
    async with AsyncModerationClient(quiet(three), witness.hooks) as client:
        await asyncio.gather(*(client.classify(["text"]) for _ in range(60)))
    served = [each.replica for each in witness.attempts]
    assert all(10 <= served.count(each.name) <= 32 for each in three)


async def test_a_slow_replica_gets_less(
    pair: list[ReplicaConfig], witness: Witness, proxy_for: Callable[..., FaultProxy]
) -> None:
    proxy = proxy_for(pair[0])
    proxy.set(Fault(delay_s=0.25))
    slow = ReplicaConfig("slow", grpc=proxy.address)
    async with AsyncModerationClient(quiet([slow, pair[1]]), witness.hooks) as client:
        for _ in range(200):
            await client.classify(["text"])
    served = [each.replica for each in witness.attempts]
    assert served.count("slow") < 40


async def test_a_slow_drip_is_still_an_answer(
    pair: list[ReplicaConfig], proxy_for: Callable[..., FaultProxy]
) -> None:
    proxy = proxy_for(pair[0])
    proxy.set(Fault(drip_bytes=7))
    drip = ReplicaConfig("drip", grpc=proxy.address)
    async with AsyncModerationClient(quiet([drip])) as client:
        (row,) = await client.classify(["spam"])
    assert label_of(row) == "spam"


async def test_a_draining_replica_finishes_what_it_has_and_gets_nothing_new(
    client: AsyncModerationClient, witness: Witness
) -> None:
    client.drain("triton-2")
    running = asyncio.create_task(client.infer("sleeper", [sleep_for(200)]))
    await until(lambda: any(each.in_flight for each in client.replica_states()))
    client.drain("triton-1")
    states = {each.name: each.state for each in client.replica_states()}
    assert states == {"triton-1": "draining", "triton-2": "draining"}
    with pytest.raises(NoReplicaError):
        await client.classify(["text"])
    await running
    client.readmit("triton-2")
    await client.classify(["text"])
    assert witness.attempts[-1].replica == "triton-2"


async def test_a_replica_ejected_by_hand_stays_out_until_readmitted(
    pair: list[ReplicaConfig], witness: Witness
) -> None:
    async with AsyncModerationClient(quiet(pair), witness.hooks) as client:
        client.eject("triton-1")
        await client.check_health()  # it is healthy, and nobody asked for it back
        for _ in range(10):
            await client.classify(["text"])
        assert {each.replica for each in witness.attempts} == {"triton-2"}
        client.readmit("triton-1")
        for _ in range(40):
            await client.classify(["text"])
        assert {each.replica for each in witness.attempts} == {"triton-1", "triton-2"}
    told = [(e.replica, e.new) for e in witness.other if isinstance(e, ReplicaEvent)]
    assert told == [("triton-1", "ejected"), ("triton-1", "ready")]


async def test_with_every_breaker_open_calls_fail_at_once_with_a_clear_class(
    client: AsyncModerationClient, witness: Witness
) -> None:
    for name in ("triton-1", "triton-2"):
        client.force_breaker(name, BreakerState.FORCED_OPEN)
    with pytest.raises(NoReplicaError, match="circuit open"):
        await client.classify(["text"])
    assert witness.attempts == []
    client.reset_breaker("triton-1")
    await client.classify(["text"])
    with pytest.raises(NoReplicaError, match="no replica is called"):
        client.reset_breaker("triton-9")


async def test_a_slow_first_answer_is_overtaken_by_a_hedge(
    pair: list[ReplicaConfig], witness: Witness, proxy_for: Callable[..., FaultProxy]
) -> None:
    proxy = proxy_for(pair[0])
    stuck = ReplicaConfig("stuck", grpc=proxy.address)
    config = quiet(
        [stuck, pair[1]],
        hedge=HedgeConfig(enabled=True, min_samples=50),
        pool=PoolConfig(connections_per_replica=1),  # another could not be opened into the hole
        balancer=BalancerConfig(policy=BalancerPolicy.ROUND_ROBIN),
    )
    async with AsyncModerationClient(config, witness.hooks) as client:
        for _ in range(100):
            await client.classify(["text"])
        proxy.set(BLACKHOLE)
        witness.other.clear()
        for _ in range(12):
            (row,) = await client.classify(["spam"])
            assert label_of(row) == "spam"
        hedges = [each for each in witness.other if isinstance(each, HedgeEvent)]
        overtaken = [each for each in hedges if each.first == "stuck"]
        assert overtaken
        assert {each.winner for each in overtaken} == {pair[1].name}
        # The losers are not cancelled on the wire: that is what crashes the server.
        stuck_state = next(e for e in client.replica_states() if e.name == "stuck")
        assert stuck_state.abandoned == len(hedges)


async def test_without_budget_there_is_no_second_attempt(
    pair: list[ReplicaConfig], witness: Witness, unused_tcp_port: int
) -> None:
    dead = ReplicaConfig("dead", grpc=f"127.0.0.1:{unused_tcp_port}")
    retry = RetryConfig(budget_ratio=0)
    policy = BalancerConfig(policy=BalancerPolicy.ROUND_ROBIN, max_ejected_share=0)
    async with AsyncModerationClient(
        quiet([dead, pair[0]], retry=retry, balancer=policy), witness.hooks
    ) as client:
        calls = [client.classify(["text"]) for _ in range(10)]
        results = await asyncio.gather(*calls, return_exceptions=True)
    assert witness.retries == []
    assert len(witness.attempts) == 10
    assert sum(isinstance(each, Exception) for each in results) == 5


# ---------------------------------------------------------------- the synchronous face


def test_the_synchronous_face_does_the_same(pair: list[ReplicaConfig]) -> None:
    with ModerationClient(quiet(pair)) as client:
        assert [label_of(row) for row in client.classify(["spam", "fine"])] == ["spam", "ok"]
        assert client.is_ready()
        assert client.model_metadata().name == "moderation"
        assert client.infer("sleeper", [sleep_for(0)]).array("SLEPT_MS").tolist() == [[0]]
        assert len(client.replica_states()) == 2
        client.drain("triton-1")
        client.check_health()
        states = {each.name: each.state for each in client.replica_states()}
        assert states == {"triton-1": "draining", "triton-2": "ready"}
        client.readmit("triton-1")
        with pytest.raises(NoReplicaError):
            client.eject("nobody")
    with pytest.raises(ClientClosedError):
        client.classify(["text"])


def test_several_batches_are_in_flight_from_one_thread(pair: list[ReplicaConfig]) -> None:
    with ModerationClient(quiet(pair)) as client:
        futures = [client.classify_nowait([f"sleep=20 {n}", "spam"]) for n in range(6)]
        assert sum(each.in_flight for each in client.replica_states()) > 1
        for future in futures:
            assert [label_of(row) for row in future.result(10)] == ["ok", "spam"]


def test_closing_tells_the_calls_in_flight(
    pair: list[ReplicaConfig], proxy_for: Callable[..., FaultProxy]
) -> None:
    proxy = proxy_for(pair[0])
    client = ModerationClient(quiet([ReplicaConfig("silent", grpc=proxy.address)]))
    client.classify(["text"])
    proxy.set(BLACKHOLE)
    futures = [client.classify_nowait(["text"]) for _ in range(3)]
    while client.replica_states()[0].in_flight < 3:
        pass  # each look is a turn of the client's own loop
    client.close()
    assert {type(each.exception(10)) for each in futures} == {ClientClosedError}


def test_threads_share_one_client(pair: list[ReplicaConfig]) -> None:
    with ModerationClient(quiet(pair)) as client, ThreadPoolExecutor(16) as threads:

        def judge(number: int) -> str:
            word = ("spam", "fine")[number % 2]
            (row,) = client.classify([f"{word} {number}"], deadline=Deadline.after(20))
            return label_of(row)

        judged = list(threads.map(judge, range(400)))
    assert judged == ["spam", "ok"] * 200


def test_a_hook_that_calls_its_own_client_is_refused_not_stuck(
    pair: list[ReplicaConfig],
) -> None:
    raised: list[Exception] = []

    def meddle(_: object) -> None:
        try:
            client.classify(["again"])
        except ClientClosedError as error:
            raised.append(error)

    with ModerationClient(quiet(pair), Hooks(on_attempt=meddle)) as client:
        client.classify(["text"])
    assert len(raised) == 1
