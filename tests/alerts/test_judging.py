"""When a rule fires and when it is over: tables, and a search for flapping."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.alerts.judging import UNWATCHED_AFTER, Condition, Course, Phase, judge

START = datetime(2026, 11, 30, 12, tzinfo=UTC)
# Over 60 for 10 s; over when it is at 30 or less for 20 s.
ABOVE = Condition(is_below=False, limit=60, clear_at=30, for_s=10, clear_for_s=20)
BELOW = Condition(is_below=True, limit=1, clear_at=2, for_s=10, clear_for_s=20)

CALM, PENDING, FIRING, CLEARING = Phase.CALM, Phase.PENDING, Phase.FIRING, Phase.CLEARING


def phases(condition: Condition, values: list[float | None], step_s: float = 5) -> list[Phase]:
    """One look every `step_s` seconds."""
    course, seen = Course(), []
    for number, value in enumerate(values):
        course = judge(condition, course, value, START + number * timedelta(seconds=step_s))
        seen.append(course.phase)
    return seen


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    [
        # At the limit is not past it.
        (ABOVE, [60, 60, 60, 60], [CALM] * 4),
        (ABOVE, [61, 61, 61, 61], [PENDING, PENDING, FIRING, FIRING]),
        # Past it, but not for long enough, and not in a row.
        (ABOVE, [61, 61, 59, 61, 61], [PENDING, PENDING, CALM, PENDING, PENDING]),
        # Between the two limits nothing is over.
        (ABOVE, [61, 61, 61, 31, 31, 31, 31, 31], [PENDING, PENDING, *[FIRING] * 6]),
        (ABOVE, [61, 61, 61, *[30] * 5], [PENDING, PENDING, FIRING, *[CLEARING] * 4, CALM]),
        # Not back all the time: the count begins anew.
        (ABOVE, [61, 61, 61, 30, 30, 31, 30, 30, 30, 30, 30],
         [PENDING, PENDING, FIRING, CLEARING, CLEARING, FIRING, *[CLEARING] * 4, CALM]),
        # Nothing to tell it by starts no alert, ends a count, and ends an alert.
        (ABOVE, [None, 61, None, 61], [CALM, PENDING, CALM, PENDING]),
        (ABOVE, [61, 61, 61, *[None] * 5], [PENDING, PENDING, FIRING, *[CLEARING] * 4, CALM]),
        (BELOW, [1, 0.9, 0.9, 0.9], [CALM, PENDING, PENDING, FIRING]),
        (BELOW, [0, 0, 0, 1.5, 2, 2, 2, 2, 2],
         [PENDING, PENDING, FIRING, FIRING, *[CLEARING] * 4, CALM]),
    ],
)  # fmt: skip
def test_course(condition: Condition, values: list[float | None], expected: list[Phase]) -> None:
    assert phases(condition, values) == expected


def test_no_durations_fire_and_end_at_once() -> None:
    at_once = Condition(is_below=False, limit=60, clear_at=60, for_s=0, clear_for_s=0)
    assert phases(at_once, [61, 60, 61]) == [FIRING, CALM, FIRING]


def test_what_nobody_watched_does_not_count() -> None:
    course = judge(ABOVE, Course(), 61, START)
    later = START + UNWATCHED_AFTER + timedelta(seconds=1)
    assert judge(ABOVE, course, 61, later).phase == PENDING


def test_an_alert_outlives_a_time_without_looks() -> None:
    course = Course(Phase.FIRING, START, START)
    assert judge(ABOVE, course, 61, START + timedelta(hours=1)).phase == FIRING


looks = st.lists(
    st.tuples(st.floats(0.1, 20), st.one_of(st.none(), st.floats(0, 100))), min_size=1, max_size=80
)


@given(looks)
def test_it_never_flaps(seen: list[tuple[float, float | None]]) -> None:
    """Each alert was past its limit for as long as it must, and back for as long as it must, at
    every single look between: so no two can follow each other faster."""
    course, now = Course(), START
    over_since: datetime | None = None
    back_since: datetime | None = None
    for pause_s, value in seen:
        now += timedelta(seconds=pause_s)
        before, course = course, judge(ABOVE, course, value, now)
        over_since = (over_since or now) if ABOVE.is_over(value) else None
        back_since = (back_since or now) if ABOVE.is_back(value) else None
        if course.phase.is_alert and not before.phase.is_alert:
            assert over_since is not None
            assert now - over_since >= timedelta(seconds=ABOVE.for_s)
        if before.phase.is_alert and not course.phase.is_alert:
            assert back_since is not None
            assert now - back_since >= timedelta(seconds=ABOVE.clear_for_s)


@given(st.lists(st.floats(30.001, 60), min_size=1, max_size=50))
def test_trembling_between_the_limits_changes_nothing(values: list[float]) -> None:
    assert set(phases(ABOVE, list(values))) == {CALM}
    assert set(phases(ABOVE, [61, 61, 61, *values])[2:]) == {FIRING}
