"""Statements written by hand say the same as the queries that the services build."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.policies.models import Label
from apps.review.models import Cause, Language, ReviewItem, ReviewState, Skip, Wave
from apps.review.own_facts import own_facts
from apps.review.queue import Part, QueueFilters, free_part, part_of
from apps.review.queue_page import ROW_CHARS, queue_page
from apps.review.selectors import decided_count, keys_of, latest_undoable
from apps.review.services import decisions, leases
from apps.review.services.decisions import Choice
from apps.review.services.keymaps import save_keys
from tests.factories import GroupFactory, ReviewItemFactory, UserFactory

pytestmark = pytest.mark.django_db


def ids_of(part: Part) -> list[int]:
    return [id_ for (id_,) in part.rows("item.message_id", "ORDER BY item.message_id")]


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


def is_in(filters: QueueFilters, item: ReviewItem, user: User) -> bool:
    is_lead = user.role == Role.LEAD
    cause = filters.cause
    return (
        item.state == ReviewState.OPEN
        and item.barred != user
        and (is_lead or item.escalated_by is None)
        and filters.label in (None, item.label)
        and (item.label is None if cause == Cause.UNDETERMINED else cause in (None, item.cause))
        and filters.group_id in (None, item.group_id)
        and filters.language in (None, item.language)
        and filters.text in item.message.text
    )


@pytest.mark.parametrize("role", [Role.MODERATOR, Role.LEAD])
def test_part_holds_what_its_filters_say_and_its_reader_may_see(role: Role, bob: User) -> None:
    me = UserFactory(role=role)
    group_id = many_kinds(me, bob)
    items = ReviewItem.objects.select_related("message", "barred", "escalated_by").order_by("pk")
    sizes = set()
    for filters in PARTS:
        if filters.group_id is not None:
            filters = QueueFilters(
                filters.label, filters.cause, group_id, filters.language, filters.text
            )
        expected = [item.pk for item in items if is_in(filters, item, me)]
        assert ids_of(part_of(me, filters)) == expected
        sizes.add(len(expected))
    assert len(sizes) > 5


def test_free_is_what_nobody_has_and_one_did_not_skip_and_so_of_its_whole_wave(
    ann: User, bob: User
) -> None:
    now = timezone.now()
    waves = [Wave.objects.create(signature=b"", bands=[]) for _ in range(3)]
    held, passed, fresh = ([ReviewItemFactory(wave=wave) for _ in range(3)] for wave in waves)
    alone = [ReviewItemFactory() for _ in range(6)]
    for item, minutes in ((held[1], 1), (fresh[1], -1), (alone[0], 1), (alone[1], -1)):
        item.leased_by, item.lease_until = bob, now + timedelta(minutes=minutes)
        item.save(update_fields=["leased_by", "lease_until"])
    skips = ((passed[0], ann, 1), (fresh[0], ann, -1), (alone[2], ann, 1), (alone[3], ann, -1))
    for item, by, minutes in (*skips, (alone[4], bob, 1)):
        Skip.objects.create(item=item, moderator=by, until=now + timedelta(minutes=minutes))
    free = [*fresh, alone[1], *alone[3:]]
    found = ids_of(free_part(part_of(ann, QueueFilters()), ann, now))
    assert found == sorted(item.pk for item in free)


def test_figures_count_what_the_part_holds(ann: User, bob: User) -> None:
    group_id = many_kinds(ann, bob)
    now = timezone.now()
    for filters in (QueueFilters(), QueueFilters(group_id=group_id, language=Language.EN)):
        page = queue_page(ann, filters, now=now)
        part = ReviewItem.objects.filter(pk__in=ids_of(part_of(ann, filters)))
        assert page.total == part.count() > 0
        assert page.oldest == part.order_by("opened_at").values_list("opened_at", flat=True)[0]
        assert page.leased == part.filter(lease_until__gt=now).count()
        for label in (*Label, None):
            assert page.by_label.get(label, 0) == part.filter(label=label).count()
    for filters in (QueueFilters(cause=Cause.REPORTED), QueueFilters(text="coins")):
        page = queue_page(ann, filters, now=now)
        counted = page.of_cause if filters.cause else page.found
        assert counted == len(ids_of(part_of(ann, filters))) > 0


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


FAMILY = "👨\u200d👩\u200d👧"


def test_rows_end_with_a_whole_character(ann: User) -> None:
    ReviewItemFactory(verdict__message__text="x" * (ROW_CHARS - 3) + FAMILY)
    ReviewItemFactory(verdict__message__text="y" * (ROW_CHARS - len(FAMILY)) + FAMILY)
    texts = {row.text for row in queue_page(ann, QueueFilters()).rows}
    assert texts == {"x" * (ROW_CHARS - 3), "y" * (ROW_CHARS - len(FAMILY)) + FAMILY}
