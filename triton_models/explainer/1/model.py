"""Triton python model: how much each character of a text speaks for each label.

The default classifier is linear, so this is exact: an n-gram's weight is shared evenly among its
characters, and CONTRIBUTIONS summed over the text, plus the labels' offsets, are the logits.
Rows are the characters (code points) of the raw text; those that normalising took away have zeros.
"""

import sys
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from onnx_constants import read_constants

LABELS = 4


def newest_version(model: Path) -> Path:
    """The folder of the highest version, as the server picks it."""
    return max((p for p in model.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))


class Explainer:
    """The classifier's weights beside the tokenizer's code, both read from their own models."""

    def __init__(self, repository: Path) -> None:
        tokenizer = newest_version(repository / "tokenizer")
        sys.path.insert(0, str(tokenizer))
        import ngrams
        from normalizer import Normalizer

        self._ngrams = ngrams
        self._normalizer = Normalizer(tokenizer)
        names = {"weights", "steps", "offsets"}
        stored = read_constants(newest_version(repository / "classifier") / "model.onnx", names)
        self._packed, self._steps = stored["weights"], stored["steps"]
        self.offsets = np.concatenate(([0.0], stored["offsets"]))

    def contributions(self, text: str) -> np.ndarray:
        """`[code points of text, 4]`, in logits against `ok`."""
        normalized = self._normalizer.normalize(text)
        ids = self._normalizer.ids(normalized.text)
        raw = self._normalizer.id_offsets(normalized)
        shares = np.zeros((len(ids), self._ngrams.LANES))
        for n, buckets in enumerate(self._ngrams.ngram_buckets(ids), 1):
            weights = self._ngrams.unpack(self._packed[buckets])
            covered = np.minimum(n, len(ids) - np.arange(len(ids)))
            for place in range(n):
                inside = covered > place
                np.add.at(
                    shares, np.flatnonzero(inside) + place, (weights / covered[:, None])[inside]
                )
        found = np.zeros((len(text), LABELS), dtype=np.float32)
        scale = self._steps / np.sqrt(max(1, len(ids)))
        np.add.at(found[:, 1:], raw, (shares * scale).astype(np.float32))
        return found


class TritonPythonModel:
    """Answers the review card, one message or a few at a time."""

    def initialize(self, args: dict[str, str]) -> None:
        self.explainer = Explainer(Path(args["model_repository"]).parent)

    def execute(self, requests: list) -> list:
        return [self._explain(request) for request in requests]

    def _explain(self, request: object) -> object:
        texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().reshape(-1)
        found = [self.explainer.contributions(text.decode("utf-8", "replace")) for text in texts]
        longest = max(1, *(len(rows) for rows in found))
        padded = np.zeros((len(found), longest, LABELS), dtype=np.float32)
        for row, own in enumerate(found):
            padded[row, : len(own)] = own
        return pb_utils.InferenceResponse([pb_utils.Tensor("CONTRIBUTIONS", padded)])
