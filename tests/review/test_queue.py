"""Statements written by hand say the same as the queries that the services build."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.policies.models import Label
from apps.review.models import Cause, Language, ReviewItem, ReviewState, Skip, Wave
from apps.review.own import own_facts
from apps.review.queue import Part, QueueFilters, free, free_part, part_of, waiting
from apps.review.queue_page import queue_page
from apps.review.selectors import decided_count, keys_of, latest_undoable
from apps.review.services import decisions, leases
from apps.review.services.decisions import Choice
from apps.review.services.keymaps import save_keys
from apps.review.statements import fetch_rows
from tests.factories import GroupFactory, ReviewItemFactory, UserFactory

pytestmark = pytest.mark.django_db

MOST_URGENT_FIRST = ("-rank", "message_id")


def ids_of(part: Part) -> list[int]:
    sql = "SELECT message_id FROM review_reviewitem AS item WHERE " + part.sql
    order = " ORDER BY item.rank DESC, item.message_id"
    return [id_ for (id_,) in fetch_rows(sql + order, part.parameters)]


def many_kinds(ann: User, bob: User) -> int:
    """Items that differ in all that a part of the queue goes by; returns one group of theirs."""
    one, other = GroupFactory(), GroupFactory()
    now = timezone.now()
    states = (
        {},
        {"barred": ann},
        {"barred": bob},
        {"escalated_by": bob},
        {"state": ReviewState.DECIDED},
        {"leased_by": bob, "lease_until": now + timedelta(minutes=1)},
        {"leased_by": bob, "lease_until": now - timedelta(minutes=1)},
    )
    kinds = itertools.cycle(
        itertools.product((*Label, None), (Cause.FLAGGED, Cause.REPORTED), (one, other), Language)
    )
    for place, more in enumerate(itertools.chain(*[states] * 9)):
        label, cause, group, language = next(kinds)
        text = "free coins" if place % 2 else "good morning"
        ReviewItemFactory(
            label=label,
            cause=cause,
            language=language,
            verdict__message__group=group,
            verdict__message__text=text,
            **more,
        )
    return one.pk


PARTS = [
    QueueFilters(label, cause, group, language, text)
    for label, cause, group, language, text in itertools.product(
        (None, Label.SPAM),
        (None, Cause.UNDETERMINED, Cause.REPORTED),
        (None, 1),
        (None, Language.ZH),
        ("", "coins"),
    )
]


@pytest.mark.parametrize("role", [Role.MODERATOR, Role.LEAD])
def test_part_is_the_same_by_hand(role: Role, bob: User) -> None:
    me = UserFactory(role=role)
    group_id = many_kinds(me, bob)
    sizes = set()
    for filters in PARTS:
        if filters.group_id is not None:
            filters = QueueFilters(
                filters.label, filters.cause, group_id, filters.language, filters.text
            )
        expected = list(
            waiting(me, filters).order_by(*MOST_URGENT_FIRST).values_list("pk", flat=True)
        )
        assert ids_of(part_of(me, filters)) == expected
        sizes.add(len(expected))
    assert len(sizes) > 5


def test_free_items_are_the_same_by_hand(ann: User, bob: User) -> None:
    many_kinds(ann, bob)
    now = timezone.now()
    waves = [Wave.objects.create(signature=b"", bands=[]) for _ in range(3)]
    items = list(ReviewItem.objects.filter(state=ReviewState.OPEN).order_by("pk"))
    for place, item in enumerate(items):
        item.wave = (*waves, None)[place % 4]
        item.save(update_fields=["wave"])
    # One wave is held by a lease, one is skipped, one is free; so are some that are of none.
    free_wave, alone = items[2], items[3::4]
    ReviewItem.objects.filter(wave=free_wave.wave_id).update(leased_by=None, lease_until=None)
    leased = ReviewItem.objects.filter(wave=waves[0].pk).first()
    assert leased is not None
    leased.leased_by, leased.lease_until = bob, now + timedelta(minutes=1)
    leased.save(update_fields=["leased_by", "lease_until"])
    for item, until in ((items[1], 1), (alone[0], 1), (alone[1], -1)):
        Skip.objects.create(item=item, moderator=ann, until=now + timedelta(minutes=until))
    part, items_of = QueueFilters(), waiting(ann, QueueFilters())
    expected = list(
        free(items_of, ann, now).order_by(*MOST_URGENT_FIRST).values_list("pk", flat=True)
    )
    assert ids_of(free_part(part_of(ann, part), ann, now)) == expected
    assert 0 < len(expected) < items_of.count()


def test_figures_count_what_the_part_holds(ann: User, bob: User) -> None:
    group_id = many_kinds(ann, bob)
    now = timezone.now()
    for filters in (QueueFilters(), QueueFilters(group_id=group_id, language=Language.EN)):
        page = queue_page(ann, filters, now=now)
        part = waiting(ann, filters)
        assert page.total == part.count()
        assert page.oldest == part.order_by("opened_at").values_list("opened_at", flat=True)[0]
        assert page.leased == part.filter(lease_until__gt=now).count()
        for label in (*Label, None):
            assert page.by_label.get(label, 0) == part.filter(label=label).count()
    for filters in (QueueFilters(cause=Cause.REPORTED), QueueFilters(text="coins")):
        page = queue_page(ann, filters, now=now)
        counted = page.of_cause if filters.cause else page.found
        assert counted == waiting(ann, filters).count() > 0


def test_own_facts_are_those_of_the_other_pages(ann: User, bob: User) -> None:
    now = timezone.now()
    since = now - timedelta(hours=1)
    for person, times in ((ann, 2), (bob, 1)):
        for _ in range(times):
            lease = leases.open_item(person, ReviewItemFactory().pk)
            decisions.decide(
                person, lease.item_id, token=lease.token, version=lease.version,
                choice=Choice("allow", "ok"),
            )  # fmt: skip
    save_keys(ann, {"allow": "x"})
    own = own_facts(ann, today_since=since, undoable_since=since)
    assert own.decided_today == decided_count(ann, since=since) == 2
    assert own.undoable == latest_undoable(ann, since=since)
    assert own.keys == keys_of(ann)
    assert own.keys["allow"] == "x"
