from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from inference import Deadline, DeadlineConfig

seconds = st.floats(min_value=0, max_value=1e6)


@given(now=seconds, budget=seconds, later=seconds)
def test_what_is_left_shrinks_to_nothing_and_never_below(
    now: float, budget: float, later: float
) -> None:
    deadline = Deadline.after(budget, now_s=now)
    assert deadline.remaining_s(now) <= budget + 1e-6
    assert 0 <= deadline.remaining_s(now + later) <= deadline.remaining_s(now)
    assert deadline.has_passed(deadline.at_s)


@given(now=seconds, outer=seconds, inner=seconds)
def test_a_narrower_deadline_is_never_later(now: float, outer: float, inner: float) -> None:
    request = Deadline.after(outer, now_s=now)
    narrowed = request.within(inner, now_s=now)
    assert narrowed <= request
    assert narrowed <= Deadline.after(inner, now_s=now)


@given(now=seconds, budget=seconds, limit=seconds)
def test_an_attempt_gets_its_limit_or_what_is_left(now: float, budget: float, limit: float) -> None:
    deadline = Deadline.after(budget, now_s=now)
    timeout_s = deadline.attempt_timeout_s(limit, now)
    assert timeout_s == min(limit, deadline.remaining_s(now))


def test_never_leaves_an_attempt_its_own_limit() -> None:
    assert Deadline.never().attempt_timeout_s(2.0) == 2.0
    assert math.isinf(Deadline.never().remaining_s())


def test_a_check_stays_inside_the_request() -> None:
    config = DeadlineConfig(request_budget_ms=200, check_budget_ms=30)
    alone = config.for_check()
    assert 0 < alone.remaining_s() <= 0.030
    nearly_spent = Deadline.after(0.010)
    assert config.for_check(nearly_spent) == nearly_spent
