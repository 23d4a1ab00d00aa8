"""The wire: KServe v2 over gRPC. The only module that imports grpc and tritonclient's stubs.

Requests are built on the protobuf messages themselves: tritonclient's own classes cost 32 us for
one text and 421 us for 256, the message alone 6 and 110. They are serialized once, before the
first attempt, so that a retry or a hedge costs nothing and the bytes in flight are known.

grpc.aio was measured against synchronous stubs: as fast as a blocking call in its own thread under
uvloop (0.76 ms against 0.77 for one text), ahead of the future API (an extra thread per channel)
and of an executor (0.92), and it needs one thread for any number of calls. Its price: one event
loop per process, see ``claim_loop``.
"""

from __future__ import annotations

import asyncio
import math
import os
import ssl
import struct
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple, cast

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2 as pb

from inference.config import ModelRef, PoolConfig, TlsConfig
from inference.errors import (
    AttemptTimeoutError,
    BadResponseError,
    ClientClosedError,
    InferenceError,
    MisconfiguredError,
)
from inference.retry import error_class_for
from inference.values import (
    Classification,
    InferResult,
    ModelMetadata,
    ModelStatistics,
    Tensor,
    TensorMetadata,
    join_texts,
    refused,
)

__all__ = [
    "Call",
    "Connection",
    "StreamCall",
    "StreamMessage",
    "check_files",
    "claim_loop",
    "credentials_from",
    "decode_classifications",
    "decode_result",
    "encode_request",
    "encode_texts",
    "release_loop",
]

SERVICE = "/inference.GRPCInferenceService/"
_SCORES = struct.Struct("<4f")
# The highest byte of a little-endian float, sign and most of the exponent: all but the two values
# it has from 2**127 on, infinities and NaN among them. One pass over bytes, where NumPy's three
# calls or a sum over the floats take five to ten times as long.
_BELOW_1E38 = bytes(set(range(256)) - {0x7F, 0xFF})


# ---------------------------------------------------------------- requests and answers


def encode_request(
    model: ModelRef,
    request_id: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[str] = (),
    parameters: Mapping[str, str | int | bool] | None = None,
) -> bytes:
    """A serialized ModelInferRequest with raw contents.

    Typed contents (``bytes_contents``) are cheaper to build, but the server pays more than that
    to unpack them: 3.54 ms against 3.08 for 16 texts end to end.
    """
    request = pb.ModelInferRequest(
        model_name=model.name, model_version=model.version, id=request_id
    )
    for tensor in inputs:
        request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        request.raw_input_contents.append(tensor.raw)
    for name in outputs:
        request.outputs.add(name=name)
    for name, value in (parameters or {}).items():
        _set_parameter(request.parameters[name], value)
    return cast(bytes, request.SerializeToString())


def _set_parameter(parameter: Any, value: str | int | bool) -> None:
    if isinstance(value, bool):
        parameter.bool_param = value
    elif isinstance(value, int):
        parameter.int64_param = value
    else:
        parameter.string_param = value


def encode_texts(model: ModelRef, request_id: str, texts: Sequence[str | bytes]) -> bytes:
    """The moderation request: TEXT BYTES [B, 1] -> SCORES FP32 [B, 4], UNDONE INT32 [B, 1]."""
    request = pb.ModelInferRequest(
        model_name=model.name, model_version=model.version, id=request_id
    )
    request.inputs.add(name="TEXT", datatype="BYTES", shape=(len(texts), 1))
    request.raw_input_contents.append(join_texts(texts))
    return cast(bytes, request.SerializeToString())


def decode_result(response: Any, request_id: str, replica: str) -> InferResult:
    """Check and read an answer without copying its tensors.

    Raises:
        BadResponseError: another request's answer, or not one raw content for each output.
    """
    _check_id(response, request_id)
    contents = response.raw_output_contents
    if len(contents) != len(response.outputs):
        raise BadResponseError(f"{len(response.outputs)} outputs, {len(contents)} raw contents")
    outputs = {
        output.name: Tensor(output.name, output.datatype, tuple(output.shape), raw)
        for output, raw in zip(response.outputs, contents, strict=True)
    }
    model = ModelRef(response.model_name, response.model_version)
    return InferResult(outputs, model, replica, request_id)


def _check_id(response: Any, request_id: str) -> None:
    if response.id != request_id:
        raise BadResponseError("the answer carries another request's id")


def decode_classifications(response: Any, request_id: str, count: int) -> list[Classification]:
    """Check and read the moderation answer.

    A row that is not finite is refused alone: the text that provokes it must not cost its
    neighbours their verdicts, nor the replica its good name. A whole batch of them is the model.

    Raises:
        BadResponseError: another request's answer, another number of rows, no finite row at all.
    """
    _check_id(response, request_id)
    raw = {
        output.name: content
        for output, content in zip(response.outputs, response.raw_output_contents, strict=False)
    }
    scores, undone = raw.get("SCORES", b""), raw.get("UNDONE", b"")
    if len(scores) != count * _SCORES.size or len(undone) != count * 4:
        raise BadResponseError(f"the answer has not {count} rows")
    rows = zip(
        _SCORES.iter_unpack(scores), struct.unpack(f"<{count}i", undone), repeat(None), strict=False
    )
    # A quarter of the price of calling the class, which is felt at 256 rows.
    classifications: list[Classification] = list(map(tuple.__new__, repeat(Classification), rows))
    if not _are_finite(scores):
        return _refuse_not_finite(classifications)
    return classifications


def _are_finite(scores: bytes) -> bool:
    """False when one of the floats is not finite, or so large that a closer look does no harm."""
    return not scores[3::4].translate(None, _BELOW_1E38)


def _refuse_not_finite(classifications: list[Classification]) -> list[Classification]:
    checked = [
        row if all(map(math.isfinite, row.scores)) else refused(_not_finite())
        for row in classifications
    ]
    if len(checked) > 1 and all(row.error for row in checked):
        raise _not_finite()
    return checked


def _not_finite() -> BadResponseError:
    return BadResponseError("a score is not a finite number")


# ---------------------------------------------------------------- one loop, no gevent

_loops: dict[int, weakref.ref[asyncio.AbstractEventLoop]] = {}


def claim_loop() -> asyncio.AbstractEventLoop:
    """The running loop, if it may use gRPC.

    Two loops in one process share grpc.aio's one poller: BlockingIOError noise, every wake-up
    wakes both (grpc#25364, grpc#42357). A closed loop gives its claim up.

    Raises:
        MisconfiguredError: another loop of this process uses gRPC, or gevent has patched
            threading without ``grpc.experimental.gevent.init_gevent()`` (grpc#27340).
    """
    loop = asyncio.get_running_loop()
    reference = _loops.get(os.getpid())
    owner = reference() if reference is not None else None
    if owner is not None and owner is not loop and not owner.is_closed():
        raise MisconfiguredError(
            "another event loop of this process already uses gRPC; share its client"
        )
    _refuse_bare_gevent()
    _loops[os.getpid()] = weakref.ref(loop)
    return loop


def release_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Give the claim up, once all channels of ``loop`` are closed."""
    reference = _loops.get(os.getpid())
    if reference is not None and reference() is loop:
        del _loops[os.getpid()]


def _refuse_bare_gevent() -> None:
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("threading"):
        return
    if "grpc.experimental.gevent" not in sys.modules:
        raise MisconfiguredError(
            "gevent has patched threading: call grpc.experimental.gevent.init_gevent() first, "
            "or use another worker pool"
        )


# ---------------------------------------------------------------- connections


def credentials_from(tls: TlsConfig) -> grpc.ChannelCredentials:
    """Read the PEM files as they are now."""

    def read(path: Path | None) -> bytes | None:
        return path.read_bytes() if path else None

    return grpc.ssl_channel_credentials(
        root_certificates=read(tls.ca_file),
        private_key=read(tls.key_file),
        certificate_chain=read(tls.cert_file),
    )


def check_files(tls: TlsConfig) -> None:
    """Raises: OSError (ssl.SSLError among them) when gRPC could not use the files as they are."""
    context = ssl.create_default_context(cafile=tls.ca_file)
    if tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, tls.key_file)


def _channel_options(pool: PoolConfig, tls: TlsConfig | None) -> list[tuple[str, int | str]]:
    options: list[tuple[str, int | str]] = [
        # Without it every channel to one address shares one TCP connection (grpc#20985).
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_send_message_length", pool.max_message_bytes),
        ("grpc.max_receive_message_length", pool.max_message_bytes),
        # http_proxy in the environment would hijack the channel (grpc#11751).
        ("grpc.enable_http_proxy", 0),
        # Ours know the deadline, the budget and the other replicas; both together multiply.
        ("grpc.enable_retries", 0),
        ("grpc.initial_reconnect_backoff_ms", pool.reconnect_first_ms),
        # In spite of its name: the least time an attempt to connect gets (subchannel.cc).
        ("grpc.min_reconnect_backoff_ms", pool.connect_timeout_ms),
        ("grpc.max_reconnect_backoff_ms", pool.reconnect_max_ms),
    ]
    if pool.keepalive_s is not None:
        options.append(("grpc.keepalive_time_ms", int(pool.keepalive_s * 1000)))
    if tls is not None and tls.server_name_override:
        options.append(("grpc.ssl_target_name_override", tls.server_name_override))
    return options


class Call:
    """One unary call under way. Its result can be waited for without owning its life.

    ``on_end`` is called once, when the last byte has come or the call has failed.
    """

    __slots__ = ("_call", "_loop", "_on_end", "_waiter", "is_done")

    def __init__(
        self, call: Any, loop: asyncio.AbstractEventLoop, on_end: Callable[[], None]
    ) -> None:
        self._call = call
        self._loop = loop
        self._on_end = on_end
        self._waiter: asyncio.Future[None] | None = None
        self.is_done = False
        # One callback for both uses: each costs grpc.aio a closure and a turn.
        call.add_done_callback(self._end)

    def _end(self, _: Any) -> None:
        self.is_done = True
        self._on_end()
        if self._waiter is not None:
            _resolve(self._waiter)

    def on_done(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` too at the end."""
        self._call.add_done_callback(lambda _: callback())

    def cancel(self) -> None:
        self._call.cancel()

    async def response(self, wait_s: float) -> Any:
        """Wait for the answer, at most ``wait_s``. Neither a timeout nor a cancelled waiter
        cancels the call: the caller of this keeps or cancels it.

        Raises:
            AttemptTimeoutError: no answer in time; the call goes on.
            InferenceError: the call failed; the class says how.
        """
        if not self.is_done:
            self._waiter = waiter = self._loop.create_future()
            timer = self._loop.call_later(wait_s, _resolve, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
            if not self.is_done:
                raise AttemptTimeoutError(f"no answer in {wait_s * 1000:.0f} ms")
        try:
            return await self._call
        except grpc.aio.AioRpcError as error:
            raise _translated(error) from None
        except asyncio.CancelledError:
            if self._call.cancelled() and not _is_being_cancelled():
                raise ClientClosedError("closed while the call was in flight") from None
            raise


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _translated(error: grpc.aio.AioRpcError) -> InferenceError:
    # Triton's messages can quote a request's parts (a request id, a shape), never a text; yet
    # an INTERNAL carries whatever a model's exception says, so that one is not passed on.
    code, message = error.code().name, error.details() or ""
    error_class = error_class_for(code, message)
    shown = code if code == "INTERNAL" else f"{code}: {message[:200]}"
    return error_class(shown)


class StreamMessage(NamedTuple):
    """One answer on a stream: a result, an error's words, or nothing but the sign of the end."""

    request_id: str
    error: str
    result: InferResult | None
    is_final: bool


class StreamCall:
    """One bidirectional call. One writer and one reader at a time."""

    __slots__ = ("_call", "_replica")

    def __init__(self, call: Any, replica: str) -> None:
        self._call = call
        self._replica = replica

    async def write(self, request: bytes) -> None:
        """Send a serialized ModelInferRequest; returns when the transport has room for more.

        Raises:
            InferenceError: the call is over.
        """
        try:
            await self._call.write(request)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            raise await self._why(error) from None

    async def _why(self, error: BaseException) -> InferenceError:
        if isinstance(error, grpc.aio.AioRpcError):
            return _translated(error)
        # Both are known at once: the call is over.
        code, message = await self._call.code(), await self._call.details()
        return error_class_for(code.name, message or "")(code.name)

    async def read(self) -> StreamMessage | None:
        """The next answer, or None when the server has ended the call in order.

        Raises:
            InferenceError: the call failed; the class says how.
        """
        try:
            answer = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise _translated(error) from None
        except asyncio.CancelledError:
            if self._call.cancelled() and not _is_being_cancelled():
                return None  # we hung up ourselves
            raise
        return None if answer is grpc.aio.EOF else _stream_message(answer, self._replica)

    async def done_writing(self) -> None:
        """Tell the server that no more requests will come."""
        await self._call.done_writing()

    def cancel(self) -> None:
        self._call.cancel()


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _stream_message(answer: Any, replica: str) -> StreamMessage:
    response = answer.infer_response
    parameters = response.parameters
    # Looking a missing key up would add it.
    is_final = "triton_final_response" in parameters and (
        parameters["triton_final_response"].bool_param
    )
    result = None
    if not answer.error_message and response.outputs:
        result = decode_result(response, response.id, replica)
    return StreamMessage(response.id, answer.error_message, result, is_final)


class Connection:
    """One TCP connection to one server, opened by the first call."""

    def __init__(
        self,
        address: str,
        pool: PoolConfig,
        tls: TlsConfig | None = None,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._loop = claim_loop()
        options = _channel_options(pool, tls)
        if tls is None:
            self._channel = grpc.aio.insecure_channel(address, options=options)
        else:
            self._channel = grpc.aio.secure_channel(address, credentials_from(tls), options)
        self._headers = tuple(headers) or None
        self._infer = self._channel.unary_unary(
            SERVICE + "ModelInfer",
            request_serializer=None,
            response_deserializer=pb.ModelInferResponse.FromString,
        )
        self._stream = self._channel.stream_stream(
            SERVICE + "ModelStreamInfer",
            request_serializer=None,
            response_deserializer=pb.ModelStreamInferResponse.FromString,
        )
        self.in_flight = 0

    def start_infer(self, request: bytes, timeout_s: float, on_end: Callable[[], None]) -> Call:
        """Send a serialized ModelInferRequest; ``timeout_s`` is the deadline on the wire."""
        call = self._infer(request, timeout=timeout_s, metadata=self._headers)
        return Call(call, self._loop, on_end)

    def open_stream(self, replica: str) -> StreamCall:
        """Begin a ModelStreamInfer call. It has no deadline on the wire: its requests have."""
        return StreamCall(self._stream(metadata=self._headers), replica)

    async def close(self) -> None:
        await self._channel.close()

    async def _ask(self, method: str, request: Any, answer: Any, timeout_s: float) -> Any:
        rpc = self._channel.unary_unary(
            SERVICE + method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        try:
            return await rpc(request, timeout=timeout_s, metadata=self._headers)
        except grpc.aio.AioRpcError as error:
            raise _translated(error) from None

    async def is_live(self, timeout_s: float) -> bool:
        """Raises: InferenceError when the server cannot be asked."""
        answer = await self._ask(
            "ServerLive", pb.ServerLiveRequest(), pb.ServerLiveResponse, timeout_s
        )
        return bool(answer.live)

    async def is_ready(self, timeout_s: float) -> bool:
        answer = await self._ask(
            "ServerReady", pb.ServerReadyRequest(), pb.ServerReadyResponse, timeout_s
        )
        return bool(answer.ready)

    async def is_model_ready(self, model: ModelRef, timeout_s: float) -> bool:
        request = pb.ModelReadyRequest(name=model.name, version=model.version)
        answer = await self._ask("ModelReady", request, pb.ModelReadyResponse, timeout_s)
        return bool(answer.ready)

    async def server_version(self, timeout_s: float) -> str:
        answer = await self._ask(
            "ServerMetadata", pb.ServerMetadataRequest(), pb.ServerMetadataResponse, timeout_s
        )
        return str(answer.version)

    async def model_metadata(self, model: ModelRef, timeout_s: float) -> ModelMetadata:
        request = pb.ModelMetadataRequest(name=model.name, version=model.version)
        answer = await self._ask("ModelMetadata", request, pb.ModelMetadataResponse, timeout_s)
        return ModelMetadata(
            name=answer.name,
            versions=tuple(answer.versions),
            platform=answer.platform,
            inputs=tuple(_tensor_metadata(tensor) for tensor in answer.inputs),
            outputs=tuple(_tensor_metadata(tensor) for tensor in answer.outputs),
        )

    async def statistics(self, model: ModelRef | None, timeout_s: float) -> list[ModelStatistics]:
        """Of one model, or of all that are loaded."""
        request = pb.ModelStatisticsRequest()
        if model is not None:
            request.name, request.version = model.name, model.version
        answer = await self._ask("ModelStatistics", request, pb.ModelStatisticsResponse, timeout_s)
        return [_statistics(entry) for entry in answer.model_stats]

    async def models(self, timeout_s: float) -> list[tuple[ModelRef, bool]]:
        """Every model version of the repository, and whether it is ready."""
        answer = await self._ask(
            "RepositoryIndex", pb.RepositoryIndexRequest(), pb.RepositoryIndexResponse, timeout_s
        )
        return [
            (ModelRef(entry.name, entry.version), entry.state == "READY") for entry in answer.models
        ]

    async def load_model(self, name: str, config_json: str | None, timeout_s: float) -> None:
        """A config given here replaces the file's whole config, it is not merged into it."""
        request = pb.RepositoryModelLoadRequest(model_name=name)
        if config_json is not None:
            request.parameters["config"].string_param = config_json
        await self._ask("RepositoryModelLoad", request, pb.RepositoryModelLoadResponse, timeout_s)

    async def unload_model(self, name: str, *, dependents: bool, timeout_s: float) -> None:
        request = pb.RepositoryModelUnloadRequest(model_name=name)
        request.parameters["unload_dependents"].bool_param = dependents
        await self._ask(
            "RepositoryModelUnload", request, pb.RepositoryModelUnloadResponse, timeout_s
        )


def _tensor_metadata(tensor: Any) -> TensorMetadata:
    return TensorMetadata(tensor.name, tensor.datatype, tuple(tensor.shape))


def _statistics(entry: Any) -> ModelStatistics:
    stats = entry.inference_stats
    return ModelStatistics(
        name=entry.name,
        version=entry.version,
        inference_count=entry.inference_count,
        execution_count=entry.execution_count,
        success_count=stats.success.count,
        fail_count=stats.fail.count,
        queue_count=stats.queue.count,
        queue_ns=stats.queue.ns,
        compute_ns=stats.compute_infer.ns,
    )
