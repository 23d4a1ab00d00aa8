"""Fit the linear model: seeded mini-batch descent with feature dropout.

Dropout over n-grams keeps the model from leaning on the few that name a source; it was worth two
points of AUC here. Step sizes fall with the fourth root of a weight's past gradients: with the
square root (Adagrad) rare Chinese n-grams overfit, with a common step English ones stay unused.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from apps.releases.training.corpus import LABELS

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FitOptions:
    """How long and how carefully to fit."""

    epochs: int = 8
    batch: int = 128
    step: float = 0.3
    dropout: float = 0.5
    gradient_power: float = 0.25
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
    probabilities: Floats = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def fit(
    features: sparse.csr_matrix,
    labels: NDArray[np.int64],
    sample_weights: Floats,
    *,
    seed: int,
    options: FitOptions | None = None,
    report: Callable[[int], None] = lambda epoch: None,
) -> LinearModel:
    """Descend on the weighted cross-entropy; the same inputs and seed give the same model."""
    options = options or FitOptions()
    rng = np.random.default_rng(seed)
    targets = np.eye(len(LABELS), dtype=np.float32)[labels]
    shape = (features.shape[1], len(LABELS))
    model = LinearModel(np.zeros(shape, np.float32), np.zeros(len(LABELS), np.float32))
    squares = np.zeros(shape, np.float32)
    count = len(labels)
    steps = options.epochs * -(-count // options.batch)
    done = 0
    for epoch in range(options.epochs):
        order = rng.permutation(count)
        for first in range(0, count, options.batch):
            rows = order[first : first + options.batch]
            step = options.step * (1 - done / steps)
            descend(
                model,
                squares,
                features[rows],
                targets[rows],
                sample_weights[rows],
                rng,
                step,
                options,
            )
            done += 1
        report(epoch + 1)
    return model


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
