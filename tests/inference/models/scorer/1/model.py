"""Scores by the text's own words, so that a test can foresee every answer.

``spam``, ``toxic`` and ``ad`` raise their label; ``poison`` raises an exception;
``notanumber`` answers NaN; ``sleep=N`` holds the batch for N milliseconds.
"""

import re
import time

import numpy as np
import triton_python_backend_utils as pb_utils

LABELS = (b"ok", b"spam", b"toxic", b"ad")
SLEEP = re.compile(rb"sleep=(\d+)")


def score(text: bytes) -> list[float]:
    if b"poison" in text:
        raise ValueError("a poisoned item")
    if b"notanumber" in text:
        return [float("nan")] * 4
    named = [index for index, label in enumerate(LABELS) if label in text and index]
    row = [0.01] * 4
    row[named[0] if named else 0] = 0.97
    return row


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().reshape(-1)
        sleeps_ms = [int(m.group(1)) for text in texts if (m := SLEEP.search(text))]
        time.sleep(max(sleeps_ms, default=0) / 1000)
        scores = np.array([score(text) for text in texts], dtype=np.float32).reshape(-1, 4)
        undone = np.array([[len(text) % 8] for text in texts], dtype=np.int32)
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("SCORES", scores), pb_utils.Tensor("UNDONE", undone)]
        )
