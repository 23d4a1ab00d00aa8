"""A lease makes an item one person's for a while, and for no longer."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.core.exceptions import PermissionDenied
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.audit.models import AuditEvent
from apps.policies.models import Label
from apps.review.errors import ItemWithdrawnError, LeaseLostError
from apps.review.models import Cause, ReviewItem, ReviewState
from apps.review.queue import QueueFilters
from apps.review.services.decisions import escalate
from apps.review.services.leases import (
    SKIP_REST,
    extend_lease,
    forget_skips,
    open_item,
    open_next,
    release_all,
    release_lease,
    skip,
)
from tests.factories import GroupFactory, MessageFactory, ReviewItemFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann() -> User:
    return UserFactory()


@pytest.fixture
def bob() -> User:
    return UserFactory()


@pytest.fixture
def now() -> datetime:
    return timezone.now()


def test_most_urgent_item_comes_first_and_the_older_of_two_equal_ones(ann: User, bob: User) -> None:
    now = timezone.now()
    ReviewItemFactory(priority=0.2, opened_at=now)
    older = ReviewItemFactory(priority=0.9, opened_at=now)
    newer = ReviewItemFactory(priority=0.9, opened_at=now)
    assert [open_next(ann).item_id, open_next(bob).item_id] == [older.pk, newer.pk]


def test_leased_item_is_not_given_to_anybody_else(ann: User, bob: User) -> None:
    ReviewItemFactory()
    assert open_next(ann) is not None
    assert open_next(bob) is None


def test_lease_that_ran_out_is_given_to_the_next(ann: User, bob: User, now: datetime) -> None:
    ReviewItemFactory()
    lease = open_next(ann, now=now)
    assert open_next(bob, now=lease.until - timedelta(seconds=1)) is None
    assert open_next(bob, now=lease.until).item_id == lease.item_id


def test_page_loaded_again_gets_its_item_back_under_a_new_token(ann: User) -> None:
    ReviewItemFactory(priority=0.3)
    first = open_next(ann)
    ReviewItemFactory(priority=0.9)
    again = open_next(ann)
    assert again.item_id == first.item_id
    assert again.token != first.token
    assert not release_lease(ann, first.item_id, first.token)


def test_next_item_can_be_fetched_ahead(ann: User) -> None:
    ReviewItemFactory.create_batch(2)
    first = open_next(ann)
    ahead = open_next(ann, besides=[first.item_id])
    assert ahead.item_id != first.item_id
    assert open_next(ann, besides=[first.item_id, ahead.item_id]) is None


def test_fetching_ahead_leaves_the_tokens_of_open_cards_alone(ann: User) -> None:
    ReviewItemFactory.create_batch(2)
    first = open_next(ann)
    ahead = open_next(ann, resume=False)
    assert ahead.item_id != first.item_id
    assert extend_lease(ann, first.item_id, first.token) is not None


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (QueueFilters(label=Label.TOXIC), "toxic"),
        (QueueFilters(cause=Cause.UNDETERMINED), "undetermined"),
        (QueueFilters(), "spam"),
    ],
)
def test_filters_choose_the_part_of_the_queue(
    ann: User, filters: QueueFilters, expected: str
) -> None:
    items = {
        "spam": ReviewItemFactory(priority=0.9),
        "toxic": ReviewItemFactory(priority=0.5, label=Label.TOXIC),
        "undetermined": ReviewItemFactory(priority=0.1, label=None, cause=Cause.UNDETERMINED),
    }
    assert open_next(ann, filters).item_id == items[expected].pk


def test_group_filter_takes_from_that_group_only(ann: User) -> None:
    ReviewItemFactory(priority=0.9)
    wanted = ReviewItemFactory(priority=0.1)
    filters = QueueFilters(group_id=wanted.group_id)
    assert open_next(ann, filters).item_id == wanted.pk


def test_item_can_be_opened_by_choice_unless_somebody_has_it(ann: User, bob: User) -> None:
    item = ReviewItemFactory()
    open_item(ann, item.pk)
    with pytest.raises(LeaseLostError) as caught:
        open_item(bob, item.pk)
    assert caught.value.holder == ann


def test_extending_starts_the_time_again(ann: User, now: datetime) -> None:
    ReviewItemFactory()
    lease = open_next(ann, now=now)
    later = now + timedelta(seconds=60)
    assert extend_lease(ann, lease.item_id, lease.token, now=later) == lease.until + timedelta(
        seconds=60
    )


def test_lease_that_somebody_else_took_over_cannot_be_extended_or_released(
    ann: User, bob: User, now: datetime
) -> None:
    ReviewItemFactory()
    lost = open_next(ann, now=now)
    taken = open_next(bob, now=lost.until)
    assert extend_lease(ann, lost.item_id, lost.token) is None
    assert not release_lease(ann, lost.item_id, lost.token)
    assert ReviewItem.objects.get().lease_token == taken.token


def test_released_item_is_free_at_once(ann: User, bob: User) -> None:
    ReviewItemFactory()
    lease = open_next(ann)
    assert release_lease(ann, lease.item_id, lease.token)
    assert open_next(bob).item_id == lease.item_id


def test_sign_out_releases_everything_one_has_and_nothing_else(ann: User, bob: User) -> None:
    ReviewItemFactory.create_batch(3)
    first = open_next(ann)
    open_next(ann, besides=[first.item_id])
    theirs = open_next(bob)
    assert release_all(ann) == 2
    assert list(ReviewItem.objects.filter(leased_by__isnull=False)) == [
        ReviewItem.objects.get(pk=theirs.item_id)
    ]


def test_skipped_item_does_not_come_straight_back_to_who_skipped_it(
    ann: User, bob: User, now: datetime
) -> None:
    ReviewItemFactory()
    lease = open_next(ann, now=now)
    skip(ann, lease.item_id, lease.token, now=now)
    assert open_next(ann, now=now) is None
    assert open_next(ann, now=now + SKIP_REST) is not None
    release_all(ann)
    assert open_next(bob, now=now).item_id == lease.item_id


def test_skipped_items_come_back_on_request(ann: User) -> None:
    ReviewItemFactory()
    lease = open_next(ann)
    skip(ann, lease.item_id, lease.token)
    assert forget_skips(ann) == 1
    assert open_next(ann).item_id == lease.item_id


def test_skip_is_audited_and_needs_the_lease(ann: User, bob: User) -> None:
    ReviewItemFactory()
    lease = open_next(ann)
    with pytest.raises(LeaseLostError):
        skip(bob, lease.item_id, uuid4())
    skip(ann, lease.item_id, lease.token)
    event = AuditEvent.objects.get()
    assert (event.action, event.actor_name) == ("review.skipped", ann.username)


def test_item_of_a_deleted_message_is_withdrawn_instead_of_given_out(ann: User) -> None:
    gone = ReviewItemFactory(priority=0.9, verdict__message__deleted_at=timezone.now())
    kept = ReviewItemFactory(priority=0.1)
    assert open_next(ann).item_id == kept.pk
    gone.refresh_from_db()
    assert gone.state == ReviewState.WITHDRAWN


def test_item_of_an_old_revision_is_withdrawn_instead_of_given_out(ann: User) -> None:
    old = ReviewItemFactory()
    MessageFactory(group=old.message.group, external_id=old.message.external_id, revision=2)
    assert open_next(ann) is None
    with pytest.raises(ItemWithdrawnError):
        open_item(ann, old.pk)


def test_message_of_the_same_name_in_another_group_is_not_a_revision(ann: User) -> None:
    item = ReviewItemFactory()
    MessageFactory(group=GroupFactory(), external_id=item.message.external_id, revision=2)
    assert open_next(ann).item_id == item.pk


def test_escalated_item_is_for_leads(ann: User, bob: User) -> None:
    item = ReviewItemFactory()
    lease = open_next(ann)
    escalate(ann, item.pk, token=lease.token, version=lease.version)
    assert open_next(bob) is None
    with pytest.raises(PermissionDenied):
        open_item(bob, item.pk)
    assert open_next(UserFactory(role=Role.LEAD)).item_id == item.pk
    assert AuditEvent.objects.get().action == "review.escalated"


@pytest.mark.parametrize("role", [Role.OPERATOR])
def test_people_who_may_not_review_get_nothing(role: Role) -> None:
    user = UserFactory(role=role)
    item = ReviewItemFactory()
    for call in (
        lambda: open_next(user),
        lambda: open_item(user, item.pk),
        lambda: extend_lease(user, item.pk, uuid4()),
        lambda: release_lease(user, item.pk, uuid4()),
        lambda: skip(user, item.pk, uuid4()),
        lambda: forget_skips(user),
    ):
        with pytest.raises(PermissionDenied):
            call()


def test_signed_out_or_disabled_people_get_nothing() -> None:
    with pytest.raises(PermissionDenied):
        open_next(UserFactory(is_active=False, role=Role.ADMIN))
