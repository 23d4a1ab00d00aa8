"""Hashed character n-grams of a set of rows, as a sparse matrix to fit on."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from apps.releases.training.paths import load_ngrams

ngrams = load_ngrams()
LONGEST_NGRAM: int = ngrams.LONGEST_NGRAM
BUCKETS: int = ngrams.BUCKETS

Ids = NDArray[np.int64]


def length_scale(lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    """What a message's sum of weights is multiplied by: long texts must not win by being long."""
    scale: NDArray[np.float32] = (1.0 / np.sqrt(np.maximum(lengths, 1))).astype(np.float32)
    return scale


def feature_matrix(rows: Sequence[Ids]) -> sparse.csr_matrix:
    """`[rows, BUCKETS]`: how often each bucket occurs, times the length scale."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    gap = LONGEST_NGRAM - 1
    flat = np.zeros(int(lengths.sum()) + gap * len(rows), dtype=np.int64)
    owner = np.repeat(np.arange(len(rows)), lengths + gap)
    starts = np.cumsum(lengths + gap) - lengths - gap
    real = np.arange(len(flat)) - starts[owner] < lengths[owner]
    flat[real] = np.concatenate(rows) if len(rows) else []
    columns = np.concatenate([b[real] for b in ngrams.ngram_buckets(flat)]).astype(np.int32)
    row_of = np.tile(owner[real], LONGEST_NGRAM).astype(np.int32)
    values = length_scale(lengths)[row_of]
    matrix = sparse.csr_matrix((values, (row_of, columns)), shape=(len(rows), BUCKETS))
    matrix.sum_duplicates()
    return matrix
