"""A worker that dies, as by a fault in native code, when it encodes a text with `deadly` in it."""

import os
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import django

django.setup()

from apps.scoring.measuring import Measurements  # noqa: E402
from apps.scoring.pipeline import Pipeline  # noqa: E402
from apps.scoring.replicas import new_client  # noqa: E402
from inference import Classification, ModerationClient  # noqa: E402


class Fragile(ModerationClient):
    def classify_nowait(
        self, texts: Sequence[str | bytes], **options: Any
    ) -> Future[list[Classification]]:
        if any("deadly" in str(text) for text in texts):
            os.abort()
        return super().classify_nowait(texts, **options)


with new_client() as plain, Fragile(plain.config) as client:
    Pipeline(client, Measurements("worker")).drain(for_s=30)
