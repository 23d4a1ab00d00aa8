"""Counts up to COUNT, as far as the reader's credit goes. MADE: answers made in all its life."""

import json
import threading

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class Credit:
    """What the reader still has room for."""

    def __init__(self, first):
        self._left = first
        self._is_ended = False
        self._changed = threading.Condition()

    def add(self, more):
        with self._changed:
            self._left += more
            self._changed.notify_all()

    def end(self):
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    def take(self):
        """Wait for room; False when the reader has gone."""
        with self._changed:
            self._changed.wait_for(lambda: self._left > 0 or self._is_ended)
            self._left -= 1
            return not self._is_ended


class TritonPythonModel:
    def initialize(self, args):
        self.credits = {}
        self.made = 0
        self.lock = threading.Lock()

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            count = self.read(request, "COUNT")
            window = self.read(request, "WINDOW")
            sequence = request.correlation_id()
            if count is None:
                self.hear(sequence, window)
                sender.send(flags=FINAL)
            else:
                self.begin(request, sender, sequence, count, window)

    def read(self, request, name):
        tensor = pb_utils.get_input_tensor_by_name(request, name)
        return None if tensor is None else int(tensor.as_numpy().flat[0])

    def hear(self, sequence, window):
        credit = self.credits.get(sequence)
        if credit is not None:
            credit.add(window) if window > 0 else credit.end()

    def begin(self, request, sender, sequence, count, window):
        if count < 0:
            error = pb_utils.TritonError("a count below zero")
            sender.send(pb_utils.InferenceResponse([], error), flags=FINAL)
            return
        credit = self.credits[sequence] = Credit(count if window is None else window)
        start = int(json.loads(request.parameters() or "{}").get("resume_from", 0))
        args = (sender, sequence, credit, start, count)
        threading.Thread(target=self.send, args=args).start()

    def send(self, sender, sequence, credit, start, count):
        for index in range(start, count):
            if not credit.take() or sender.is_cancelled():
                break
            with self.lock:
                self.made += 1
                made = self.made
            sender.send(pb_utils.InferenceResponse([tensor("INDEX", index), tensor("MADE", made)]))
        del self.credits[sequence]
        sender.send(flags=FINAL)


def tensor(name, value):
    return pb_utils.Tensor(name, np.array([value], dtype=np.int32))
