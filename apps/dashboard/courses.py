"""What breakers went through lately, from the samples of all workers: pure, no database.

Between two samples a breaker can pass through several states; the workers tell each with its time.
Of several workers' views the worst is the replica's, as everywhere on the page.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter

from apps.dashboard.figures import BREAKER_RANK, by_process
from apps.scoring.samples import HEARTBEAT_LOST_AFTER, Sample

# Processes whose first sample is so far into the window were there before it, all at once.
_THERE_BEFORE = timedelta(seconds=2)
CALM = "closed"


@dataclass(frozen=True, slots=True)
class Step:
    """From `at` on one replica's breaker is in this state."""

    replica: str
    at: datetime
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class _View:
    """What one process knows from `at` on."""

    at: datetime
    process: str
    replica: str
    state: str
    reason: str


def breaker_steps(samples: Sequence[Sample], *, now: datetime, since: datetime) -> list[Step]:
    """Each change of a replica's worst view, oldest first.

    Args:
        samples: Of the window from `since` to `now`, oldest first.
    """
    views = [
        view
        for process in by_process(samples).values()
        if now - process.newest.at <= HEARTBEAT_LOST_AFTER
        for view in _views(process.samples, since)
    ]
    views.sort(key=attrgetter("replica", "at"))
    return [
        step
        for replica, group in itertools.groupby(views, key=attrgetter("replica"))
        for step in _steps(replica, group)
    ]


def _views(samples: Sequence[Sample], since: datetime) -> Iterable[_View]:
    first = samples[0]
    yield from _stand(first, since if first.at - since < _THERE_BEFORE else first.at)
    for sample in samples[1:]:
        for change in sample.breaker_changes:
            at = sample.at - timedelta(seconds=change["ago_s"])
            name = change["replica"]
            yield _View(at, sample.process, name, change["state"], change["reason"])
        # In case a change was left out: how it stands is never in doubt.
        yield from _stand(sample, sample.at)


def _stand(sample: Sample, at: datetime) -> Iterable[_View]:
    for each in sample.replicas:
        yield _View(at, sample.process, each["name"], each["breaker"], each["breaker_reason"])


def _steps(replica: str, views: Iterable[_View]) -> Iterable[Step]:
    known: dict[str, _View] = {}
    state = None
    for at, group in itertools.groupby(views, key=attrgetter("at")):
        known.update({view.process: view for view in group})
        worst = max(known.values(), key=lambda view: BREAKER_RANK.get(view.state, 0))
        if worst.state != state:
            state = worst.state
            yield Step(replica, at, worst.state, worst.reason)
