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

# Three weights in one 32-bit word, each label's logit less that of `ok`, with an offset that makes
# it positive. The lanes leave room for adding the words of all n-grams of one position.
LANE_SHIFTS = (0, 11, 22)
LANE_BITS = (11, 11, 10)
LARGEST_WEIGHTS = tuple(((1 << bits) - 1) // (2 * LONGEST_NGRAM) for bits in LANE_BITS)
LANES = len(LANE_SHIFTS)


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
    """`[n, 3]` weights within `LARGEST_WEIGHTS` as `[n]` INT32."""
    words = np.zeros(len(quantised), dtype=np.int64)
    for lane, (shift, largest) in enumerate(zip(LANE_SHIFTS, LARGEST_WEIGHTS, strict=True)):
        words |= (quantised[:, lane].astype(np.int64) + largest) << shift
    return words.astype(np.uint32).view(np.int32)


def unpack(packed: np.ndarray) -> np.ndarray:
    """The inverse of `pack`."""
    words = packed.view(np.uint32).astype(np.int64)
    lanes = zip(LANE_SHIFTS, LANE_BITS, LARGEST_WEIGHTS, strict=True)
    return np.stack([(words >> s & ((1 << b) - 1)) - largest for s, b, largest in lanes], axis=-1)
