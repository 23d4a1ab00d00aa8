"""Sleeps as long as it is told, one request at a time."""

import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        sleep_ms = pb_utils.get_input_tensor_by_name(request, "SLEEP_MS").as_numpy()
        time.sleep(int(sleep_ms.flat[0]) / 1000)
        return pb_utils.InferenceResponse([pb_utils.Tensor("SLEPT_MS", sleep_ms)])
