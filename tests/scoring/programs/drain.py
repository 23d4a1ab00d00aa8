"""A worker that judges what is due, once, and says when it has claimed."""

import django

django.setup()

from apps.scoring.claims import Claim  # noqa: E402
from apps.scoring.measuring import Measurements  # noqa: E402
from apps.scoring.pipeline import Pipeline  # noqa: E402
from apps.scoring.replicas import new_client  # noqa: E402


class Telling(Measurements):
    def claimed(self, claim: Claim, claim_ms: float) -> None:
        super().claimed(claim, claim_ms)
        print("claimed", flush=True)


with new_client() as client:
    print("stored", Pipeline(client, Telling("worker")).drain(for_s=30))
