"""A wave is decided with one key, each member on its own record; exactly one decision wins each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar
from uuid import uuid4

import psycopg
import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.audit.models import ActorKind, AuditEvent
from apps.chat.models import Message
from apps.policies.models import Action, Label
from apps.review.errors import (
    AlreadyDecidedError,
    LeaseLostError,
    ReviewError,
    StaleItemError,
    UndoExpiredError,
)
from apps.review.models import (
    Decision,
    JointDecision,
    QueueTally,
    Reason,
    ReviewItem,
    ReviewState,
    Skip,
    Wave,
    WaveBand,
)
from apps.review.queue import QueueFilters
from apps.review.queue_page import Holder, queue_page
from apps.review.selectors import card, latest_undoable, past_decisions
from apps.review.services.decisions import Choice, decide, escalate, grace, undo_decision
from apps.review.services.intake import take_in, withdraw
from apps.review.services.leases import Lease, open_item, open_next, release_lease, skip
from apps.review.services.waves import KEPT, forget_old, join_time, take_out
from apps.scoring.sinks import StoredVerdict
from apps.webhooks.models import OutboxEvent
from apps.webhooks.services import release_due
from tests.factories import GroupFactory, MessageFactory, ReviewItemFactory, UserFactory
from tests.review.test_decisions import in_threads
from tests.review.test_intake import judged

pytestmark = pytest.mark.django_db

REMOVE = Choice(Action.REMOVE, Label.SPAM)
ALLOW = Choice(Action.ALLOW, Label.OK)
Made = TypeVar("Made")
OFFER = "Hello, I am {name}. I earned {n} dollars with this group last week, join t.me/{name}"
NAMES = ["Lucy", "Mary", "Anna", "Jane", "Rose", "Ruby"]


def offers(count: int, groups: int = 3) -> list[Message]:
    """Messages of one wave, in several groups."""
    places = GroupFactory.create_batch(groups)
    return [
        MessageFactory(
            group=places[n % groups], text=OFFER.format(name=NAMES[n % len(NAMES)], n=1000 + n)
        )
        for n in range(count)
    ]


def taken_in(messages: Iterable[Message], **changes: Any) -> list[int]:
    messages = list(messages)
    take_in([judged(message, **changes) for message in messages])
    return [message.pk for message in messages]


def decided(user: User, lease: Lease, choice: Choice = REMOVE, **others: Any) -> Decision:
    return decide(
        user, lease.item_id, token=lease.token, version=lease.version, choice=choice, **others
    )


def states(ids: Iterable[int]) -> set[str]:
    return set(ReviewItem.objects.filter(pk__in=list(ids)).values_list("state", flat=True))


@pytest.fixture
def lead() -> User:
    return UserFactory(role=Role.LEAD)


@pytest.fixture
def wave() -> list[int]:
    """Seven near-duplicates, in the queue."""
    return taken_in(offers(7))


# ---------- what belongs together ----------


def test_near_duplicates_of_one_batch_share_a_wave(wave: list[int]) -> None:
    assert ReviewItem.objects.values("wave").distinct().count() == 1
    assert Wave.objects.count() == 1


def test_near_duplicates_of_later_batches_join_it() -> None:
    first, *later = offers(6)
    taken_in([first])
    for message in later:
        taken_in([message])
    assert Wave.objects.count() == 1


def test_other_texts_have_waves_of_their_own_and_short_ones_none(wave: list[int]) -> None:
    other, short = taken_in(
        [MessageFactory(text="see you at the match tomorrow night"), MessageFactory(text="ok")]
    )
    items = ReviewItem.objects.in_bulk([wave[0], other, short])
    assert items[other].wave_id not in (None, items[wave[0]].wave_id)
    assert items[short].wave_id is None


@pytest.mark.parametrize("text", ["", "\ufeff", "   ", "\u200b\u200b"])
def test_empty_texts_are_not_duplicates_of_each_other(text: str) -> None:
    taken_in([MessageFactory(text=text), MessageFactory(text=text)])
    assert not ReviewItem.objects.filter(wave__isnull=False).exists()


@pytest.mark.django_db(transaction=True)
def test_first_copies_that_arrive_at_once_make_one_wave() -> None:
    messages = offers(4)

    def store(n: int) -> None:
        with transaction.atomic():
            taken_in([messages[n]])

    assert in_threads(4, store) == [None] * 4
    assert ReviewItem.objects.values("wave").distinct().count() == 1


# ---------- the queue ----------


def test_queue_has_one_row_a_wave_and_counts_messages(ann: User, wave: list[int]) -> None:
    alone = ReviewItemFactory()
    page = queue_page(ann, QueueFilters())
    assert {row.item_id for row in page.rows} == {wave[0], alone.pk}
    sizes = {row.item_id: row.wave and (row.wave.size, row.wave.groups) for row in page.rows}
    assert sizes == {wave[0]: (7, 3), alone.pk: None}
    assert page.total == page.shown == ReviewItem.objects.filter(state="open").count() == 8


def test_part_of_the_queue_shows_the_wave_by_its_first_member_there(
    ann: User, wave: list[int]
) -> None:
    group_id = ReviewItem.objects.get(pk=wave[1]).group_id
    page = queue_page(ann, QueueFilters(group_id=group_id))
    assert [row.item_id for row in page.rows] == [wave[1]]
    assert page.shown == page.total == 2
    assert page.rows[0].wave is not None
    assert page.rows[0].wave.size == 7


def test_rows_behind_a_wave_larger_than_a_look_are_found(ann: User) -> None:
    taken_in(offers(450))
    behind = [ReviewItemFactory(priority=0.01).pk for _ in range(3)]
    page = queue_page(ann, QueueFilters())
    assert [row.item_id for row in page.rows][1:] == behind
    assert page.shown == 453


def test_row_says_who_has_the_wave_whichever_member_they_opened(
    ann: User, bob: User, wave: list[int]
) -> None:
    open_item(ann, wave[4])
    (row,) = queue_page(bob, QueueFilters()).rows
    assert row.holder == Holder(ann.pk, "ann")


def test_card_shows_the_three_most_different_members(ann: User, wave: list[int]) -> None:
    texts = {m.pk: m.text for m in Message.objects.filter(pk__in=wave)}
    found = card(ann, wave[0]).wave
    assert found is not None
    assert (found.facts.size, found.facts.groups, found.others) == (7, 3, 6)
    assert len(found.different) == 3
    assert all(member.likeness < 1 for member in found.different)
    assert wave[6] not in {member.id for member in found.different}  # the same name
    assert texts[wave[6]].startswith("Hello, I am Lucy")


def test_item_alone_in_its_wave_has_no_wave_card(ann: User) -> None:
    (alone,) = taken_in(offers(1))
    assert card(ann, alone).wave is None
    assert queue_page(ann, QueueFilters()).rows[0].wave is None


# ---------- one lease for all ----------


def test_whoever_has_one_member_has_the_wave(ann: User, bob: User, wave: list[int]) -> None:
    alone = ReviewItemFactory(priority=0.01)
    open_next(ann)
    assert open_next(bob).item_id == alone.pk
    with pytest.raises(LeaseLostError) as caught:
        open_item(bob, wave[3])
    assert caught.value.holder == ann


def test_page_that_fetches_ahead_gets_no_second_member(ann: User, wave: list[int]) -> None:
    first = open_next(ann)
    assert open_next(ann, besides=[first.item_id], resume=False) is None


def test_choosing_another_member_moves_the_lease(ann: User, wave: list[int]) -> None:
    old = open_next(ann)
    open_item(ann, wave[3])
    with pytest.raises(LeaseLostError):
        decided(ann, old)
    assert ReviewItem.objects.filter(leased_by=ann).count() == 1


def test_lease_that_ran_out_is_lost_when_another_member_was_taken(
    ann: User, bob: User, wave: list[int]
) -> None:
    lost = open_next(ann)
    open_item(bob, wave[5], now=lost.until)
    with pytest.raises(LeaseLostError) as caught:
        decided(ann, lost, now=lost.until)
    assert caught.value.holder == bob


def test_skipped_wave_stays_away_as_a_whole(ann: User, bob: User, wave: list[int]) -> None:
    lease = open_next(ann)
    skip(ann, lease.item_id, lease.token)
    assert open_next(ann) is None
    assert Skip.objects.count() == 1
    assert open_next(bob) is not None


@pytest.mark.django_db(transaction=True)
def test_of_many_who_ask_at_once_one_gets_the_wave() -> None:
    people = UserFactory.create_batch(4)
    taken_in(offers(12))
    leases = in_threads(4, lambda n: open_next(people[n]))
    assert len([lease for lease in leases if lease is not None]) == 1


# ---------- one key ----------


def test_one_key_decides_all_and_each_is_on_record(ann: User, wave: list[int]) -> None:
    lease = open_next(ann)
    decision = decided(ann, lease, Choice(Action.REMOVE, Label.SPAM, "seen before"))
    assert states(wave) == {ReviewState.DECIDED}
    made = Decision.objects.filter(undone_at__isnull=True)
    assert set(made.values_list("item_id", flat=True)) == set(wave)
    assert set(made.values_list("action", "label", "note", "moderator", "joint", "is_joined")) == {
        ("remove", "spam", "seen before", ann.pk, decision.joint_id, False)
    }
    events = AuditEvent.objects.filter(action="review.decided")
    assert {event.target_id for event in events} == {str(pk) for pk in wave}
    assert {event.actor_id for event in events} == {ann.pk}
    told = OutboxEvent.objects.filter(kind="decision.made")
    assert sorted(told.values_list("message_ids__0", flat=True)) == sorted(wave)
    assert {event.payload["decision"] for event in told} == set(made.values_list("pk", flat=True))
    assert release_due() == []


def test_counts_stay_exact(ann: User, wave: list[int]) -> None:
    decided(ann, open_next(ann))
    assert sum(QueueTally.objects.values_list("change", flat=True)) == 0


def test_thousand_members_take_as_many_statements_as_seven(ann: User) -> None:
    counts = []
    for size in (7, 1000):
        taken_in(offers(size))
        lease = open_next(ann)
        with CaptureQueriesContext(connection) as queries:
            decision = decided(ann, lease)
        assert decision.joint is not None
        assert decision.joint.decisions.count() == size
        counts.append(len(queries))
        JointDecision.objects.update(joins_until=timezone.now())
    assert counts[0] == counts[1]


def test_same_request_again_returns_the_same_decision(ann: User, wave: list[int]) -> None:
    lease = open_next(ann)
    assert decided(ann, lease) == decided(ann, lease)
    assert Decision.objects.count() == len(wave)


def test_member_whose_message_is_gone_is_withdrawn_instead(ann: User, wave: list[int]) -> None:
    lease = open_next(ann)
    Message.objects.filter(pk=wave[2]).update(deleted_at=timezone.now())
    decided(ann, lease)
    assert ReviewItem.objects.get(pk=wave[2]).state == ReviewState.WITHDRAWN
    assert not Decision.objects.filter(item_id=wave[2]).exists()
    assert Decision.objects.count() == 6


def test_changed_verdict_of_another_member_asks_for_a_second_look(
    ann: User, wave: list[int]
) -> None:
    lease = open_next(ann)
    taken_in([Message.objects.get(pk=wave[5])], label=Label.TOXIC, acting_label=Label.TOXIC)
    with pytest.raises(StaleItemError):
        decided(ann, lease)
    assert not Decision.objects.exists()
    decided(ann, open_item(ann, lease.item_id))
    assert Decision.objects.count() == 7


def test_member_that_came_while_the_card_was_open_is_decided_with_it(ann: User) -> None:
    messages = offers(5)
    taken_in(messages[:4])
    lease = open_next(ann)
    taken_in(messages[4:])
    decided(ann, lease)
    assert Decision.objects.filter(is_joined=False).count() == 5


def test_escalating_hands_the_whole_wave_up(ann: User, lead: User, wave: list[int]) -> None:
    lease = open_next(ann)
    escalate(ann, lease.item_id, token=lease.token, version=lease.version)
    assert open_next(ann) is None
    assert AuditEvent.objects.filter(action="review.escalated").count() == 7
    decided(lead, open_next(lead))
    assert states(wave) == {ReviewState.DECIDED}


def test_moderator_does_not_decide_members_that_went_up(
    ann: User, lead: User, wave: list[int]
) -> None:
    ReviewItem.objects.filter(pk=wave[2]).update(escalated_by=lead)
    decided(ann, open_next(ann))
    assert states(wave[2:3]) == {ReviewState.OPEN}
    assert Decision.objects.count() == 6


# ---------- later ones ----------


def test_later_copy_joins_the_decision_in_the_transaction_of_its_verdict(ann: User) -> None:
    *first, late = offers(8)
    taken_in(first)
    standing = decided(ann, open_next(ann))
    taken_in([late])
    item = ReviewItem.objects.get(pk=late.pk)
    joined = Decision.objects.get(item=item)
    assert (item.state, joined.is_joined, joined.joint) == ("decided", True, standing.joint)
    assert (joined.action, joined.label, joined.moderator) == ("remove", "spam", ann)
    event = AuditEvent.objects.get(action="review.joined")
    assert (event.actor_kind, event.target_id) == (ActorKind.SYSTEM, str(late.pk))
    assert OutboxEvent.objects.filter(message_ids=[late.pk], kind="decision.made").exists()
    assert sum(QueueTally.objects.values_list("change", flat=True)) == 0


def test_joined_decision_is_told_no_earlier_than_those_it_joined(ann: User) -> None:
    *first, late = offers(4)
    taken_in(first)
    decided(ann, open_next(ann))
    taken_in([late])
    told = {event.message_ids[0]: event.available_at for event in OutboxEvent.objects.all()}
    assert told[late.pk] >= max(told[message.pk] for message in first) - timedelta(seconds=1)


def test_copy_after_the_time_waits_for_a_person(ann: User) -> None:
    *first, late = offers(8)
    taken_in(first)
    decided(ann, open_next(ann), now=timezone.now() - join_time())
    taken_in([late])
    assert states([late.pk]) == {ReviewState.OPEN}


def test_copy_of_a_message_that_was_decided_alone_waits_for_a_person(ann: User) -> None:
    first, late = offers(2)
    taken_in([first])
    decided(ann, open_next(ann))
    taken_in([late])
    assert states([late.pk]) == {ReviewState.OPEN}


def test_copy_after_the_decision_was_taken_back_waits_with_the_others(ann: User) -> None:
    *first, late = offers(8)
    taken_in(first)
    undo_decision(ann, decided(ann, open_next(ann)).pk)
    taken_in([late])
    assert states([late.pk]) == {ReviewState.OPEN}


def test_joined_decision_is_not_what_u_takes_back(ann: User) -> None:
    *first, late = offers(8)
    taken_in(first)
    own = decided(ann, open_next(ann))
    newest = ReviewItemFactory()
    last = decided(ann, open_item(ann, newest.pk))
    taken_in([late])
    assert latest_undoable(ann, since=timezone.now() - grace()) == last
    assert own.pk != last.pk


def test_message_judged_again_after_it_was_joined_stays_decided(ann: User) -> None:
    *first, late = offers(8)
    taken_in(first)
    decided(ann, open_next(ann))
    taken_in([late])
    taken_in([late])
    assert Decision.objects.filter(item_id=late.pk).count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("attempt", range(8))
def test_copy_that_arrives_at_the_same_moment_is_decided_either_way(attempt: int) -> None:
    user = UserFactory()
    *first, late = offers(5)
    taken_in(first)
    lease = open_next(user)

    def act(n: int) -> Any:
        if n == 0:
            return decided(user, lease)
        with transaction.atomic():
            return taken_in([late])

    results = in_threads(2, act)
    assert isinstance(results[0], Decision)
    assert states([late.pk]) == {ReviewState.DECIDED}


# ---------- taking out ----------


def test_member_that_is_taken_out_waits_by_itself(ann: User, bob: User, wave: list[int]) -> None:
    lease = open_next(ann)
    take_out(ann, lease.item_id, wave[3], token=lease.token)
    decided(ann, lease)
    assert states(wave[3:4]) == {ReviewState.OPEN}
    assert open_next(bob).item_id == wave[3]
    assert Decision.objects.count() == 6
    event = AuditEvent.objects.get(action="review.taken_out")
    assert (event.target_id, event.actor_id) == (str(wave[3]), ann.pk)


def test_taking_out_twice_is_the_same_and_it_never_comes_back(ann: User, wave: list[int]) -> None:
    lease = open_next(ann)
    for _ in range(2):
        take_out(ann, lease.item_id, wave[3], token=lease.token)
    assert AuditEvent.objects.filter(action="review.taken_out").count() == 1
    taken_in([Message.objects.get(pk=wave[3])])
    assert ReviewItem.objects.get(pk=wave[3]).wave_id is None


def test_only_whoever_has_the_wave_takes_members_out(ann: User, bob: User, wave: list[int]) -> None:
    lease = open_next(ann)
    with pytest.raises(LeaseLostError):
        take_out(bob, lease.item_id, wave[3], token=lease.token)
    with pytest.raises(LeaseLostError):
        take_out(ann, lease.item_id, wave[3], token=uuid4())
    with pytest.raises(PermissionDenied):
        take_out(UserFactory(role=Role.OPERATOR), lease.item_id, wave[3], token=lease.token)
    with pytest.raises(ReviewItem.DoesNotExist):
        take_out(ann, lease.item_id, 5, token=lease.token)


def test_item_of_another_wave_is_left_alone(ann: User, wave: list[int]) -> None:
    (other,) = taken_in([MessageFactory(text="see you at the match tomorrow night")])
    lease = open_item(ann, wave[0])
    take_out(ann, lease.item_id, other, token=lease.token)
    assert ReviewItem.objects.get(pk=other).wave_id is not None


# ---------- taking back ----------


def test_undo_takes_the_whole_wave_back(ann: User, bob: User, wave: list[int]) -> None:
    lease = open_next(ann)
    decision = decided(ann, lease)
    again = undo_decision(ann, decision.pk)
    assert again.item_id == lease.item_id
    assert states(wave) == {ReviewState.OPEN}
    assert not Decision.objects.filter(undone_at__isnull=True).exists()
    assert not OutboxEvent.objects.exists()
    assert AuditEvent.objects.filter(action="review.undone").count() == 7
    assert sum(QueueTally.objects.values_list("change", flat=True)) == 7
    assert open_next(bob) is None
    decided(ann, again, ALLOW)
    assert Decision.objects.filter(undone_at__isnull=True, action="allow").count() == 7


def test_undo_by_any_member_takes_back_what_joined_meanwhile(ann: User) -> None:
    *first, late = offers(8)
    ids = taken_in(first)
    decided(ann, open_next(ann))
    taken_in([late])
    undo_decision(ann, Decision.objects.get(item_id=ids[4]).pk)
    assert states([*ids, late.pk]) == {ReviewState.OPEN}


def test_undo_again_changes_nothing_and_is_nobody_elses(
    ann: User, bob: User, wave: list[int]
) -> None:
    decision = decided(ann, open_next(ann))
    with pytest.raises(PermissionDenied):
        undo_decision(bob, decision.pk)
    undo_decision(ann, decision.pk)
    assert undo_decision(ann, decision.pk) is None
    assert AuditEvent.objects.filter(action="review.undone").count() == 7


def test_undo_of_a_wave_is_refused_once_one_event_has_left(ann: User, wave: list[int]) -> None:
    decision = decided(ann, open_next(ann))
    OutboxEvent.objects.filter(message_ids=[wave[3]]).update(released_at=timezone.now())
    with pytest.raises(UndoExpiredError):
        undo_decision(ann, decision.pk)
    assert states(wave) == {ReviewState.DECIDED}
    assert OutboxEvent.objects.count() == 7


def test_late_joiner_does_not_prolong_the_grace_time(ann: User) -> None:
    *first, late = offers(8)
    taken_in(first)
    then = timezone.now() - grace() - timedelta(seconds=1)
    decided(ann, open_next(ann), now=then)
    taken_in([late])
    joined = Decision.objects.get(item_id=late.pk)
    with pytest.raises(UndoExpiredError):
        undo_decision(ann, joined.pk)
    past = past_decisions(ann, before_id=None, grace=grace())
    assert [one.can_undo for one in past] == [False] * 8


def test_undo_withdraws_members_whose_message_was_deleted(ann: User, wave: list[int]) -> None:
    decision = decided(ann, open_next(ann))
    Message.objects.filter(pk=wave[5]).update(deleted_at=timezone.now())
    undo_decision(ann, decision.pk)
    assert ReviewItem.objects.get(pk=wave[5]).state == ReviewState.WITHDRAWN
    assert states(wave[:5]) == {ReviewState.OPEN}


# ---------- races, with real transactions ----------


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("attempt", range(5))
def test_two_with_members_of_one_wave_exactly_one_wins_all(attempt: int) -> None:
    people = UserFactory.create_batch(2)
    ids = taken_in(offers(20))
    first = open_item(people[0], ids[0])
    # The first lease ran out, and the second person took another member.
    second = open_item(people[1], ids[13], now=first.until)
    choices = [REMOVE, ALLOW]
    leases = [first, second]
    results = in_threads(2, lambda n: decided(people[n], leases[n], choices[n]))
    winners = [n for n, result in enumerate(results) if isinstance(result, Decision)]
    assert len(winners) == 1
    assert isinstance(results[1 - winners[0]], ReviewError)
    standing = Decision.objects.filter(undone_at__isnull=True)
    assert standing.count() == 20
    assert set(standing.values_list("moderator", flat=True)) == {people[winners[0]].pk}


@pytest.mark.django_db(transaction=True)
def test_many_requests_with_one_lease_make_one_decision_a_member() -> None:
    user = UserFactory()
    ids = taken_in(offers(10))
    lease = open_next(user)
    results = in_threads(12, lambda n: decided(user, lease, REMOVE if n % 2 else ALLOW))
    assert Decision.objects.count() == len(ids)
    assert {type(r) for r in results} == {Decision, AlreadyDecidedError}
    assert AuditEvent.objects.count() == OutboxEvent.objects.count() == len(ids)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("attempt", range(5))
def test_deletion_and_decision_at_once_leave_nothing_open(attempt: int) -> None:
    user = UserFactory()
    ids = taken_in(offers(12))
    lease = open_next(user)

    def act(n: int) -> Any:
        if n == 0:
            return decided(user, lease)
        with transaction.atomic():
            Message.objects.filter(pk__in=ids[4:8]).update(deleted_at=timezone.now())
            return withdraw(message_ids=list(reversed(ids[4:8])))

    results = in_threads(2, act)
    assert not any(isinstance(result, Exception) for result in results)
    assert ReviewState.OPEN not in states(ids)


@contextmanager
def another_session() -> Iterator[psycopg.Connection[Any]]:
    """Somebody else's transaction, rolled back in the end."""
    with psycopg.connect(**connection.get_connection_params()) as other:
        yield other
        other.rollback()


_LOCK = "SELECT FROM review_reviewitem WHERE message_id = %s FOR UPDATE"


@pytest.mark.django_db(transaction=True)
def test_whoever_takes_a_wave_waits_for_no_member_with_an_old_lease(ann: User, bob: User) -> None:
    """They have an item locked already: whoever withdraws both would wait for them in turn."""
    first, second = taken_in(offers(2))
    lapsed(bob, first)
    with another_session() as withdrawing:
        withdrawing.execute(_LOCK, [first])
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '2s'")
        try:
            assert open_next(ann) is None
        finally:
            connection.close()
        withdrawing.execute(f"{_LOCK} NOWAIT", [second])
    lease = open_next(ann)
    assert lease is not None
    assert not ReviewItem.objects.filter(leased_by=bob).exists()


@pytest.mark.django_db(transaction=True)
def test_whoever_opens_a_member_locks_by_ids(ann: User, bob: User) -> None:
    first, second = taken_in(offers(2))
    lapsed(bob, second)
    with another_session() as withdrawing, ThreadPoolExecutor(1) as pool:
        withdrawing.execute(_LOCK, [first])
        opening = pool.submit(_closing, lambda: open_item(ann, first))
        assert waits(opening, withdrawing)
        withdrawing.execute(f"{_LOCK} NOWAIT", [second])
        withdrawing.rollback()
        assert opening.result().item_id == first
    assert not ReviewItem.objects.filter(leased_by=bob).exists()


def waits(work: Future[Any], session: psycopg.Connection[Any]) -> bool:
    """Whether it comes to wait for what the session has locked; it must not end before."""
    while not is_waited_for(session):
        assert not work.done()
    return True


@pytest.mark.django_db(transaction=True)
def test_changed_verdict_locks_the_leased_members_of_its_wave_by_their_ids(ann: User) -> None:
    """Whoever withdraws both has the first one already: they would wait for each other."""
    first, second = taken_in(offers(2))
    lease = open_item(ann, first)
    changed = judged(Message.objects.get(pk=second), label=Label.AD, acting_label=Label.AD)
    with another_session() as withdrawing, ThreadPoolExecutor(1) as pool:
        withdrawing.execute(_LOCK, [first])
        storing = pool.submit(_closing, lambda: _stored([changed]))
        assert waits(storing, withdrawing)
        withdrawing.execute(f"{_LOCK} NOWAIT", [second])
        withdrawing.rollback()
        storing.result()
    assert ReviewItem.objects.get(pk=second).label == Label.AD
    assert ReviewItem.objects.get(pk=first).version == lease.version + 1


def _stored(verdicts: list[StoredVerdict]) -> None:
    with transaction.atomic():
        take_in(verdicts)


def is_waited_for(session: psycopg.Connection[Any]) -> bool:
    """Whether another session waits for what this one has locked."""
    waiting = "SELECT FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
    return session.execute(waiting).fetchone() is not None


def _closing(work: Callable[[], Made]) -> Made:
    try:
        return work()
    finally:
        connection.close()


def lapsed(user: User, item_id: int) -> None:
    """A lease that ran out, as when a browser went away."""
    open_item(user, item_id)
    ReviewItem.objects.filter(pk=item_id).update(lease_until=timezone.now() - timedelta(minutes=5))


# ---------- forgetting ----------


def test_old_waves_in_which_nobody_waits_are_forgotten(ann: User) -> None:
    waiting = taken_in(offers(3))
    done = taken_in([MessageFactory(text=f"see you at the match tomorrow {w}") for w in "ab"])
    ReviewItem.objects.filter(pk__in=done).update(state=ReviewState.DECIDED)
    assert forget_old() == 0
    Wave.objects.update(opened_at=timezone.now() - KEPT)
    assert forget_old() == 1
    (kept,) = Wave.objects.all()
    assert set(WaveBand.objects.values_list("wave_id", flat=True)) == {kept.pk}
    assert ReviewItem.objects.get(pk=waiting[0]).wave_id == kept.pk
    decided(ann, open_next(ann))
    assert states(waiting) == {ReviewState.DECIDED}


def test_copy_of_a_forgotten_wave_starts_a_new_one(ann: User) -> None:
    first, second = offers(2)
    taken_in([first])
    ReviewItem.objects.update(state=ReviewState.DECIDED)
    Wave.objects.update(opened_at=timezone.now() - KEPT)
    forget_old()
    taken_in([second])
    assert ReviewItem.objects.get(pk=second.pk).wave_id == Wave.objects.get().pk


def test_released_lease_frees_the_wave(ann: User, bob: User, wave: list[int]) -> None:
    lease = open_next(ann)
    release_lease(ann, lease.item_id, lease.token)
    assert open_next(bob) is not None


# ---------- waves and leases that came apart ----------


def test_decision_leaves_out_a_member_that_somebody_else_has_open(ann: User, bob: User) -> None:
    first, later = offers(2)
    taken_in([first])
    lease = open_next(ann)
    alone = decided(ann, lease)
    taken_in([later])
    theirs = open_item(bob, later.pk)
    again = undo_decision(ann, alone.pk)  # now each has a member of the same wave
    assert again is not None
    decided(bob, theirs)
    assert ReviewItem.objects.get(pk=first.pk).state == ReviewState.OPEN
    assert decided(ann, again, ALLOW).action == Action.ALLOW
    assert Decision.objects.filter(undone_at__isnull=True).count() == 2


def test_members_of_a_forgotten_wave_are_still_handed_out(ann: User, bob: User) -> None:
    wave = taken_in(offers(2))
    Wave.objects.all().delete()
    lease = open_next(ann)
    assert lease is not None
    decided(ann, lease)
    assert states(wave) == {ReviewState.DECIDED}


def test_decision_of_a_wave_tells_what_any_decision_tells(ann: User, wave: list[int]) -> None:
    decided(ann, open_next(ann), Choice(Action.REMOVE, Label.SPAM, reason=Reason.FLOOD))
    payloads = [event.payload for event in OutboxEvent.objects.filter(kind="decision.made")]
    assert [payload["reason"] for payload in payloads] == ["flood"] * len(wave)
