"""Fit the linear model: seeded mini-batch descent with feature dropout, several times, averaged.

Dropout over n-grams keeps the model from leaning on the few that name a source; it was worth two
points of AUC here. Step sizes fall with a low power of a weight's past gradients: with the square
root (Adagrad) rare Chinese n-grams overfit, with a common step English ones stay unused. The mean
of several fits is a linear model again, so their vote costs nothing at run time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from apps.releases.training.corpus import LABELS

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FitOptions:
    """How long and how carefully to fit."""

    fits: int = 2
    epochs: int = 8
    batch: int = 128
    step: float = 0.6
    dropout: float = 0.4
    gradient_power: float = 0.15
    bias_step: float = 0.1


@dataclass(slots=True)
class LinearModel:
    """`[BUCKETS, 4]` weights, `[4]` bias."""

    weights: Floats
    bias: Floats

    def logits(self, features: sparse.csr_matrix) -> Floats:
        return np.asarray(features @ self.weights + self.bias, dtype=np.float32)


def softmax(logits: Floats) -> Floats:
    """Probabilities, a row a message."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), dtype=np.float32)


def fit(
    features: sparse.csr_matrix,
    labels: NDArray[np.int64],
    sample_weights: Floats,
    *,
    seed: int,
    options: FitOptions | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> LinearModel:
    """Descend on the weighted cross-entropy; the same inputs and seed give the same model."""
    options = options or FitOptions()
    targets = np.eye(len(LABELS), dtype=np.float32)[labels]
    mean = empty_model(features.shape[1])
    for number in range(options.fits):
        rng = np.random.default_rng((seed, number))
        one = empty_model(features.shape[1])
        for epoch in descend_by_epochs(one, features, targets, sample_weights, rng, options):
            report(f"fit {number + 1} of {options.fits}, epoch {epoch} of {options.epochs}")
        mean.weights += one.weights / options.fits
        mean.bias += one.bias / options.fits
    return mean


def empty_model(buckets: int) -> LinearModel:
    shape = (buckets, len(LABELS))
    return LinearModel(np.zeros(shape, np.float32), np.zeros(len(LABELS), np.float32))


def descend_by_epochs(
    model: LinearModel,
    features: sparse.csr_matrix,
    targets: Floats,
    sample_weights: Floats,
    rng: np.random.Generator,
    options: FitOptions,
) -> Iterator[int]:
    """Fit `model` in place, giving the number of each epoch as it ends."""
    squares = np.zeros_like(model.weights)
    count = len(targets)
    steps = options.epochs * -(-count // options.batch)
    done = 0
    for epoch in range(1, options.epochs + 1):
        order = rng.permutation(count)
        for first in range(0, count, options.batch):
            rows = order[first : first + options.batch]
            step = options.step * (1 - done / steps)
            batch = (features[rows], targets[rows], sample_weights[rows])
            descend(model, squares, *batch, rng, step, options)
            done += 1
        yield epoch


def descend(
    model: LinearModel,
    squares: Floats,
    batch: sparse.csr_matrix,
    targets: Floats,
    sample_weights: Floats,
    rng: np.random.Generator,
    step: float,
    options: FitOptions,
) -> None:
    """One step on the weights of the n-grams that occur in the batch."""
    used, position = np.unique(batch.indices, return_inverse=True)
    kept = rng.random(len(batch.data), dtype=np.float32) >= options.dropout
    values = batch.data * kept / np.float32(1 - options.dropout)
    small = sparse.csr_matrix(
        (values, position.astype(np.int32), batch.indptr), shape=(batch.shape[0], len(used))
    )
    weights = model.weights[used]
    errors = (softmax(small @ weights + model.bias) - targets) * sample_weights[:, None]
    gradient = small.T @ errors.astype(np.float32)
    total = squares[used] + gradient * gradient
    squares[used] = total
    model.weights[used] = weights - step * gradient / (total + 1e-8) ** options.gradient_power
    model.bias -= np.float32(step * options.bias_step) * errors.mean(axis=0).astype(np.float32)
