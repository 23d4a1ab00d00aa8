"""Counts up to COUNT, EVERY_MS apart; -1 raises before the first answer."""

import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            count = int(self.read(request, "COUNT"))
            every_s = int(self.read(request, "EVERY_MS")) / 1000
            sender = request.get_response_sender()
            threading.Thread(target=self.send, args=(sender, count, every_s)).start()

    def read(self, request, name):
        return pb_utils.get_input_tensor_by_name(request, name).as_numpy().flat[0]

    def send(self, sender, count, every_s):
        final = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        if count < 0:
            error = pb_utils.TritonError("a count below zero")
            sender.send(pb_utils.InferenceResponse([], error), flags=final)
            return
        for index in range(count):
            if sender.is_cancelled():
                break
            tensor = pb_utils.Tensor("INDEX", np.array([index], dtype=np.int32))
            sender.send(pb_utils.InferenceResponse([tensor]))
            time.sleep(every_s)
        sender.send(flags=final)
