"""A range of scores is read, exceptions are taken out, the rest is decided and undone as one."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Role, User
from apps.audit.models import AuditEvent
from apps.policies.models import Action, Label
from apps.review.errors import TooManyError
from apps.review.models import Decision, JointDecision, ReviewItem, ReviewState
from apps.review.queue import QueueFilters
from apps.review.score_range import chart, in_range
from apps.review.services.decisions import Choice, undo_decision
from apps.review.services.leases import open_item, open_next
from apps.review.services.ranges import Swept, decide_range
from apps.webhooks.models import OutboxEvent
from tests.factories import ReviewItemFactory, UserFactory
from tests.review.test_decisions import in_threads
from tests.review.test_pages import read
from tests.review.test_waves import decided, offers, taken_in

pytestmark = pytest.mark.django_db

REMOVE = Choice(Action.REMOVE, Label.SPAM)
ALLOW = Choice(Action.ALLOW, Label.OK)
SPAM = QueueFilters(label=Label.SPAM)


def scored(*scores: float, **others: Any) -> list[ReviewItem]:
    return [ReviewItemFactory(score=score, **others) for score in scores]


def as_shown(items: list[ReviewItem]) -> dict[int, int]:
    return {item.pk: item.version for item in items}


def swept(user: User, items: list[ReviewItem], choice: Choice = REMOVE, **others: Any) -> Swept:
    token: UUID = others.pop("token", None) or uuid4()
    return decide_range(user, as_shown(items), token=token, choice=choice, **others)


# ---------- the chart ----------


def test_chart_counts_open_items_of_the_label_by_hundredths(ann: User) -> None:
    scored(0.5, 0.501, 0.99, 1.0, 0.0)
    scored(0.7, label=Label.AD)
    scored(0.3, state=ReviewState.DECIDED)
    found = chart(ann, SPAM)
    assert {at: n for at, n in enumerate(found.counts) if n} == {0: 1, 50: 2, 99: 2}
    assert (found.total, found.per_dot, len(found.dots)) == (5, 1, 5)


def test_chart_says_how_many_a_dot_is_and_draws_no_column_too_small_to_see(ann: User) -> None:
    ReviewItemFactory.create_batch(30, score=0.8)
    scored(0.2)
    found = chart(ann, SPAM)
    assert found.per_dot == 3
    assert len(found.dots) == 10 + 1


def test_range_includes_both_ends_highest_first_and_stops_at_the_limit(
    ann: User, settings: Any
) -> None:
    settings.REVIEW_RANGE_MOST = 2
    low, middle, high, _ = scored(0.6, 0.7, 0.8, 0.81)
    found = in_range(ann, SPAM, 0.6, 0.8)
    assert [item.id for item in found.items] == [high.pk, middle.pk]
    assert (found.total, found.most) == (3, 2)
    assert low.pk not in {item.id for item in found.items}


# ---------- deciding ----------


def test_each_of_a_range_gets_a_decision_on_record(ann: User) -> None:
    items = scored(*[0.9] * 40)
    result = swept(ann, items)
    assert (result.decided, result.left_out) == (40, 0)
    made = Decision.objects.all()
    assert {d.item_id for d in made} == {item.pk for item in items}
    assert {(d.action, d.label, d.moderator_id) for d in made} == {("remove", "spam", ann.pk)}
    assert AuditEvent.objects.filter(action="review.decided").count() == 40
    assert OutboxEvent.objects.filter(kind="decision.made").count() == 40
    assert not ReviewItem.objects.filter(state=ReviewState.OPEN).exists()


def test_what_changed_or_is_somebody_elses_is_left_out(ann: User, bob: User) -> None:
    fine, stale, leased, gone, raised = scored(0.9, 0.9, 0.9, 0.9, 0.9)
    ReviewItem.objects.filter(pk=stale.pk).update(version=2)
    open_item(bob, leased.pk)
    ReviewItem.objects.filter(pk=gone.pk).update(state=ReviewState.WITHDRAWN)
    ReviewItem.objects.filter(pk=raised.pk).update(escalated_by=bob)
    result = swept(ann, [fine, stale, leased, gone, raised])
    assert (result.decided, result.left_out) == (1, 4)
    assert Decision.objects.get().item_id == fine.pk


def test_member_of_a_wave_that_somebody_has_open_is_left_out(ann: User, bob: User) -> None:
    ids = taken_in(offers(3))
    open_item(bob, ids[0])
    result = swept(ann, list(ReviewItem.objects.filter(pk=ids[1])))
    assert result.decided == 0


def test_same_request_again_decides_nothing_more(ann: User) -> None:
    items, token = scored(0.9, 0.8), uuid4()
    first = swept(ann, items, token=token)
    undone = scored(0.7)
    again = swept(ann, [*items, *undone], token=token)
    assert first.decided == again.decided == 2
    assert JointDecision.objects.count() == 1


def test_more_than_the_limit_is_refused(ann: User, settings: Any) -> None:
    settings.REVIEW_RANGE_MOST = 2
    with pytest.raises(TooManyError):
        swept(ann, scored(0.9, 0.9, 0.9))
    assert not Decision.objects.exists()


def test_operator_may_not_decide_a_range() -> None:
    with pytest.raises(PermissionDenied):
        swept(UserFactory(role=Role.OPERATOR), scored(0.9))


def test_range_is_taken_back_as_a_whole(ann: User) -> None:
    items = scored(*[0.9] * 12)
    result = swept(ann, items)
    assert result.decision is not None
    undo_decision(ann, result.decision.pk)
    assert ReviewItem.objects.filter(state=ReviewState.OPEN).count() == 12
    assert not OutboxEvent.objects.exists()
    assert AuditEvent.objects.filter(action="review.undone").count() == 12


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("attempt", range(4))
def test_two_ranges_that_overlap_decide_each_item_once(attempt: int) -> None:
    people = UserFactory.create_batch(2)
    items = scored(*[0.9] * 20)
    parts = [items[:15], items[5:]]
    results = in_threads(2, lambda n: swept(people[n], parts[n], [REMOVE, ALLOW][n]))
    assert sum(result.decided for result in results) == 20
    assert Decision.objects.count() == 20


@pytest.mark.django_db(transaction=True)
def test_range_and_single_decision_at_once_agree() -> None:
    people = UserFactory.create_batch(2)
    items = scored(*[0.9] * 6)
    lease = open_next(people[0])
    open_ones = list(ReviewItem.objects.all())
    results = in_threads(
        2, lambda n: decided(people[0], lease) if n == 0 else swept(people[1], open_ones)
    )
    assert isinstance(results[0], Decision)
    assert results[1].decided == 5
    assert Decision.objects.count() == len(items)


# ---------- the page ----------


def test_page_shows_chart_and_list_and_asks_once(console: Client) -> None:
    items = scored(0.95, 0.92, 0.4)
    html = read(console, "/review/range/?label=spam&low=0.9&high=1")
    assert len(re.findall(r"M\d*5 [\d.]+h0", html)) == 3
    shown = re.findall(r'name="item" value="(\d+:\d+)"', html)
    assert shown == [f"{items[0].pk}:1", f"{items[1].pk}:1"]
    token = re.search(r'name="token" value="([^"]+)"', html)
    assert token is not None
    fields = {"token": token[1], "choice": "remove:spam", "item": shown[:1]}
    asked = console.post("/review/range/decide/?label=spam", fields)
    assert "Remove 1 message as spam?" in asked.content.decode()
    assert not Decision.objects.exists()
    done = console.post("/review/range/decide/?label=spam", {**fields, "confirmed": "1"})
    assert done["Location"] == "/review/range/?label=spam"
    decision = Decision.objects.get()
    assert decision.item_id == items[0].pk
    assert f"/review/range/{decision.pk}/undo/" in read(console, "/review/range/?label=spam")
    console.post(f"/review/range/{decision.pk}/undo/?label=spam")
    assert ReviewItem.objects.filter(state=ReviewState.OPEN).count() == 3


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"token": "no"},
        {"token": str(uuid4()), "choice": "remove:spam", "item": "x"},
        {"token": str(uuid4()), "choice": "ban:spam", "item": "1:1"},
        {"token": str(uuid4()), "choice": "remove:spam", "item": "9" * 30 + ":1"},
    ],
)
def test_nonsense_is_refused_and_decides_nothing(console: Client, fields: dict[str, str]) -> None:
    scored(0.9)
    assert console.post("/review/range/decide/", {**fields, "confirmed": "1"}).status_code == 302
    assert not Decision.objects.exists()


@pytest.mark.parametrize("query", ["low=x", "low=2&high=-1", "low=0.9&high=0.1", "label=x"])
def test_odd_ranges_still_make_a_page(console: Client, query: str) -> None:
    scored(0.5)
    assert "By score" in read(console, f"/review/range/?{query}")


def test_number_of_queries_does_not_grow(console: Client) -> None:
    counts = []
    for size in (2, 30):
        ReviewItemFactory.create_batch(size, score=0.95)
        with CaptureQueriesContext(connection) as captured:
            read(console, "/review/range/?label=spam")
        counts.append(len(captured))
    assert counts[0] == counts[1]
