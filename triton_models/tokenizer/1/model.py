"""Triton python model: UTF-8 texts to character ids, with a note of what was undone."""

from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from normalizer import Encoded, Normalizer

UNPADDED = -1


class TritonPythonModel:
    """Encodes all requests of a dynamic batch in one pass over one array."""

    def initialize(self, args: dict[str, str]) -> None:
        directory = Path(args["model_repository"]) / args["model_version"]
        self.normalizer = Normalizer(directory)

    def execute(self, requests: list) -> list:
        texts = [
            pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().reshape(-1).tolist()
            for request in requests
        ]
        encoded = self.normalizer.encode([text for own in texts for text in own])
        responses, first = [], 0
        for request, own in zip(requests, texts, strict=True):
            tensors = tensors_of(encoded, first, first + len(own))
            first += len(own)
            wanted = set(request.requested_output_names())
            if wanted & {"NORMALIZED", "OFFSETS"}:
                tensors += self._explaining_tensors(own)
            responses.append(pb_utils.InferenceResponse([t for t in tensors if t.name() in wanted]))
        return responses

    def _explaining_tensors(self, texts: list[bytes]) -> list:
        """Each normalised text and the raw index of its characters, padded with -1."""
        normalized = [self.normalizer.normalize(text.decode("utf-8", "replace")) for text in texts]
        longest = max(1, *(len(one.offsets) for one in normalized))
        offsets = np.full((len(texts), longest), UNPADDED, dtype=np.int32)
        for row, one in enumerate(normalized):
            offsets[row, : len(one.offsets)] = one.offsets
        encoded = np.array([[one.text.encode()] for one in normalized], dtype=object)
        return [pb_utils.Tensor("NORMALIZED", encoded), pb_utils.Tensor("OFFSETS", offsets)]


def tensors_of(encoded: Encoded, first: int, end: int) -> list:
    """One request's rows, no wider than its own longest message."""
    mask = encoded.attention_mask[first:end]
    width = max(1, int(mask.sum(axis=1).max(initial=0)))
    return [
        pb_utils.Tensor("input_ids", np.ascontiguousarray(encoded.input_ids[first:end, :width])),
        pb_utils.Tensor("attention_mask", np.ascontiguousarray(mask[:, :width])),
        pb_utils.Tensor("UNDONE", encoded.undone[first:end].reshape(-1, 1)),
    ]
