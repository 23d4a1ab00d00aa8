"""Streams from real decoupled models; a script only for what no model can be made to do."""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from inference import AsyncModerationClient, Deadline, ReplicaConfig, StreamConfig, Tensor
from inference.errors import (
    AttemptTimeoutError,
    BadResponseError,
    ClientClosedError,
    DeadlineExceededError,
    InvalidRequestError,
    ModelFailedError,
    StreamLostError,
    UnknownModelError,
    UnreachableError,
)
from inference.streaming import ModelStream, StreamRequest
from inference.values import InferResult
from tests.inference.conftest import Fragile
from tests.inference.scripted_server import Script, ScriptedServer, streamed
from tests.inference.support import quiet, until


def int32(name: str, value: int) -> Tensor:
    return Tensor.from_array(name, np.array([value], dtype=np.int32))


def counting(upto: int, every_ms: int = 0) -> list[Tensor]:
    """For `counter`, which does not speak credit."""
    return [int32("COUNT", upto), int32("EVERY_MS", every_ms)]


def dripping(upto: int) -> list[Tensor]:
    """For `dripper`, which does."""
    return [int32("COUNT", upto)]


def index_of(answer: InferResult) -> int:
    return int(answer.array("INDEX")[0])


async def indices(answers: StreamRequest) -> list[int]:
    return [index_of(answer) async for answer in answers]


async def take(answers: StreamRequest, count: int) -> list[int]:
    return [index_of(await anext(answers)) for _ in range(count)]


async def read_into(got: list[int], answers: StreamRequest) -> None:
    async for answer in answers:
        got.append(index_of(answer))  # noqa: PERF401  kept when the next one raises


@pytest.fixture
async def stream(client: AsyncModerationClient) -> AsyncIterator[ModelStream]:
    async with await client.open_stream() as subject:
        yield subject


async def made_so_far(stream: ModelStream) -> int:
    """How many answers `dripper` has made in all, this one included."""
    async with stream.request("dripper", dripping(1), with_credit=True) as answers:
        return int((await anext(answers)).array("MADE")[0])


@pytest.mark.parametrize("with_credit", [True, False])
@pytest.mark.parametrize("count", [0, 1, 100])
async def test_all_answers_come_in_order_and_then_the_end(stream, with_credit, count):
    model, inputs = ("dripper", dripping(count)) if with_credit else ("counter", counting(count))
    async with stream.request(model, inputs, with_credit=with_credit, window=4) as answers:
        assert await indices(answers) == list(range(count))
    assert answers.received == count


async def test_a_slow_reader_with_credit_holds_the_model_back(stream):
    before = await made_so_far(stream)
    async with stream.request("dripper", dripping(100_000), with_credit=True, window=4) as answers:
        assert await take(answers, 10) == list(range(10))
        for _ in range(20):  # time enough to run ahead, had it the credit
            made = await made_so_far(stream) - before
            before += 1  # the probe's own answer
            assert 10 <= made - 1 <= 10 + 4
        assert answers.buffered <= 4


async def test_a_slow_reader_without_credit_is_bounded_on_this_side_only(client, pair):
    async with (
        await client.open_stream() as stream,
        await client.open_stream(avoid=other_than(stream, pair)) as beside,
    ):
        before = await made_so_far(beside)
        # Without WINDOW this model sends as it likes.
        async with stream.request("dripper", dripping(3_000), window=4) as answers:
            assert await take(answers, 3) == [0, 1, 2]

            async def ran_ahead() -> bool:
                return await made_so_far(beside) - before > 3_000

            await until(ran_ahead)
            assert answers.buffered == 4
            assert await indices(answers) == list(range(3, 3_000))


def other_than(stream: ModelStream, pair: list[ReplicaConfig]) -> list[str]:
    return [replica.name for replica in pair if replica.name != stream.replica]


async def test_many_with_credit_share_a_stream_and_the_slow_one_holds_up_nobody(stream):
    async with (
        stream.request("dripper", dripping(1_000), with_credit=True, window=2) as slow,
        stream.request("dripper", dripping(200), with_credit=True, window=8) as quick,
    ):
        assert await take(slow, 1) == [0]
        assert await indices(quick) == list(range(200))
        assert await take(slow, 3) == [1, 2, 3]


async def test_without_credit_a_request_must_be_alone(stream):
    async with stream.request("counter", counting(100_000, every_ms=1)) as answers:
        assert await take(answers, 1) == [0]
        with pytest.raises(InvalidRequestError, match="alone"):
            async with stream.request("dripper", dripping(1), with_credit=True):
                pass
    assert not stream.is_usable  # its end was the only sign a model without credit can get


@pytest.mark.parametrize(
    ("model", "inputs", "expected"),
    [
        ("nope", counting(1), UnknownModelError),
        ("counter", dripping(1), InvalidRequestError),
        ("counter", counting(-1), ModelFailedError),
    ],
)
async def test_an_error_of_one_request_leaves_the_stream_usable(stream, model, inputs, expected):
    async with stream.request(model, inputs) as answers:
        with pytest.raises(expected) as caught:
            await anext(answers)
    assert caught.value.replica == stream.replica
    async with stream.request("counter", counting(3)) as answers:
        assert await indices(answers) == [0, 1, 2]


async def test_a_models_own_words_are_not_passed_on(stream):
    async with stream.request("counter", counting(-1)) as answers:
        with pytest.raises(ModelFailedError) as caught:
            await anext(answers)
    assert "below zero" not in str(caught.value)


async def test_leaving_early_stops_a_model_with_credit_and_keeps_the_stream(stream):
    async with stream.request("dripper", dripping(10**9), with_credit=True, window=3) as answers:
        await take(answers, 5)
    with pytest.raises(StopAsyncIteration):
        await anext(answers)
    assert await made_so_far(stream) > 0
    await until(lambda: not stream._dropped)  # its final answer has come: it has stopped


async def test_nothing_for_too_long_is_told_and_the_request_goes_on(
    pair: list[ReplicaConfig],
):
    config = quiet(pair[:1], stream=StreamConfig(idle_timeout_s=0.05))
    async with (
        AsyncModerationClient(config) as client,
        await client.open_stream() as stream,
        stream.request("counter", counting(2, every_ms=400)) as answers,
    ):
        assert await take(answers, 1) == [0]
        with pytest.raises(AttemptTimeoutError, match="no answer for"):
            await anext(answers)
        while True:
            try:
                assert index_of(await anext(answers)) == 1
                break
            except AttemptTimeoutError:
                continue


async def test_the_requests_own_deadline_binds(stream):
    async with stream.request(
        "counter", counting(2, every_ms=60_000), deadline=Deadline.after(0.3)
    ) as answers:
        with pytest.raises(DeadlineExceededError):
            await indices(answers)


async def test_a_closed_stream_ends_its_requests_and_takes_no_more(client):
    stream = await client.open_stream()
    async with stream.request("counter", counting(10**6, every_ms=1)) as answers:
        await take(answers, 1)
        await stream.aclose()
        with pytest.raises(ClientClosedError):
            await indices(answers)
    with pytest.raises(ClientClosedError):
        async with stream.request("counter", counting(1)):
            pass


async def test_an_open_stream_counts_as_load_and_a_closed_one_does_not(client):
    stream = await client.open_stream()
    assert sum(state.in_flight for state in client.replica_states()) == 1
    await stream.aclose()
    assert sum(state.in_flight for state in client.replica_states()) == 0


async def test_a_killed_replica_loses_the_stream_and_another_one_resumes(fragile: Fragile):
    async with AsyncModerationClient(quiet(fragile.replicas)) as client:
        stream = await client.open_stream()
        async with stream.request("dripper", dripping(50), with_credit=True, window=4) as answers:
            got = await take(answers, 10)
            fragile.signal(stream.replica, signal.SIGKILL)
            with pytest.raises(StreamLostError) as lost:
                await read_into(got, answers)
        assert lost.value.received == len(got) < 50
        assert lost.value.replica == stream.replica
        assert isinstance(lost.value.__cause__, UnreachableError)
        with pytest.raises(StreamLostError):
            async with stream.request("counter", counting(1)):
                pass
        await stream.aclose()
        async with (
            await client.open_stream(avoid=[stream.replica]) as second,
            second.request(
                "dripper", dripping(50), with_credit=True, resume_from=lost.value.received
            ) as answers,
        ):
            assert second.replica != stream.replica
            assert got + await indices(answers) == list(range(50))


# ---- what no real model can be made to do


@pytest.fixture
def serve() -> Iterator[Callable[[Script], ScriptedServer]]:
    made: list[ScriptedServer] = []

    def make(script: Script) -> ScriptedServer:
        made.append(ScriptedServer(script))
        return made[-1]

    yield make
    for server in made:
        server.close()


Serve = Callable[[Script], ScriptedServer]


async def run_against(server: ScriptedServer, **options: Any) -> list[int]:
    """The indices of one request on a stream of its own."""
    async with (
        AsyncModerationClient(quiet([server.replica])) as client,
        await client.open_stream() as stream,
        stream.request("any", [int32("COUNT", 1)], **options) as answers,
    ):
        return await indices(answers)


async def test_a_server_that_hangs_up_in_order_before_the_end_is_a_lost_stream(serve: Serve):
    def hang_up(requests, context):
        yield streamed(next(requests).id, 0)

    with pytest.raises(StreamLostError, match="ended the stream") as lost:
        await run_against(serve(Script(stream=hang_up)))
    assert lost.value.received == 1


async def test_a_server_that_breaks_half_way_is_a_lost_stream(serve: Serve):
    def break_off(requests, context):
        yield streamed(next(requests).id, 0)
        context.abort(grpc.StatusCode.UNAVAILABLE, "going away")

    with pytest.raises(StreamLostError) as lost:
        await run_against(serve(Script(stream=break_off)))
    assert lost.value.received == 1


async def test_an_answer_to_no_request_ends_the_stream(serve: Serve):
    def confuse(requests, context):
        next(requests)
        yield streamed("777", 0)
        yield from requests

    with pytest.raises(StreamLostError, match="id of no request") as lost:
        await run_against(serve(Script(stream=confuse)))
    assert isinstance(lost.value.__cause__, BadResponseError)


async def test_a_model_that_ignores_its_credit_is_cut_off(serve: Serve):
    def flood(requests, context):
        request_id = next(requests).id
        for index in range(100):
            yield streamed(request_id, index)
        for _ in requests:
            pass

    async with (
        AsyncModerationClient(quiet([serve(Script(stream=flood)).replica])) as client,
        await client.open_stream() as stream,
        stream.request("any", [int32("COUNT", 1)], with_credit=True, window=4) as answers,
    ):
        await until(lambda: answers._is_over)
        assert answers.buffered == 4
        with pytest.raises(BadResponseError, match="more answers than it had credit"):
            await indices(answers)


async def test_a_server_that_does_not_hang_up_keeps_nobody_waiting(serve: Serve):
    released = threading.Event()

    def linger(requests, context):
        for _ in requests:
            pass
        released.wait()
        yield from ()

    async with AsyncModerationClient(quiet([serve(Script(stream=linger)).replica])) as client:
        stream = await client.open_stream()
        await stream.aclose()
        assert not stream.is_usable
    released.set()
