"""Make probabilities mean what they say, with the validation split."""

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from apps.releases.training.fitting import Floats, softmax


def negative_log_likelihood(logits: Floats, labels: NDArray[np.int64]) -> float:
    chosen = softmax(logits)[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(chosen, 1e-12)).mean())


def fit_temperature(logits: Floats, labels: NDArray[np.int64]) -> float:
    """The number to divide logits by, so that confidence matches accuracy on these rows."""
    found = optimize.minimize_scalar(
        lambda t: negative_log_likelihood(logits / np.float32(t), labels),
        bounds=(0.2, 5.0),
        method="bounded",
    )
    return float(found.x)
