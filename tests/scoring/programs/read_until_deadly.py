"""A worker that dies, as by a fault in native code, when the lists read `deadly` in a text."""

import os

import django

django.setup()

from apps.policies.matching import Matched, Matcher  # noqa: E402
from apps.scoring.measuring import Measurements  # noqa: E402
from apps.scoring.pipeline import Pipeline  # noqa: E402
from apps.scoring.replicas import new_client  # noqa: E402
from apps.scoring.rulebook import Rulebook  # noqa: E402


class Fragile(Matcher):
    def match(self, text: str, undone: str | None = None) -> Matched | None:
        if "deadly" in text:
            os.abort()
        return None


class FragileRulebook(Rulebook):
    def matcher(self, group_id: int, *, is_away: bool = False) -> Matcher | None:
        return Fragile([])


with new_client() as client:
    pipeline = Pipeline(client, Measurements("worker"))
    pipeline._rulebook = FragileRulebook()
    pipeline.drain(for_s=30)
