"""When a rule fires and when it is over: pure, so that it can be tabled and searched for flapping.

    calm ──over──▶ pending ──long over──▶ firing ──back──▶ clearing ──long back──▶ calm
      ▲               │                       ▲                 │
      └──── not ──────┘                       └─ not back ──────┘

Over is past the limit; back is past `clear_at`, on the other side. Between the two nothing
changes (hysteresis), so a figure that trembles at its limit makes one alert, not a hundred.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

# After so long without a look nothing is known of what lay between: a count begins anew.
UNWATCHED_AFTER = timedelta(seconds=30)


class Phase(StrEnum):
    CALM = "calm"
    PENDING = "pending"
    FIRING = "firing"
    CLEARING = "clearing"

    @property
    def is_alert(self) -> bool:
        return self in {Phase.FIRING, Phase.CLEARING}


@dataclass(frozen=True, slots=True)
class Condition:
    """`for_s` and `clear_for_s` in seconds; `limit` and `clear_at` in the figure's unit."""

    is_below: bool
    limit: float
    clear_at: float
    for_s: float
    clear_for_s: float

    def is_over(self, value: float | None) -> bool:
        """Past the limit. A figure that nobody can tell (None) is not."""
        if value is None:
            return False
        return value < self.limit if self.is_below else value > self.limit

    def is_back(self, value: float | None) -> bool:
        """Far enough on the right side to end an alert; so is a figure that nobody can tell."""
        if value is None:
            return True
        return value >= self.clear_at if self.is_below else value <= self.clear_at


@dataclass(frozen=True, slots=True)
class Course:
    """Where a rule stands: its phase, since when, and when that was last looked at."""

    phase: Phase = Phase.CALM
    since: datetime | None = None
    looked_at: datetime | None = None


def judge(condition: Condition, course: Course, value: float | None, now: datetime) -> Course:
    """The course after one look at the figure. `now` must not go backwards."""
    lasted = _lasted(course, now)
    moved = _next_phase(condition, course.phase, value, lasted)
    begins_anew = moved != course.phase or not lasted
    return replace(course, phase=moved, since=now if begins_anew else course.since, looked_at=now)


def _lasted(course: Course, now: datetime) -> timedelta:
    """How long the phase is known to have lasted."""
    if course.since is None or course.looked_at is None:
        return timedelta(0)
    if now - course.looked_at > UNWATCHED_AFTER and course.phase in _COUNTING:
        return timedelta(0)
    return now - course.since


# Phases that end when they have lasted long enough.
_COUNTING = {Phase.PENDING, Phase.CLEARING}


def _next_phase(
    condition: Condition, phase: Phase, value: float | None, lasted: timedelta
) -> Phase:
    is_over, is_back = condition.is_over(value), condition.is_back(value)
    if phase.is_alert:
        if phase == Phase.FIRING:
            return _cleared(condition, timedelta(0)) if is_back else Phase.FIRING
        if is_over:
            return Phase.FIRING
        # Between the limits the count goes on neither way: it must be back all the time.
        return _cleared(condition, lasted) if is_back else Phase.FIRING
    if not is_over:
        return Phase.CALM
    began = lasted if phase == Phase.PENDING else timedelta(0)
    return Phase.FIRING if began >= timedelta(seconds=condition.for_s) else Phase.PENDING


def _cleared(condition: Condition, lasted: timedelta) -> Phase:
    is_long_enough = lasted >= timedelta(seconds=condition.clear_for_s)
    return Phase.CALM if is_long_enough else Phase.CLEARING
