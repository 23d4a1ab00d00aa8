"""Hashed character n-grams: what the classifier's graph computes, in NumPy.

For training and for the explainer; a test holds it and the graph together. A window may hang over
the end of a message: the missing characters count as 0, so an ending is a feature of its own.
"""

import numpy as np

LONGEST_NGRAM = 5
BUCKET_BITS = 20
BUCKETS = 1 << BUCKET_BITS
# An odd 30-bit multiplier and a 31-bit state: products stay inside a signed 64-bit integer.
MULTIPLIER = 0x2545F491
STATE_MASK = (1 << 31) - 1

# Three weights of ten bits in one word: each label's logit less that of `ok`.
WEIGHT_BITS = 10
LARGEST_WEIGHT = (1 << (WEIGHT_BITS - 1)) - 1
LANES = 3


def ngram_buckets(ids: np.ndarray) -> list[np.ndarray]:
    """For each n up to `LONGEST_NGRAM`, the bucket of the n-gram that starts at each position."""
    padded = np.concatenate((ids, np.zeros(LONGEST_NGRAM, dtype=np.int64)))
    state = np.zeros(len(ids), dtype=np.int64)
    buckets = []
    for n in range(1, LONGEST_NGRAM + 1):
        state = (state * MULTIPLIER + padded[n - 1 : n - 1 + len(ids)] + n) & STATE_MASK
        buckets.append(state & (BUCKETS - 1))
    return buckets


def pack(quantised: np.ndarray) -> np.ndarray:
    """`[n, 3]` weights within `LARGEST_WEIGHT` as `[n]` INT32, each with an offset."""
    shifted = quantised.astype(np.int64) + LARGEST_WEIGHT + 1
    return sum(shifted[:, lane] << (WEIGHT_BITS * lane) for lane in range(LANES)).astype(np.int32)


def unpack(packed: np.ndarray) -> np.ndarray:
    """The inverse of `pack`."""
    mask = (1 << WEIGHT_BITS) - 1
    words = packed.astype(np.int64)
    lanes = [(words >> (WEIGHT_BITS * lane) & mask) - LARGEST_WEIGHT - 1 for lane in range(LANES)]
    return np.stack(lanes, axis=1)
