"""What goes in and comes out: tensors, classifications, metadata. Nothing here knows the wire's
library; ``transport`` puts these on it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from inference.config import ModelRef
from inference.errors import BadResponseError, InferenceError, InvalidRequestError

__all__ = [
    "LABELS",
    "Classification",
    "InferResult",
    "ModelMetadata",
    "ModelStatistics",
    "Tensor",
    "TensorMetadata",
    "join_texts",
    "refused",
]

LABELS = ("ok", "spam", "toxic", "ad")
"""The order of ``Classification.scores``."""

DTYPES: Mapping[str, str] = {
    "BOOL": "?",
    "INT8": "<i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "UINT8": "<u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}
DATATYPES = {np.dtype(code): name for name, code in DTYPES.items()}
_LENGTH = struct.Struct("<I")
_PREFIXES = [_LENGTH.pack(length) for length in range(4096)]


class Classification(NamedTuple):
    """What the model concluded about one text.

    Attributes:
        scores: Probabilities in the order of ``LABELS``; all zero when ``error`` is set.
        undone: Bit mask of the obfuscations that normalising undid.
        error: Why this item, alone of its batch, has no scores; see ``classify``.
    """

    scores: tuple[float, float, float, float]
    undone: int
    error: InferenceError | None = None


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named array in the wire's own layout: row-major, little-endian, BYTES length-prefixed."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    raw: bytes

    @classmethod
    def from_array(cls, name: str, array: npt.NDArray[Any]) -> Tensor:
        """A numeric array; big-endian and strided ones are converted.

        Raises:
            InvalidRequestError: for a dtype the protocol has no name for.
        """
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        datatype = DATATYPES.get(little.dtype)
        if datatype is None:
            raise InvalidRequestError(f"input {name}: no wire type for dtype {array.dtype}")
        return cls(name, datatype, array.shape, little.tobytes())

    @classmethod
    def from_texts(
        cls, name: str, texts: Sequence[str | bytes], shape: tuple[int, ...] | None = None
    ) -> Tensor:
        """A BYTES tensor, by default of shape ``[len(texts), 1]``. NUL bytes survive.

        Raises:
            InvalidRequestError: for a text with a lone surrogate: it has no UTF-8.
        """
        return cls(name, "BYTES", shape or (len(texts), 1), join_texts(texts))

    def array(self) -> npt.NDArray[Any]:
        """A read-only view of the bytes, no copy.

        Raises:
            BadResponseError: the bytes do not fit the shape.
        """
        code = DTYPES.get(self.datatype)
        if code is None:
            raise BadResponseError(f"tensor {self.name}: {self.datatype} is not numeric")
        try:
            return np.frombuffer(self.raw, dtype=code).reshape(self.shape)
        except ValueError as error:
            raise BadResponseError(f"tensor {self.name}: bytes do not fit the shape") from error

    def texts(self) -> list[bytes]:
        """The elements of a BYTES tensor, flat.

        Raises:
            BadResponseError: a length prefix points past the end.
        """
        return list(_split_texts(self.name, self.raw))


def join_texts(texts: Sequence[str | bytes]) -> bytes:
    """Elements of a BYTES tensor, each behind its length.

    Raises:
        InvalidRequestError: for a text with a lone surrogate.
    """
    encoded = _encode(texts)
    parts = [b""] * (2 * len(encoded))
    # Packing each length anew takes longer than all the rest: 62 us against 27 for 256 texts.
    try:
        parts[::2] = map(_PREFIXES.__getitem__, map(len, encoded))
    except IndexError:
        parts[::2] = map(_LENGTH.pack, map(len, encoded))
    parts[1::2] = encoded
    return b"".join(parts)


def _encode(texts: Sequence[str | bytes]) -> list[bytes]:
    try:
        try:
            return list(map(str.encode, texts))  # type: ignore[arg-type]  # as they nearly always are
        except TypeError:
            return [text.encode() if isinstance(text, str) else text for text in texts]
    except UnicodeEncodeError as error:
        # The chained error would carry the text itself.
        raise InvalidRequestError(f"text is not valid Unicode at {error.start}") from None


def _split_texts(name: str, raw: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(raw):
        end = at + 4
        if end > len(raw):
            raise BadResponseError(f"tensor {name}: cut inside a length")
        start, end = end, end + _LENGTH.unpack_from(raw, at)[0]
        if end > len(raw):
            raise BadResponseError(f"tensor {name}: cut inside an element")
        yield raw[start:end]
        at = end


@dataclass(frozen=True, slots=True)
class InferResult:
    """One answer: its outputs by name, and who gave it."""

    outputs: Mapping[str, Tensor]
    model: ModelRef
    replica: str
    request_id: str

    def array(self, name: str) -> npt.NDArray[Any]:
        """Read-only view of a numeric output.

        Raises:
            BadResponseError: there is no such output.
        """
        return self._output(name).array()

    def texts(self, name: str) -> list[bytes]:
        return self._output(name).texts()

    def _output(self, name: str) -> Tensor:
        try:
            return self.outputs[name]
        except KeyError:
            raise BadResponseError(f"the answer has no output {name}") from None


@dataclass(frozen=True, slots=True)
class TensorMetadata:
    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]


@dataclass(frozen=True, slots=True)
class ModelStatistics:
    """Counters since the server loaded the model version; durations are sums.

    Triton 2.51 counts requests its full queue refused nowhere: this client's own events do.
    """

    name: str
    version: str
    inference_count: int
    execution_count: int
    success_count: int
    fail_count: int
    queue_count: int
    queue_ns: int
    compute_ns: int

    @property
    def mean_batch(self) -> float | None:
        return self.inference_count / self.execution_count if self.execution_count else None

    @property
    def mean_queue_ms(self) -> float | None:
        return self.queue_ns / self.queue_count / 1e6 if self.queue_count else None


def refused(error: InferenceError) -> Classification:
    """An item without scores. The error is stored, so it must not hold its frames' texts."""
    error.__context__ = None
    error.with_traceback(None)
    return Classification((0.0, 0.0, 0.0, 0.0), 0, error)
