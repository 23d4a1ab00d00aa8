"""A python-based Triton backend named `onnxruntime`, over the onnxruntime wheel.

The server that comes in nvidia-pytriton has no ONNX backend. With this folder among its backends,
a model whose config says `backend: "onnxruntime"` is served by it, so the same `triton_models/`
runs here and on NVIDIA's image, where the C++ backend takes the place of this file. It reads the
options of the C++ backend that matter on a CPU: `default_model_filename` and the thread counts.

Requests of one dynamic batch differ in shape (rows padded to each request's own longest), so equal
shapes run together and the rest one by one.
"""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

RUN_ERRORS = (Fail, InvalidArgument, RuntimeException)  # they share no base but Exception
DEFAULT_FILENAME = "model.onnx"
THREAD_OPTIONS = {
    "intra_op_thread_count": "intra_op_num_threads",
    "inter_op_thread_count": "inter_op_num_threads",
}


def parameter(config: dict, name: str) -> str | None:
    """A string parameter of config.pbtxt, or None."""
    value = config.get("parameters", {}).get(name)
    return value["string_value"] if value else None


def session_options(config: dict) -> onnxruntime.SessionOptions:
    """One thread unless the config says otherwise: instances are how a CPU is shared out."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for name, attribute in THREAD_OPTIONS.items():
        if (value := parameter(config, name)) is not None:
            setattr(options, attribute, int(value))
    # Threads that spin while they wait would take the cores from the other models.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


class TritonPythonModel:
    """One ONNX Runtime session an instance."""

    def initialize(self, args: dict[str, str]) -> None:
        config = json.loads(args["model_config"])
        filename = config.get("default_model_filename") or DEFAULT_FILENAME
        path = Path(args["model_repository"]) / args["model_version"] / filename
        self.session = onnxruntime.InferenceSession(
            str(path), session_options(config), providers=["CPUExecutionProvider"]
        )
        self.input_names = [tensor.name for tensor in self.session.get_inputs()]
        self.output_names = [tensor.name for tensor in self.session.get_outputs()]
        self.is_batched = config.get("max_batch_size", 0) > 0

    def execute(self, requests: list) -> list:
        feeds = [self._feed(request) for request in requests]
        by_shape: dict[tuple, list[int]] = defaultdict(list)
        for index, feed in enumerate(feeds):
            # Without a batch axis nothing can be joined: each request is a group of its own.
            shapes = tuple(array.shape[1:] for array in feed.values())
            by_shape[shapes if self.is_batched else (index,)].append(index)
        responses: list = [None] * len(requests)
        for indexes in by_shape.values():
            self._run_together(feeds, indexes, responses)
        return responses

    def _feed(self, request: object) -> dict[str, np.ndarray]:
        return {
            name: pb_utils.get_input_tensor_by_name(request, name).as_numpy()
            for name in self.input_names
        }

    def _run_together(self, feeds: list, indexes: list[int], responses: list) -> None:
        """Run requests of one shape as one batch; a failure is theirs alone."""
        chosen = [feeds[i] for i in indexes]
        joined = {
            name: chosen[0][name] if len(chosen) == 1 else np.concatenate([f[name] for f in chosen])
            for name in self.input_names
        }
        try:
            outputs = self.session.run(self.output_names, joined)
        except RUN_ERRORS as error:
            failure = pb_utils.TritonError(f"ONNX Runtime: {type(error).__name__}")
            for index in indexes:
                responses[index] = pb_utils.InferenceResponse(error=failure)
            return
        first = 0
        for index in indexes:
            rows = len(feeds[index][self.input_names[0]]) if self.is_batched else None
            own = [o[first : first + rows] if rows is not None else o for o in outputs]
            first += rows or 0
            responses[index] = pb_utils.InferenceResponse(
                [
                    pb_utils.Tensor(name, array)
                    for name, array in zip(self.output_names, own, strict=True)
                ]
            )

    def finalize(self) -> None:
        del self.session
