"""Read named constants out of an ONNX file, without the onnx package.

The embedded Triton's environment has only a runtime for ONNX, and NVIDIA's image not even that in
Python. The file is a protobuf: ModelProto.graph is field 7, GraphProto.initializer field 5, and a
TensorProto has dims (1), data_type (2), name (8) and raw_data (9).
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

GRAPH, INITIALIZER = 7, 5
DIMS, DATA_TYPE, NAME, RAW_DATA = 1, 2, 8, 9
DTYPES = {1: np.float32, 6: np.int32, 7: np.int64}
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Field numbers with their varint or bytes; fixed-width fields are stepped over."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = read_varint(data, at)
            yield number, value
        elif kind == BYTES:
            length, at = read_varint(data, at)
            yield number, data[at : at + length]
            at += length
        elif kind in (FIXED32, FIXED64):
            at += 4 if kind == FIXED32 else 8
        else:
            raise ValueError(f"not a protobuf: wire type {kind}")


def read_dims(value: int | memoryview) -> list[int]:
    """Dimensions come one by one or packed."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        dim, at = read_varint(value, at)
        found.append(dim)
    return found


def read_tensor(data: memoryview) -> tuple[str, np.ndarray | None]:
    """A constant's name and value; None if it isn't stored as raw bytes of a type used here."""
    name, dtype, raw, dims = "", 0, None, []
    for number, value in fields(data):
        if number == NAME:
            name = bytes(value).decode()
        elif number == DATA_TYPE:
            dtype = value
        elif number == RAW_DATA:
            raw = value
        elif number == DIMS:
            dims += read_dims(value)
    if raw is None or dtype not in DTYPES:
        return name, None
    return name, np.frombuffer(raw, dtype=DTYPES[dtype]).reshape(dims)


def read_constants(path: Path, names: set[str]) -> dict[str, np.ndarray]:
    """The named constants of the graph.

    Raises:
        KeyError: the file lacks one of them: it is not the default classifier.
    """
    found = {}
    for number, graph in fields(memoryview(path.read_bytes())):
        if number == GRAPH:
            tensors = (read_tensor(value) for field, value in fields(graph) if field == INITIALIZER)
            found.update({name: value for name, value in tensors if name in names})
    if missing := names - found.keys():
        raise KeyError(f"{path.name} has no constant {', '.join(sorted(missing))}")
    return found
