"""Decoupled models: one request, any number of answers, over ModelStreamInfer.

    async with await client.open_stream() as stream:
        async with stream.request("writer", [prompt], with_credit=True) as answers:
            async for answer in answers:
                ...

What a stream promises:

- **Bounded.** At most `window` answers of a request wait here. gRPC alone does not hold a model
  back: a reader of five answers in a second found that the model had finished all twenty, the rest
  lay in the server and in transport buffers. So a model that speaks credit (below) is told how many
  answers it may send. For one that does not, this side stops reading when the window is full; what
  the server then holds is out of our hands.
- **An error of one request ends that request**, not the stream.
- **A lost stream is told, not hidden.** Each unfinished request raises `StreamLostError` with the
  number of answers its reader took. Whether a model can go on from there only its author knows:
  `resume_from=error.received` on a new stream asks it to.
- **Cancelling.** Leaving the `async with` ends a request. A model with credit is told so; one
  without has no other sign than the end of the whole call, so the stream ends too. For the same
  reason such a request must be alone on its stream: its slow reader would hold up the others.

The credit protocol, four lines in a model (`tests/inference/models/dripper` speaks it): all
requests of one reader carry the same `sequence_id`. The first (`sequence_start`) brings the inputs
and the tensor `WINDOW`, INT32 [1]: how many answers may be sent. Further ones bring `WINDOW` alone:
that many more. The last (`sequence_end`) brings a `WINDOW` of 0: the reader has gone, stop. All are
answered by an empty final response. Inputs are `optional: true`; a model with several instances
needs the direct sequence batcher, so that all of a sequence reach the same one, and then serves as
many readers as that has slots.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

import numpy as np

from inference.config import ModelRef, StreamConfig
from inference.deadline import Deadline
from inference.errors import (
    AttemptTimeoutError,
    BadResponseError,
    ClientClosedError,
    DeadlineExceededError,
    InferenceError,
    InvalidRequestError,
    ModelFailedError,
    ModelNotReadyError,
    QueueFullError,
    StoppingError,
    StreamLostError,
    UnknownModelError,
)
from inference.transport import StreamCall, StreamMessage, encode_request
from inference.values import InferResult, Tensor

__all__ = ["ModelStream", "StreamRequest"]

WINDOW = "WINDOW"
_CONTROL = "+"  # ends the ids of requests that only carry credit
_CLOSE_S = 1.0

# A request's error comes as words alone, without a code.
_WORDS: tuple[tuple[str, type[InferenceError]], ...] = (
    ("has no available versions", ModelNotReadyError),
    ("exceeds maximum queue size", QueueFullError),
    ("server is stopping", StoppingError),
    ("request for unknown model", UnknownModelError),
    ("failed to get model version", InvalidRequestError),
    ("inputs but got", InvalidRequestError),
    ("unexpected inference input", InvalidRequestError),
    ("unexpected shape", InvalidRequestError),
    ("unexpected datatype", InvalidRequestError),
    ("unexpected total byte size", InvalidRequestError),
)

OnEnd = Callable[[InferenceError | None], None]


class StreamRequest:
    """The answers to one request. Iterate inside ``async with``.

    Attributes:
        received: How many answers the reader has taken.
    """

    def __init__(
        self,
        stream: ModelStream,
        request_id: str,
        model: ModelRef,
        payload: bytes,
        *,
        window: int,
        sequence: int | None,
        deadline: Deadline,
    ) -> None:
        self.received = 0
        self._stream = stream
        self._id = request_id
        self._model = model
        self._payload = payload
        self._window = window
        self._sequence = sequence
        self._deadline = deadline
        self._buffer: deque[InferResult] = deque()
        self._changed = asyncio.Event()  # for the reader: an answer or the end has come
        self._room = asyncio.Event()  # for the stream: the reader has taken one
        self._error: InferenceError | None = None
        self._is_over = False
        self._is_in_hand = False
        self._owed = 0

    @property
    def with_credit(self) -> bool:
        return self._sequence is not None

    @property
    def buffered(self) -> int:
        """Answers that have come and were not taken yet; at most ``window``."""
        return len(self._buffer)

    async def __aenter__(self) -> Self:
        await self._stream._begin(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> InferResult:
        """The next answer, after giving credit for the one before.

        Raises:
            StopAsyncIteration: the model has finished.
            StreamLostError: the stream broke; ``received`` says after how many answers.
            AttemptTimeoutError: nothing came for ``idle_timeout_s``; the request goes on.
            DeadlineExceededError: the request's deadline has passed.
            InferenceError: this request failed; the stream goes on.
        """
        if self._is_in_hand:
            self._is_in_hand = False
            await self._return_credit()
        while not self._buffer:
            if self._error is not None:
                raise self._told(self._error)
            if self._is_over:
                raise StopAsyncIteration
            await self._wait()
        self.received += 1
        self._is_in_hand = True
        self._room.set()
        return self._buffer.popleft()

    def _told(self, error: InferenceError) -> InferenceError:
        if isinstance(error, StreamLostError):
            error.received = self.received
        return error

    async def _wait(self) -> None:
        self._changed.clear()
        idle_s = self._stream.config.idle_timeout_s
        left_s = self._deadline.remaining_s()
        try:
            async with asyncio.timeout(min(idle_s, left_s)):
                await self._changed.wait()
        except TimeoutError:
            if left_s <= idle_s:
                raise DeadlineExceededError(replica=self._stream.replica) from None
            raise AttemptTimeoutError(
                f"no answer for {idle_s:g} s", replica=self._stream.replica
            ) from None

    async def _return_credit(self) -> None:
        """Half a window at a time: the model never runs dry, and acknowledgements stay few."""
        if self._sequence is None or self._is_over:
            return
        self._owed += 1
        if self._owed >= max(1, self._window // 2):
            owed, self._owed = self._owed, 0
            await self._stream._send_credit(self, owed)

    async def aclose(self) -> None:
        """End the request; answers still on their way are dropped."""
        if not self._is_over:
            self._is_over = True
            self._buffer.clear()
            self._room.set()
            await self._stream._abandon(self)

    # ------------------------------------------------------------ the stream's side

    async def _take(self, answer: InferResult) -> None:
        """Keep an answer; without credit, wait for room first, so that nothing more is read."""
        if self.with_credit and len(self._buffer) >= self._window:
            raise BadResponseError("the model sent more answers than it had credit for")
        while len(self._buffer) >= self._window and not self._is_over:
            self._room.clear()
            await self._room.wait()
        if not self._is_over:
            self._buffer.append(answer)
            self._changed.set()

    def _end(self, error: InferenceError | None = None) -> None:
        if not self._is_over:
            self._is_over = True
            self._error = error
            self._changed.set()
            self._room.set()


class ModelStream:
    """One ModelStreamInfer call to one replica. ``AsyncModerationClient.open_stream`` makes it.

    Args:
        call: The call under way.
        replica: The name of the server at its other end.
        config: Window and idle time.
        on_end: Told once, when the call is over, with what broke it or None.
    """

    def __init__(self, call: StreamCall, replica: str, config: StreamConfig, on_end: OnEnd) -> None:
        self.replica = replica
        self.config = config
        self._call = call
        self._on_end = on_end
        self._ids = itertools.count(1)
        self._requests: dict[str, StreamRequest] = {}
        self._dropped: set[str] = set()
        self._writing = asyncio.Lock()
        self._broken: InferenceError | None = None
        self._is_closed = False
        self._reader = asyncio.create_task(self._read_all())

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
    def is_usable(self) -> bool:
        """Whether another request can be made on it."""
        return self._broken is None and not self._is_closed

    def request(
        self,
        model: ModelRef | str,
        inputs: Sequence[Tensor],
        *,
        outputs: Sequence[str] = (),
        parameters: Mapping[str, str | int | bool] | None = None,
        with_credit: bool = False,
        window: int | None = None,
        resume_from: int = 0,
        deadline: Deadline | None = None,
    ) -> StreamRequest:
        """A request, sent when its ``async with`` is entered.

        Args:
            model: Name, or name and version.
            inputs: Typed tensors.
            outputs: Names wanted; none means all.
            parameters: Request parameters.
            with_credit: The model speaks the credit protocol of this module.
            window: How many answers may wait here; by default ``config.window``.
            resume_from: Sent as a parameter of that name to a model that can start again after so
                many answers; 0 sends nothing.
            deadline: For the whole request; None means that only ``idle_timeout_s`` binds.
        """
        window = window or self.config.window
        request_id = str(next(self._ids))
        sequence = secrets.randbits(62) + 1 if with_credit else None
        sent = {"triton_enable_empty_final_response": True, **(parameters or {})}
        if resume_from:
            sent["resume_from"] = resume_from
        if sequence is not None:
            sent |= {"sequence_id": sequence, "sequence_start": True}
            inputs = [*inputs, _window_tensor(window)]
        ref = ModelRef(model) if isinstance(model, str) else model
        return StreamRequest(
            self,
            request_id,
            ref,
            encode_request(ref, request_id, inputs, outputs, sent),
            window=window,
            sequence=sequence,
            deadline=deadline or Deadline.never(),
        )

    async def _begin(self, request: StreamRequest) -> None:
        self._check_usable()
        others = self._requests.values()
        if others and not (request.with_credit and all(other.with_credit for other in others)):
            raise InvalidRequestError(
                "a request without credit must be alone on its stream: open another"
            )
        self._requests[request._id] = request
        try:
            await self._write(request._payload)
        except BaseException:
            self._requests.pop(request._id, None)
            raise

    def _check_usable(self) -> None:
        if self._broken is not None:
            raise StreamLostError(str(self._broken), replica=self.replica) from self._broken
        if self._is_closed:
            raise ClientClosedError("the stream is closed")

    async def _write(self, payload: bytes) -> None:
        async with self._writing:  # gRPC takes one message at a time
            self._check_usable()
            await self._call.write(payload)

    async def _send_credit(self, request: StreamRequest, answers: int) -> None:
        assert request._sequence is not None
        parameters: dict[str, str | int | bool] = {"sequence_id": request._sequence}
        if not answers:
            parameters["sequence_end"] = True
        control = encode_request(
            request._model,
            request._id + _CONTROL,
            [_window_tensor(answers)],
            (),
            {"triton_enable_empty_final_response": True, **parameters},
        )
        try:
            await self._write(control)
        except InferenceError:
            # The stream has gone. Its reader finds out why and tells every request, after the
            # answers that had come before.
            return

    async def _abandon(self, request: StreamRequest) -> None:
        """The reader left before the end."""
        if self._requests.pop(request._id, None) is None or not self.is_usable:
            return
        if request.with_credit:
            self._dropped.add(request._id)
            await self._send_credit(request, 0)
        else:
            await self.aclose()

    # ------------------------------------------------------------ reading

    async def _read_all(self) -> None:
        broken: InferenceError | None = None
        try:
            while (message := await self._call.read()) is not None:
                await self._deliver(message)
            if not self._is_closed:
                broken = StreamLostError("the server ended the stream", replica=self.replica)
        except InferenceError as error:
            broken = error
        finally:
            self._finish(broken)

    async def _deliver(self, message: StreamMessage) -> None:
        request_id = message.request_id.removesuffix(_CONTROL)
        request = self._requests.get(request_id)
        if request is None:
            self._check_known(request_id, message)
        elif message.error:
            self._fail(request, _error_from(message.error, self.replica))
        elif request_id == message.request_id:
            await self._pass_on(request, message)

    async def _pass_on(self, request: StreamRequest, message: StreamMessage) -> None:
        try:
            if message.result is not None:
                await request._take(message.result)
        except BadResponseError as error:
            await self._abandon(request)
            error.replica = self.replica
            request._end(error)
            return
        if message.is_final:
            self._requests.pop(request._id, None)
            request._end()

    def _check_known(self, request_id: str, message: StreamMessage) -> None:
        """Late answers of a request nobody reads any more are dropped; others are a breach."""
        is_control = message.request_id.endswith(_CONTROL)
        if request_id in self._dropped:
            if message.is_final and not is_control:
                self._dropped.discard(request_id)
        elif not is_control:
            self._call.cancel()
            raise BadResponseError("an answer carries the id of no request", replica=self.replica)

    def _fail(self, request: StreamRequest, error: InferenceError) -> None:
        self._requests.pop(request._id, None)
        request._end(error)

    def _finish(self, broken: InferenceError | None) -> None:
        if self._is_closed:
            broken = None
        self._broken = broken
        for request in list(self._requests.values()):
            self._fail(request, self._last_words(broken))
        self._on_end(broken)

    def _last_words(self, broken: InferenceError | None) -> InferenceError:
        if broken is None:
            return ClientClosedError("the stream was closed")
        lost = StreamLostError(str(broken), replica=self.replica)
        lost.__cause__ = broken
        return lost

    async def aclose(self) -> None:
        """End the stream. Unfinished requests are cancelled on the server."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._requests or self._broken is not None:
            self._call.cancel()
        else:
            await self._call.done_writing()
        await self._until_read()

    async def _until_read(self) -> None:
        try:
            async with asyncio.timeout(_CLOSE_S):
                await asyncio.shield(self._reader)
        except TimeoutError:
            # A server that does not hang up when we did: stop listening.
            self._call.cancel()
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)


def _window_tensor(answers: int) -> Tensor:
    return Tensor.from_array(WINDOW, np.array([answers], dtype=np.int32))


def _error_from(words: str, replica: str) -> InferenceError:
    """A model's own words may quote what it was given: those are not passed on."""
    lower = words.lower()
    for known, error_class in _WORDS:
        if known in lower:
            return error_class(words[:200], replica=replica)
    return ModelFailedError(replica=replica)
