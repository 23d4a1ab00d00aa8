"""The queue's order: urgency is severity times confidence, and doubles while it waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from apps.policies.models import Label
from apps.review.ranking import (
    DOUBLING_S,
    UNDETERMINED_PRIORITY,
    base_priority,
    level,
    rank,
    urgency,
)

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def test_toxic_comes_before_spam_before_ad_at_the_same_score() -> None:
    priorities = [base_priority(label, 0.7) for label in (Label.TOXIC, Label.SPAM, Label.AD)]
    assert priorities == sorted(priorities, reverse=True)


def test_undetermined_has_a_priority_of_its_own() -> None:
    assert base_priority(None, None) == UNDETERMINED_PRIORITY


def test_a_score_of_nothing_still_has_a_rank() -> None:
    assert rank(base_priority(Label.AD, 0.0), NOON) < rank(base_priority(Label.AD, 0.9), NOON)


def test_fresh_item_is_as_urgent_as_its_priority() -> None:
    assert urgency(rank(0.5, NOON), NOON) == pytest.approx(0.5)


def test_urgency_doubles_with_the_doubling_time() -> None:
    later = NOON + timedelta(seconds=DOUBLING_S)
    assert urgency(rank(0.25, NOON), later) == pytest.approx(0.5)


def test_an_old_doubtful_item_overtakes_a_fresh_certain_one() -> None:
    old = rank(0.2, NOON)
    assert old < rank(0.9, NOON)
    assert old > rank(0.9, NOON + timedelta(hours=1))


def test_levels_fall_in_the_order_of_the_queue() -> None:
    ranks = sorted((rank(p / 20, NOON) for p in range(1, 21)), reverse=True)
    levels = [level(r, NOON) for r in ranks]
    assert levels == sorted(levels)
    assert set(levels) == {1, 2, 3}


def test_an_item_forgotten_for_a_year_has_the_first_level() -> None:
    assert level(rank(0.01, NOON), NOON + timedelta(days=365)) == 1
