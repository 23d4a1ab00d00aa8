"""A worker that lets the lists decide and hangs before it commits."""

import time
from collections.abc import Sequence

import django

django.setup()

from apps.scoring.fallback import Fallback  # noqa: E402
from apps.scoring.rulebook import Rulebook  # noqa: E402
from apps.scoring.sinks import StoredVerdict, register_verdict_sink  # noqa: E402


def hang(verdicts: Sequence[StoredVerdict]) -> None:
    print("written", flush=True)
    time.sleep(3600)


register_verdict_sink(hang)
Fallback(Rulebook()).decide_some()
