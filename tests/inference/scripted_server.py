"""A KServe v2 gRPC server that does what the real one can't be made to: see `Script`."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any

import grpc
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as stubs

from inference import ReplicaConfig

Infer = Callable[[Any, grpc.ServicerContext], Any]
Stream = Callable[[Iterator[Any], grpc.ServicerContext], Iterator[Any]]


def batch_of(request: Any) -> int:
    return int(request.inputs[0].shape[0])


def answer(request: Any, context: grpc.ServicerContext | None = None) -> Any:
    """As the moderation model would, were every text `ok`."""
    rows = batch_of(request)
    response = pb.ModelInferResponse(model_name=request.model_name, id=request.id)
    response.outputs.add(name="SCORES", datatype="FP32", shape=[rows, 4])
    response.outputs.add(name="UNDONE", datatype="INT32", shape=[rows, 1])
    response.raw_output_contents.append(struct.pack("<4f", 1, 0, 0, 0) * rows)
    response.raw_output_contents.append(struct.pack("<i", 0) * rows)
    return response


def fail_with(code: grpc.StatusCode, message: str) -> Infer:
    """A code and a message of the test's choice."""

    def fail(request: Any, context: grpc.ServicerContext) -> Any:
        context.abort(code, message)

    return fail


def with_wrong_id(request: Any, context: grpc.ServicerContext) -> Any:
    response = answer(request)
    response.id += "-of-another"
    return response


def with_rows(rows: int) -> Infer:
    """An answer for another number of texts than was asked."""

    def respond(request: Any, context: grpc.ServicerContext) -> Any:
        other = pb.ModelInferRequest()
        other.CopyFrom(request)
        other.inputs[0].shape[0] = rows
        return answer(other)

    return respond


def not_a_number(request: Any, context: grpc.ServicerContext) -> Any:
    response = answer(request)
    response.raw_output_contents[0] = struct.pack("<4f", *[float("nan")] * 4) * batch_of(request)
    return response


def after(event: threading.Event, then: Infer = answer) -> Infer:
    """Holds every call until the test sets the event."""

    def hold(request: Any, context: grpc.ServicerContext) -> Any:
        event.wait()
        return then(request, context)

    return hold


def in_turn(*steps: Infer) -> Infer:
    """The first call gets the first step, and so on; the last step is kept."""
    lock, left = threading.Lock(), list(steps)

    def step(request: Any, context: grpc.ServicerContext) -> Any:
        with lock:
            current = left.pop(0) if len(left) > 1 else left[0]
        return current(request, context)

    return step


def streamed(request_id: str, index: int = 0, *, is_final: bool = False) -> Any:
    """One answer of a decoupled model; a final one carries nothing."""
    response = pb.ModelStreamInferResponse()
    response.infer_response.id = request_id
    response.infer_response.parameters["triton_final_response"].bool_param = is_final
    if not is_final:
        response.infer_response.outputs.add(name="INDEX", datatype="INT32", shape=[1])
        response.infer_response.raw_output_contents.append(struct.pack("<i", index))
    return response


def no_stream(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "this script has no stream")
    yield from ()


@dataclass
class Script(stubs.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """What the server does. Both may be replaced while it runs; `seen` are the batch sizes."""

    infer: Infer = answer
    stream: Stream = no_stream
    seen: list[int] = field(default_factory=list)

    def ModelInfer(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self.seen.append(batch_of(request))
        return self.infer(request, context)

    def ModelStreamInfer(  # noqa: N802
        self, request_iterator: Iterator[Any], context: grpc.ServicerContext
    ) -> Iterator[Any]:
        yield from self.stream(request_iterator, context)

    def ServerReady(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        return pb.ServerReadyResponse(ready=True)

    def ModelReady(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        return pb.ModelReadyResponse(ready=True)


class ScriptedServer:
    """Serves a script on a port of its own until `close`."""

    def __init__(self, script: Script, name: str = "scripted") -> None:
        self.script = script
        # Without it a second server in this process may share the port of the first.
        options = [("grpc.so_reuseport", 0)]
        self._server = grpc.server(futures.ThreadPoolExecutor(64), options=options)
        stubs.add_GRPCInferenceServiceServicer_to_server(script, self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        self.replica = ReplicaConfig(name, grpc=f"127.0.0.1:{port}")

    def close(self) -> None:
        self._server.stop(grace=None).wait()
