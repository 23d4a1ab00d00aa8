"""Write the fitted weights as an ONNX graph that hashes, looks up and adds inside the server.

How it is fast:
* padding is cut away first, so a batch costs what its characters cost, not its longest message;
* a softmax does not see what is added to all labels, so three differences to `ok` say everything;
  they are three small integers in one word (`ngrams.py`), and one look-up and one addition serve
  all three;
* sums per message are differences of one running sum. The numbers are integers, so the running sum
  may wrap around: a message's logits do not depend on what else is in its batch, to the last bit.

The explainer reads the constants named weights, steps and offsets back from the file.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from apps.releases.training.paths import load_ngrams

ngrams = load_ngrams()

OPSET = 18
IR_VERSION = 9  # read by ONNX Runtime 1.19 (Triton 24.10) and later
LONGEST_NGRAM: int = ngrams.LONGEST_NGRAM
GAP = LONGEST_NGRAM - 1
# Words of one position fit lanes of 11 bits; sums of a chunk of positions get lanes of 21.
SUM_LANE_BITS = 21
CHUNK_CHARS = 1 << (SUM_LANE_BITS - max(ngrams.LANE_BITS))


def quantise(weights: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Differences to `ok` as integers, and what one step of each label is worth.

    Args:
        weights: `[BUCKETS, 4]`, columns in the order of `LABELS`.

    Returns:
        `[BUCKETS, 3]` integers within `LARGEST_WEIGHTS`, and `[3]` steps.
    """
    differences = weights[:, 1:] - weights[:, :1]
    steps = np.maximum(np.abs(differences).max(axis=0), 1e-6) / np.array(ngrams.LARGEST_WEIGHTS)
    return np.rint(differences / steps).astype(np.int64), steps.astype(np.float32)


class Graph:
    """Collects nodes and constants, and names them."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: object, dtype: type = np.int64, name: str = "") -> str:
        name = name or f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype=dtype), name))
        return name

    def __call__(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        name = output or f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name


def add_flat_rows(g: Graph) -> tuple[str, str]:
    """All rows one after the other, `GAP` zeros after each instead of padding; their lengths."""
    lengths = g("ReduceSum", "attention_mask", g.constant([1]), keepdims=1)
    clean = g("Mul", "input_ids", "attention_mask")
    padded = g("Pad", clean, g.constant([0, 0, 0, GAP]))
    width = g("Gather", g("Shape", padded), g.constant(1))
    columns = g("Range", g.constant(0), width, g.constant(1))
    inside = g("Less", columns, g("Add", lengths, g.constant(GAP)))
    one_row = g.constant([-1])
    flat = g("Compress", g("Reshape", padded, one_row), g("Reshape", inside, one_row))
    return flat, lengths


def add_buckets(g: Graph, flat: str) -> str:
    """`[positions, LONGEST_NGRAM]`: the buckets of the n-grams that start at each position."""
    extended = g("Concat", flat, g.constant([0] * GAP), axis=0)
    count = g("Shape", flat)
    multiplier, state_mask = g.constant(ngrams.MULTIPLIER), g.constant(ngrams.STATE_MASK)
    in_table = g.constant(ngrams.BUCKETS - 1)
    state, buckets = "", []
    for n in range(1, LONGEST_NGRAM + 1):
        end = g("Add", count, g.constant([n - 1]))
        character = g("Slice", extended, g.constant([n - 1]), end)
        step = g("Add", character, g.constant(n))
        mixed = g("Add", g("Mul", state, multiplier), step) if state else step
        state = g("BitwiseAnd", mixed, state_mask)
        buckets.append(g("BitwiseAnd", state, in_table))
    column = g.constant([-1, 1])
    return g("Concat", *(g("Reshape", bucket, column) for bucket in buckets), axis=1)


def add_position_sums(g: Graph, buckets: str, packed: NDArray[np.int32]) -> str:
    """For each position the sum of its words, its lanes moved apart for adding up positions."""
    found = g("Gather", g.constant(packed, np.int32, "weights"), buckets)
    # ONNX Runtime's sum of 32-bit integers goes through floats: it saturates.
    found = g("Cast", found, to=TensorProto.INT64)
    wide = g("ReduceSum", found, g.constant([1]), keepdims=0)
    total = ""
    for lane, (shift, bits) in enumerate(zip(ngrams.LANE_SHIFTS, ngrams.LANE_BITS, strict=True)):
        own = g("BitwiseAnd", wide, g.constant(((1 << bits) - 1) << shift))
        moved = g("Mul", own, g.constant(1 << (lane * SUM_LANE_BITS - shift)))
        total = g("Add", total, moved) if total else moved
    return total


def add_message_sums(g: Graph, sums: str, lengths: str) -> str:
    """`[batch, chunks]`: the sums of each message's chunks, lanes still together."""
    running = g("Concat", g.constant([0]), g("CumSum", sums, g.constant(0)), axis=0)
    start = g("CumSum", g("Add", lengths, g.constant(GAP)), g.constant(0), exclusive=1)
    longest = g("ReduceMax", lengths, keepdims=0)
    chunks = g("Add", g("Div", longest, g.constant(CHUNK_CHARS)), g.constant(2))
    edges = g("Mul", g("Range", g.constant(0), chunks, g.constant(1)), g.constant(CHUNK_CHARS))
    at_edges = g("Gather", running, g("Add", start, g("Min", lengths, edges)))
    end = g.constant([np.iinfo(np.int64).max])
    after = g("Slice", at_edges, g.constant([1]), end, g.constant([1]))
    before = g("Slice", at_edges, g.constant([0]), g.constant([-1]), g.constant([1]))
    return g("Sub", after, before)


def add_lane_sums(g: Graph, chunks: str, lengths: str) -> str:
    """`[batch, 3]`: each label's sum of signed weights."""
    mask, apart = g.constant((1 << SUM_LANE_BITS) - 1), g.constant(1 << SUM_LANE_BITS)
    sums = []
    for _ in range(ngrams.LANES):
        lane = g("BitwiseAnd", chunks, mask)
        sums.append(g("ReduceSum", lane, g.constant([1]), keepdims=1))
        chunks = g("Div", g("Sub", chunks, lane), apart)
    # Each of a position's n-grams added its lane's offset.
    offsets = g.constant([LONGEST_NGRAM * largest for largest in ngrams.LARGEST_WEIGHTS])
    return g("Sub", g("Concat", *sums, axis=1), g("Mul", lengths, offsets))


def build_model(
    weights: NDArray[np.float32], bias: NDArray[np.float32], temperature: float
) -> onnx.ModelProto:
    """The whole graph: `input_ids`, `attention_mask` INT64 [-1,-1] -> `logits` FP32 [-1,4]."""
    g = Graph()
    quantised, steps = quantise(weights)
    flat, lengths = add_flat_rows(g)
    sums = add_position_sums(g, add_buckets(g, flat), ngrams.pack(quantised))
    lanes = add_lane_sums(g, add_message_sums(g, sums, lengths), lengths)
    exact = g("Cast", lanes, to=TensorProto.FLOAT)
    characters = g("Cast", g("Max", lengths, g.constant(1)), to=TensorProto.FLOAT)
    per_length = g("Div", exact, g("Sqrt", characters))
    scaled = g("Mul", per_length, g.constant(steps / temperature, np.float32, "steps"))
    offset = (bias[1:] - bias[:1]) / temperature
    flagged = g("Add", scaled, g.constant(offset, np.float32, "offsets"))
    ok = g(
        "Mul",
        g("Slice", flagged, g.constant([0]), g.constant([1]), g.constant([1])),
        g.constant(0, np.float32),
    )
    g("Concat", ok, flagged, axis=1, output="logits")
    return finish(g)


def finish(g: Graph) -> onnx.ModelProto:
    """Wrap the nodes as a checked model with named, dynamic inputs and outputs."""
    rectangle = ["batch", "characters"]
    graph = helper.make_graph(
        g.nodes,
        "hashed_ngrams",
        [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, rectangle),
            helper.make_tensor_value_info("attention_mask", TensorProto.INT64, rectangle),
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 4])],
        g.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    return model


def write_model(model: onnx.ModelProto, path: Path) -> int:
    """Write the model, return its size in bytes."""
    content = model.SerializeToString(deterministic=True)
    path.write_bytes(content)
    return len(content)
