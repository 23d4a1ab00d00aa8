"""The exported model, run as the server runs it: what is measured is what is served."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from apps.releases.training.fitting import Floats, softmax
from apps.releases.training.paths import load_normalizer

BATCH = 256


class ServedModel:
    """Tokenizer and ONNX graph of a model repository in this process."""

    def __init__(self, repository: Path, table: Path) -> None:
        words = (repository / "tokenizer" / "1" / "lexicon.txt").read_text("ascii").split()
        self._normalizer = load_normalizer().Normalizer(table, frozenset(words))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(repository / "classifier" / "1" / "model.onnx"),
            options,
            providers=["CPUExecutionProvider"],
        )

    def scores(self, texts: Sequence[str]) -> Floats:
        """Probabilities of ok, spam, toxic, ad for each text, in the order given."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        scores = np.zeros((len(texts), 4), dtype=np.float32)
        for first in range(0, len(order), BATCH):
            batch = order[first : first + BATCH]
            encoded = self._normalizer.encode([texts[i].encode() for i in batch])
            scores[batch] = softmax(self._run(encoded.input_ids, encoded.attention_mask))
        return scores

    def _run(self, input_ids: NDArray[np.int64], attention_mask: NDArray[np.int64]) -> Floats:
        feed = {"input_ids": input_ids, "attention_mask": attention_mask}
        logits: Floats = self._session.run(["logits"], feed)[0]
        return logits

    def microseconds_per_message(self, texts: Sequence[str]) -> tuple[float, float]:
        """CPU time of the tokenizer and of the graph, length-sorted batches of 256, one thread."""
        ordered = sorted(texts, key=len)
        batches = [
            [t.encode() for t in ordered[i : i + BATCH]] for i in range(0, len(ordered), BATCH)
        ]
        started = time.process_time()
        encoded = [self._normalizer.encode(batch) for batch in batches]
        tokenised = time.process_time()
        for one in encoded:
            self._run(one.input_ids, one.attention_mask)
        ended = time.process_time()
        return tuple(1e6 * s / len(texts) for s in (tokenised - started, ended - tokenised))  # type: ignore[return-value]
