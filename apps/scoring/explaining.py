"""Why the default model says what it says: how much each character speaks for a label.

Asked for one message at a time by whoever looks at it, so the client is apart from the pipeline's:
impatient, without health checks of its own, made when first needed.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from django.conf import settings

from apps.policies.judging import LABELS
from apps.policies.models import Label
from apps.scoring.replicas import replica_configs
from inference import (
    ClientConfig,
    DeadlineConfig,
    HealthConfig,
    InferenceError,
    ModelRef,
    ModerationClient,
    Tensor,
)

EXPLAINER = "explainer"
# Whoever looks at a message has long decided before they would wait any longer.
BUDGET_MS = 2_000.0


class ExplainerAwayError(Exception):
    """Triton did not answer in time, or does not serve the explainer."""


def contributions(text: str, label: Label) -> npt.NDArray[np.float32]:
    """How much each code point of `text` speaks for `label`, in logits against `ok`.

    The newest default classifier answers, whichever release gave the verdict.

    Returns:
        `[len(text)]`.

    Raises:
        ExplainerAwayError: There is no answer to be had now.
    """
    if not text:
        return np.zeros(0, dtype=np.float32)
    try:
        answer = _client().infer(EXPLAINER, [Tensor.from_texts("TEXT", [text])], ["CONTRIBUTIONS"])
        shares = answer.array("CONTRIBUTIONS")[0]
    except InferenceError as error:
        raise ExplainerAwayError(error.kind) from error
    found: npt.NDArray[np.float32] = shares[: len(text), LABELS.index(label)]
    return found


@cache
def _client() -> ModerationClient:
    config = ClientConfig(
        replicas=replica_configs(settings.TRITON_REPLICAS),
        model=ModelRef(EXPLAINER),
        deadlines=DeadlineConfig(default_budget_ms=BUDGET_MS, attempt_timeout_ms=BUDGET_MS / 2),
        health=HealthConfig(enabled=False),
    )
    return ModerationClient(config)
