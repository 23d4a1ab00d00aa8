"""Exactly one decision stands; whoever comes second is shown it; it can be taken back in time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.audit.models import AuditEvent
from apps.policies.models import Action, Label
from apps.review.errors import (
    AlreadyDecidedError,
    ItemWithdrawnError,
    LeaseLostError,
    StaleItemError,
    UndoExpiredError,
)
from apps.review.models import Decision, ReviewItem, ReviewState
from apps.review.services.decisions import (
    Choice,
    decide,
    escalate,
    grace,
    reverse_decision,
    undo_decision,
)
from apps.review.services.intake import withdraw
from apps.review.services.leases import Lease, open_item, open_next
from apps.webhooks.models import OutboxEvent
from apps.webhooks.services import release_due
from tests.factories import ReviewItemFactory, UserFactory

pytestmark = pytest.mark.django_db

REMOVE = Choice(Action.REMOVE, Label.SPAM)
ALLOW = Choice(Action.ALLOW, Label.OK)


@pytest.fixture
def ann() -> User:
    return UserFactory()


@pytest.fixture
def bob() -> User:
    return UserFactory()


@pytest.fixture
def item() -> ReviewItem:
    return ReviewItemFactory()


def decided(user: User, lease: Lease, choice: Choice = REMOVE, **others: Any) -> Decision:
    return decide(
        user, lease.item_id, token=lease.token, version=lease.version, choice=choice, **others
    )


def test_decision_closes_the_item_and_ends_the_lease(ann: User, item: ReviewItem) -> None:
    lease = open_next(ann)
    decision = decided(ann, lease, Choice(Action.REMOVE, Label.SPAM, "seen before"))
    item.refresh_from_db()
    assert (item.state, item.leased_by, item.lease_token) == (ReviewState.DECIDED, None, None)
    assert (decision.action, decision.label, decision.note) == ("remove", "spam", "seen before")


def test_decision_is_audited_with_ids_and_no_text(ann: User, item: ReviewItem) -> None:
    decision = decided(ann, open_next(ann), Choice(Action.REMOVE, Label.SPAM, "private note"))
    event = AuditEvent.objects.get()
    assert (event.action, event.actor_id, event.target_id) == (
        "review.decided",
        ann.pk,
        str(item.pk),
    )
    assert event.after == {
        "decision": decision.pk,
        "message": item.pk,
        "action": "remove",
        "label": "spam",
        "reason": None,
    }


def test_decision_waits_in_the_outbox_for_the_grace_time(ann: User, item: ReviewItem) -> None:
    decision = decided(ann, open_next(ann))
    event = OutboxEvent.objects.get()
    assert (event.kind, event.message_ids) == ("decision.made", [item.pk])
    assert event.payload["decision"] == decision.pk
    assert event.available_at - event.created_at >= grace() - timedelta(seconds=1)
    assert release_due() == []


def test_same_request_again_returns_the_same_decision(ann: User, item: ReviewItem) -> None:
    lease = open_next(ann)
    assert decided(ann, lease) == decided(ann, lease)
    assert Decision.objects.count() == AuditEvent.objects.count() == 1


def test_second_thought_under_the_same_lease_sees_the_first(ann: User, item: ReviewItem) -> None:
    lease = open_next(ann)
    first = decided(ann, lease)
    with pytest.raises(AlreadyDecidedError) as caught:
        decided(ann, lease, ALLOW)
    assert caught.value.decision == first


def test_whoever_comes_second_is_shown_the_decision(ann: User, bob: User, item: ReviewItem) -> None:
    lost = open_next(ann)
    decided(bob, open_next(bob, now=lost.until))
    with pytest.raises(AlreadyDecidedError) as caught:
        decided(ann, lost, ALLOW)
    assert (caught.value.decision.moderator, caught.value.decision.action) == (bob, "remove")


def test_lost_lease_is_refused_and_names_the_holder(ann: User, bob: User, item: ReviewItem) -> None:
    lost = open_next(ann)
    open_next(bob, now=lost.until)
    with pytest.raises(LeaseLostError) as caught:
        decided(ann, lost)
    assert caught.value.holder == bob
    assert not Decision.objects.exists()


def test_lease_that_ran_out_counts_while_nobody_took_it(ann: User, item: ReviewItem) -> None:
    lease = open_next(ann)
    decided(ann, lease, now=lease.until + timedelta(hours=1))
    assert Decision.objects.count() == 1


def test_token_of_another_person_is_refused(ann: User, bob: User, item: ReviewItem) -> None:
    with pytest.raises(LeaseLostError):
        decided(bob, open_next(ann))


def test_item_that_nobody_opened_cannot_be_decided(ann: User, item: ReviewItem) -> None:
    with pytest.raises(LeaseLostError):
        decide(ann, item.pk, token=uuid4(), version=item.version, choice=ALLOW)


def test_stale_version_is_refused_and_names_the_present_one(ann: User, item: ReviewItem) -> None:
    lease = open_next(ann)
    ReviewItem.objects.filter(pk=item.pk).update(version=7)
    with pytest.raises(StaleItemError) as caught:
        decided(ann, lease)
    assert caught.value.version == 7


def test_withdrawn_item_cannot_be_decided(ann: User, item: ReviewItem) -> None:
    lease = open_next(ann)
    withdraw(message_ids=[item.pk])
    with pytest.raises(ItemWithdrawnError):
        decided(ann, lease)


def test_operator_may_not_decide(item: ReviewItem) -> None:
    operator = UserFactory(role=Role.OPERATOR)
    with pytest.raises(PermissionDenied):
        decide(operator, item.pk, token=uuid4(), version=1, choice=ALLOW)
    with pytest.raises(PermissionDenied):
        undo_decision(operator, 1)
    with pytest.raises(PermissionDenied):
        escalate(operator, item.pk, token=uuid4(), version=1)


# ---------- taking back ----------


def test_undo_opens_the_item_again_for_the_same_person(
    ann: User, bob: User, item: ReviewItem
) -> None:
    decision = decided(ann, open_next(ann))
    lease = undo_decision(ann, decision.pk)
    assert lease.item_id == item.pk
    assert open_next(bob) is None
    decided(ann, lease, ALLOW)
    standing = Decision.objects.get(undone_at__isnull=True)
    assert standing.action == "allow"


def test_undone_decision_never_leaves_the_outbox(ann: User, item: ReviewItem) -> None:
    undo_decision(ann, decided(ann, open_next(ann)).pk)
    assert not OutboxEvent.objects.exists()


def test_undo_is_audited(ann: User, item: ReviewItem) -> None:
    decision = decided(ann, open_next(ann))
    undo_decision(ann, decision.pk)
    event = AuditEvent.objects.latest("id")
    assert (event.action, event.before["decision"]) == ("review.undone", decision.pk)


def test_undo_again_changes_nothing(ann: User, item: ReviewItem) -> None:
    decision = decided(ann, open_next(ann))
    undo_decision(ann, decision.pk)
    assert undo_decision(ann, decision.pk) is None
    assert AuditEvent.objects.filter(action="review.undone").count() == 1


def test_undo_after_the_grace_time_is_refused(ann: User, item: ReviewItem) -> None:
    decision = decided(ann, open_next(ann))
    late = decision.decided_at + grace() + timedelta(microseconds=1)
    with pytest.raises(UndoExpiredError):
        undo_decision(ann, decision.pk, now=late)
    undo_decision(ann, decision.pk, now=decision.decided_at + grace())


def test_undo_is_refused_once_the_outside_has_been_told(ann: User, item: ReviewItem) -> None:
    decision = decided(ann, open_next(ann))
    OutboxEvent.objects.update(released_at=timezone.now())
    with pytest.raises(UndoExpiredError):
        undo_decision(ann, decision.pk)
    decision.refresh_from_db()
    assert decision.undone_at is None


def test_undo_of_somebody_elses_decision_is_refused(ann: User, bob: User, item: ReviewItem) -> None:
    decision = decided(ann, open_next(ann))
    with pytest.raises(PermissionDenied):
        undo_decision(bob, decision.pk)


def test_undo_after_the_message_was_deleted_withdraws_the_item(ann: User, item: ReviewItem) -> None:
    decision = decided(ann, open_next(ann))
    item.message.deleted_at = timezone.now()
    item.message.save()
    assert undo_decision(ann, decision.pk) is None
    item.refresh_from_db()
    assert item.state == ReviewState.WITHDRAWN


def test_old_token_cannot_decide_after_an_undo(ann: User, item: ReviewItem) -> None:
    lease = open_next(ann)
    undo_decision(ann, decided(ann, lease).pk)
    with pytest.raises(LeaseLostError):
        decided(ann, lease, ALLOW)


# ---------- reversing ----------


def test_reversal_stands_in_the_place_of_the_first(ann: User, item: ReviewItem) -> None:
    first = decided(ann, open_next(ann))
    second = reverse_decision(ann, first.pk, ALLOW)
    first.refresh_from_db()
    assert first.undone_at is not None
    assert (second.reverses, second.action) == (first, "allow")
    assert Decision.objects.get(undone_at__isnull=True) == second


def test_reversal_is_told_and_audited(ann: User, item: ReviewItem) -> None:
    first = decided(ann, open_next(ann))
    second = reverse_decision(ann, first.pk, ALLOW)
    events = OutboxEvent.objects.order_by("pk").values_list("kind", "payload__decision")
    assert list(events) == [("decision.made", first.pk), ("decision.reversed", second.pk)]
    event = AuditEvent.objects.latest("id")
    assert event.action == "review.reversed"
    assert (event.before["action"], event.after["action"]) == ("remove", "allow")


def test_reversal_again_is_the_same_and_another_is_refused(ann: User, item: ReviewItem) -> None:
    first = decided(ann, open_next(ann))
    second = reverse_decision(ann, first.pk, ALLOW)
    assert reverse_decision(ann, first.pk, ALLOW) == second
    with pytest.raises(AlreadyDecidedError):
        reverse_decision(ann, first.pk, Choice(Action.REMOVE, Label.AD))
    assert Decision.objects.count() == 2


def test_reversal_to_the_same_is_refused(ann: User, item: ReviewItem) -> None:
    first = decided(ann, open_next(ann))
    with pytest.raises(AlreadyDecidedError):
        reverse_decision(ann, first.pk, REMOVE)


def test_only_leads_reverse_what_others_decided(ann: User, bob: User, item: ReviewItem) -> None:
    first = decided(ann, open_next(ann))
    with pytest.raises(PermissionDenied):
        reverse_decision(bob, first.pk, ALLOW)
    lead = UserFactory(role=Role.LEAD)
    assert reverse_decision(lead, first.pk, ALLOW).moderator == lead


def test_reversed_decision_cannot_be_taken_back(ann: User, item: ReviewItem) -> None:
    first = decided(ann, open_next(ann))
    second = reverse_decision(ann, first.pk, ALLOW)
    assert undo_decision(ann, first.pk) is None
    with pytest.raises(UndoExpiredError):
        undo_decision(ann, second.pk)
    assert Decision.objects.get(undone_at__isnull=True) == second


def test_decision_that_was_taken_back_cannot_be_reversed(ann: User, item: ReviewItem) -> None:
    first = decided(ann, open_next(ann))
    undo_decision(ann, first.pk)
    with pytest.raises(ItemWithdrawnError):
        reverse_decision(ann, first.pk, ALLOW)


# ---------- races, with real transactions ----------


def in_threads(count: int, work: Any) -> list[Any]:
    """Run `work(n)` in `count` threads that start together; exceptions are results."""
    barrier = Barrier(count)

    def one(n: int) -> Any:
        barrier.wait()
        try:
            return work(n)
        except Exception as error:  # noqa: BLE001
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@pytest.mark.django_db(transaction=True)
def test_of_fifty_decisions_at_once_one_wins_and_the_others_see_it() -> None:
    user = UserFactory()
    ReviewItemFactory()
    lease = open_next(user)
    choices = [Choice(Action.REMOVE, Label.SPAM, f"{n}") for n in range(25)]
    choices += [Choice(Action.ALLOW, Label.OK, f"{n}") for n in range(25)]
    results = in_threads(50, lambda n: decided(user, lease, choices[n]))
    standing = Decision.objects.get()
    assert AuditEvent.objects.count() == OutboxEvent.objects.count() == 1
    for choice, result in zip(choices, results, strict=True):
        if choice.action == standing.action:
            assert result == standing
        else:
            assert isinstance(result, AlreadyDecidedError)
            assert result.decision == standing


@pytest.mark.django_db(transaction=True)
def test_of_fifty_people_after_one_item_one_gets_it_and_decides() -> None:
    people = UserFactory.create_batch(50)
    item = ReviewItemFactory()

    def open_and_decide(n: int) -> Decision:
        return decided(people[n], open_item(people[n], item.pk), REMOVE)

    results = in_threads(50, open_and_decide)
    winners = [r for r in results if isinstance(r, Decision)]
    assert winners == [Decision.objects.get()]
    losers = [r for r in results if not isinstance(r, Decision)]
    assert {type(r) for r in losers} <= {AlreadyDecidedError, LeaseLostError}


@pytest.mark.django_db(transaction=True)
def test_people_who_ask_at_once_get_different_items() -> None:
    people = UserFactory.create_batch(10)
    ReviewItemFactory.create_batch(10)
    leases = in_threads(10, lambda n: open_next(people[n]))
    taken = [lease.item_id for lease in leases if lease is not None]
    assert len(taken) == len(set(taken))
    # Passing over a row that another is just taking may leave nobody with the last ones.
    assert len(taken) >= 1
    again = [open_next(people[n]) for n, lease in enumerate(leases) if lease is None]
    assert len({lease.item_id for lease in again} | set(taken)) == 10


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("attempt", range(10))
def test_undo_and_release_at_once_agree(attempt: int) -> None:
    user = UserFactory()
    item = ReviewItemFactory()
    decision = decided(user, open_item(user, item.pk))
    OutboxEvent.objects.update(available_at=timezone.now())
    undone, left = in_threads(
        2, lambda n: undo_decision(user, decision.pk) if n == 0 else release_due()
    )
    decision.refresh_from_db()
    was_told = any(event.payload["decision"] == decision.pk for event in left)
    assert was_told == isinstance(undone, UndoExpiredError) == (decision.undone_at is None)
