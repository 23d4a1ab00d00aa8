"""The counts shown are those of the table, whatever happened and whenever they are added up."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from django.db import transaction

from apps.accounts.models import Role
from apps.review.models import QueueTally, ReviewItem, ReviewState
from apps.review.queue import QueueFilters
from apps.review.queue_page import queue_page
from apps.review.services.tally import settle
from tests.factories import GroupFactory, ReviewItemFactory, UserFactory

pytestmark = pytest.mark.django_db


Key = tuple[int, str | None, str, bool]


def counted() -> Counter[Key]:
    """COUNT(*), by group, label, language and whether it went up to a lead."""
    items = ReviewItem.objects.filter(state=ReviewState.OPEN)
    return Counter((i.group_id, i.label, i.language, i.escalated_by_id is not None) for i in items)


def tallied() -> Counter[Key]:
    sums: Counter[Key] = Counter()
    for row in QueueTally.objects.all():
        sums[row.group_id, row.label, row.language, row.is_escalated] += row.change
    return Counter({key: n for key, n in sums.items() if n})


def change_something(chance: random.Random, someone: int) -> None:
    item = ReviewItem.objects.get(pk=chance.choice(ReviewItem.objects.values_list("pk", flat=True)))
    if chance.random() < 0.1:
        item.delete()
        return
    changes = {
        "state": chance.choice(ReviewState.values),
        "label": chance.choice(["spam", "toxic", None]),
        "language": chance.choice(["en", "zh"]),
        "escalated_by_id": chance.choice([None, someone]),
        "version": item.version + 1,
    }
    ReviewItem.objects.filter(pk=item.pk).update(**changes)


@pytest.mark.parametrize("seed", range(5))
def test_tally_equals_count_after_any_changes(seed: int) -> None:
    chance = random.Random(seed)
    someone = UserFactory().pk
    groups = GroupFactory.create_batch(2)
    for _ in range(20):
        ReviewItemFactory(verdict__message__group=chance.choice(groups))
    for step in range(60):
        change_something(chance, someone)
        if step % 20 == 10:
            settle()
        assert tallied() == counted()


def test_settling_leaves_one_row_for_each_count_and_none_for_nothing() -> None:
    group = GroupFactory()
    items = [ReviewItemFactory(verdict__message__group=group) for _ in range(3)]
    gone = ReviewItemFactory()
    gone.delete()
    ReviewItem.objects.filter(pk=items[0].pk).update(state=ReviewState.DECIDED)
    settle()
    assert [(row.group_id, row.change) for row in QueueTally.objects.all()] == [(group.pk, 2)]


def test_lease_writes_no_tally() -> None:
    item = ReviewItemFactory()
    before = QueueTally.objects.count()
    ReviewItem.objects.filter(pk=item.pk).update(leased_by=UserFactory())
    assert QueueTally.objects.count() == before


def test_change_that_is_rolled_back_is_not_tallied() -> None:
    item = ReviewItemFactory()
    with transaction.atomic():
        ReviewItem.objects.filter(pk=item.pk).update(state=ReviewState.DECIDED)
        transaction.set_rollback(True)
    assert tallied() == counted()


def test_moderators_do_not_count_what_went_up_to_leads() -> None:
    ReviewItemFactory()
    ReviewItemFactory(escalated_by=UserFactory())
    assert queue_page(UserFactory(), QueueFilters()).total == 1
    assert queue_page(UserFactory(role=Role.LEAD), QueueFilters()).total == 2
