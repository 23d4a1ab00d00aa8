"""Another person than the first decides an appeal, with a reason; until then all stands."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.audit.models import AuditEvent
from apps.audit.services import Actor
from apps.chat.models import Message
from apps.policies.models import Action, Label
from apps.review import appeal_figures
from apps.review.errors import (
    AlreadyDecidedError,
    LeaseLostError,
    NoReasonError,
    NothingToAppealError,
    OwnDecisionError,
    UnderAppealError,
    UndoExpiredError,
)
from apps.review.models import Appeal, AppealState, Cause, Decision, ReviewItem, ReviewState
from apps.review.own_facts import own_facts
from apps.review.queue import QueueFilters
from apps.review.queue_page import queue_page
from apps.review.selectors import latest_undoable
from apps.review.services.appeals import Opened, decide_appeal, open_appeal
from apps.review.services.decisions import (
    Choice,
    decide,
    grace,
    reverse_decision,
    undo_decision,
)
from apps.review.services.erasure import erase_about_messages, erase_by_person
from apps.review.services.leases import Lease, open_item, open_next
from apps.review.services.subjects import Subject
from apps.webhooks.models import OutboxEvent
from tests.factories import ReviewItemFactory, UserFactory, VerdictFactory

pytestmark = pytest.mark.django_db

ACTOR = Actor.system("test")
REMOVE = Choice(Action.REMOVE, Label.SPAM)
UPHOLD = Choice(Action.REMOVE, Label.SPAM, "It is an advertisement.")
OVERTURN = Choice(Action.ALLOW, Label.OK, "We were wrong.")


@pytest.fixture
def removed(ann: User) -> Decision:
    """Ann removed a message, a while ago."""
    return decided_long_ago(ann, REMOVE)


def decided_long_ago(user: User, choice: Choice) -> Decision:
    item = ReviewItemFactory()
    lease = open_item(user, item.pk)
    long_ago = timezone.now() - grace() - timedelta(minutes=1)
    decision: Decision = decide(
        user, item.pk, token=lease.token, version=lease.version, choice=choice, now=long_ago
    )
    return decision


def appeal(message_id: int, appellant: str = "u-1", now: datetime | None = None) -> Opened:
    return open_appeal(
        Subject(message_id=message_id),
        appellant=appellant,
        text="It was a joke",
        actor=ACTOR,
        now=now,
    )


def settle(user: User, lease: Lease, choice: Choice) -> Appeal:
    return decide_appeal(
        user, lease.item_id, token=lease.token, version=lease.version, choice=choice
    )


def test_appeal_waits_while_the_decision_stands(bob: User, removed: Decision) -> None:
    opened = appeal(removed.item_id)
    assert opened.is_new
    item = ReviewItem.objects.get()
    assert (item.state, item.cause, item.label) == ("open", Cause.APPEALED, Label.SPAM)
    assert Decision.objects.get(undone_at=None) == removed
    lease = open_next(bob)
    assert lease
    assert lease.item_id == item.pk


def test_whoever_decided_first_is_not_offered_it(ann: User, bob: User, removed: Decision) -> None:
    appeal(removed.item_id)
    assert open_next(ann) is None
    assert queue_page(ann, QueueFilters()).total == 0
    assert queue_page(ann, QueueFilters()).rows == []
    assert queue_page(bob, QueueFilters()).total == 1


def test_whoever_decided_first_is_refused_even_with_a_lease(ann: User, removed: Decision) -> None:
    appeal(removed.item_id)
    with pytest.raises(OwnDecisionError):
        open_item(ann, removed.item_id)
    token = removed.lease_token
    assert token is not None
    ReviewItem.objects.update(leased_by=ann, lease_token=token)
    version = ReviewItem.objects.get().version
    with pytest.raises(OwnDecisionError):
        decide_appeal(ann, removed.item_id, token=token, version=version, choice=OVERTURN)


def test_upholding_changes_no_decision_and_tells_the_reason(bob: User, removed: Decision) -> None:
    opened = appeal(removed.item_id)
    decided = settle(bob, open_next(bob), UPHOLD)
    assert decided == opened.appeal
    assert (decided.state, decided.result, decided.decided_by) == (AppealState.UPHELD, None, bob)
    assert Decision.objects.get() == removed
    assert ReviewItem.objects.get().state == ReviewState.DECIDED
    event = OutboxEvent.objects.get(kind="appeal.decided")
    assert event.payload == {
        "appeal": decided.pk,
        "message": removed.item_id,
        "outcome": "upheld",
        "action": "remove",
        "label": "spam",
        "reason": "It is an advertisement.",
    }


def test_overturning_reverses_the_decision(bob: User, removed: Decision) -> None:
    appeal(removed.item_id)
    decided = settle(bob, open_next(bob), OVERTURN)
    standing = Decision.objects.get(undone_at=None)
    assert (standing.action, standing.reverses, standing.moderator) == ("allow", removed, bob)
    assert (decided.state, decided.result) == (AppealState.OVERTURNED, standing)
    kinds = set(OutboxEvent.objects.values_list("kind", flat=True))
    assert kinds == {"decision.made", "decision.reversed", "appeal.decided"}


@pytest.mark.parametrize(
    ("choice", "outcome"), [(UPHOLD, AppealState.UPHELD), (OVERTURN, AppealState.OVERTURNED)]
)
def test_removal_by_the_policy_becomes_a_persons_decision(
    bob: User, choice: Choice, outcome: AppealState
) -> None:
    message = VerdictFactory(action=Action.REMOVE).message
    appeal(message.pk)
    decided = settle(bob, open_next(bob), choice)
    assert (decided.state, decided.decision) == (outcome, None)
    standing = Decision.objects.get()
    assert (decided.result, standing.action, standing.moderator) == (standing, choice.action, bob)
    with pytest.raises(UndoExpiredError):
        undo_decision(bob, standing.pk)


def test_what_closed_an_appeal_is_not_offered_to_be_taken_back(client: Client, bob: User) -> None:
    appeal(VerdictFactory(action=Action.REMOVE).message.pk)
    settle(bob, open_next(bob), UPHOLD)
    client.force_login(bob)
    html = client.get("/review/history/").content.decode()
    assert "decides an appeal" in html
    assert "Take back" not in html
    since = timezone.now() - timedelta(hours=1)
    assert latest_undoable(bob, since=since) is None
    assert own_facts(bob, today_since=since, undoable_since=since).undoable is None


def test_appeal_needs_a_reason_to_be_decided(bob: User, removed: Decision) -> None:
    appeal(removed.item_id)
    with pytest.raises(NoReasonError):
        settle(bob, open_next(bob), Choice(Action.ALLOW, Label.OK, "  "))
    assert Appeal.objects.get().state == AppealState.OPEN


def test_same_answer_again_is_the_same_appeal(bob: User, removed: Decision) -> None:
    appeal(removed.item_id)
    lease = open_next(bob)
    assert settle(bob, lease, OVERTURN) == settle(bob, lease, OVERTURN)
    assert Decision.objects.count() == 2


def test_second_moderator_sees_the_first_ones_answer(bob: User, removed: Decision) -> None:
    appeal(removed.item_id)
    eve = UserFactory()
    lost = open_next(eve)
    settle(bob, open_next(bob, now=lost.until), UPHOLD)
    with pytest.raises(AlreadyDecidedError):
        settle(eve, lost, OVERTURN)


def test_appeal_needs_the_lease(bob: User, removed: Decision) -> None:
    appeal(removed.item_id)
    lease = open_next(bob)
    with pytest.raises(LeaseLostError):
        settle(UserFactory(), lease, UPHOLD)


def test_appeals_of_one_decision_are_one(bob: User, removed: Decision) -> None:
    first = appeal(removed.item_id, "u-1")
    assert appeal(removed.item_id, "u-2") == Opened(first.appeal, is_new=False)
    settle(bob, open_next(bob), UPHOLD)
    again = appeal(removed.item_id, "u-3")
    assert (again.is_new, again.appeal.state) == (False, AppealState.UPHELD)
    assert Appeal.objects.count() == 1


def test_repeat_after_overturning_does_not_appeal_ones_own_success(
    bob: User, removed: Decision
) -> None:
    first = appeal(removed.item_id, "u-1")
    settle(bob, open_next(bob), OVERTURN)
    later = timezone.now() + timedelta(hours=1)
    assert appeal(removed.item_id, "u-1", later).appeal == first.appeal
    assert appeal(removed.item_id, "u-2", later).is_new


def test_what_does_not_stand_cannot_be_appealed(ann: User) -> None:
    waiting = ReviewItemFactory()
    allowed = VerdictFactory(action=Action.ALLOW, label=Label.OK).message
    for message_id in (waiting.pk, allowed.pk):
        with pytest.raises(NothingToAppealError):
            appeal(message_id)
    lease = open_item(ann, waiting.pk)
    decide(ann, waiting.pk, token=lease.token, version=lease.version, choice=REMOVE)
    with pytest.raises(NothingToAppealError):
        appeal(waiting.pk)  # it may still be taken back
    assert not Appeal.objects.exists()


def test_appealed_decision_is_changed_by_its_appeal_alone(
    ann: User, bob: User, removed: Decision
) -> None:
    appeal(removed.item_id)
    with pytest.raises(UnderAppealError):
        reverse_decision(ann, removed.pk, Choice(Action.ALLOW, Label.OK))
    lease = open_next(bob)
    with pytest.raises(UnderAppealError):
        decide(bob, lease.item_id, token=lease.token, version=lease.version, choice=REMOVE)


def test_every_step_is_on_record_without_words(bob: User, removed: Decision) -> None:
    appeal(removed.item_id)
    settle(bob, open_next(bob), OVERTURN)
    events = list(AuditEvent.objects.filter(target_type="appeal").order_by("pk"))
    assert [event.action for event in events] == ["appeal.opened", "appeal.decided"]
    assert "joke" not in str([event.after for event in events])
    assert "wrong" not in str([event.after for event in events])


def test_entering_by_hand_needs_the_right_to_review(removed: Decision) -> None:
    operator = UserFactory(role=Role.OPERATOR)
    with pytest.raises(PermissionDenied):
        open_appeal(
            Subject(message_id=removed.item_id),
            appellant="",
            text="x",
            actor=Actor.of_user(operator),
            entered_by=operator,
        )


def test_erasing_empties_the_words_everywhere(bob: User, removed: Decision) -> None:
    appeal(removed.item_id)
    settle(bob, open_next(bob), OVERTURN)
    assert erase_about_messages([removed.item_id], actor=ACTOR).appeals == 1
    emptied = Appeal.objects.get()
    assert (emptied.text, emptied.reason, emptied.appellant) == ("", "", "")
    assert OutboxEvent.objects.get(kind="appeal.decided").payload["reason"] == ""
    assert erase_by_person("u-1", actor=ACTOR).appeals == 0


def test_rates_count_what_was_decided(bob: User) -> None:
    messages = [VerdictFactory(action=Action.REMOVE).message for _ in range(3)]
    for message, choice in zip(messages, (UPHOLD, OVERTURN, OVERTURN), strict=True):
        appeal(message.pk)
        settle(bob, open_item(bob, message.pk), choice)
    appeal(VerdictFactory(action=Action.REMOVE).message.pk)
    for table in appeal_figures.overturn_tables(now=timezone.now()):
        [rate] = table.rates
        assert (rate.decided, rate.overturned) == (3, 2)
        assert rate.rate == pytest.approx(2 / 3)


def test_lead_can_not_reverse_what_came_of_an_appeal_against_themselves(bob: User) -> None:
    lead = UserFactory(role=Role.LEAD)
    first = decided_long_ago(lead, REMOVE)
    appeal(first.item_id)
    result = settle(bob, open_item(bob, first.item_id), OVERTURN).result
    assert result is not None
    with pytest.raises(OwnDecisionError):
        reverse_decision(lead, result.pk, REMOVE)
    other = UserFactory(role=Role.LEAD)
    assert reverse_decision(other, result.pk, REMOVE).reverses == result


class TestPages:
    @pytest.fixture
    def console(self, client: Client, bob: User) -> Client:
        client.force_login(bob)
        return client

    def test_desk_decides_an_appeal_by_form(
        self, console: Client, bob: User, removed: Decision
    ) -> None:
        appeal(removed.item_id)
        html = console.get("/review/").content.decode()
        assert "It was a joke" in html
        assert "Remove: uphold" in html
        item = ReviewItem.objects.get()
        url = f"/review/items/{item.pk}/appeal/"
        fields = {"token": item.lease_token, "version": item.version, "action": "allow"}
        answer = console.post(url, fields, headers={"Accept": "application/json"})
        assert answer.status_code == 400
        assert list(answer.json()["fields"]) == ["note"]
        console.post(url, {**fields, "note": "We were wrong."})
        assert Appeal.objects.get().state == AppealState.OVERTURNED

    def test_removal_of_what_was_allowed_says_what_it_is(self, console: Client, ann: User) -> None:
        allowed = decided_long_ago(ann, Choice(Action.ALLOW, Label.OK))
        appeal(allowed.item_id)
        html = console.get("/review/").content.decode()
        assert 'name="suggested"' not in html
        assert 'name="label" value="toxic"' in html
        item = ReviewItem.objects.get()
        url = f"/review/items/{item.pk}/appeal/"
        fields = {"token": item.lease_token, "version": item.version, "action": "remove"}
        fields["note"] = "It insults somebody."
        for label in ({}, {"suggested": "ok"}, {"label": "ok"}):
            answer = console.post(url, {**fields, **label}, headers={"Accept": "application/json"})
            assert answer.status_code == 400
        console.post(url, {**fields, "label": "toxic"})
        stands = Decision.objects.get(undone_at__isnull=True)
        assert (stands.action, stands.label) == (Action.REMOVE, Label.TOXIC)

    def test_hostile_appeals_stay_in_their_box(self, console: Client, removed: Decision) -> None:
        open_appeal(
            Subject(message_id=removed.item_id),
            appellant="u",
            text="<script>x</script>\u202e" + "z" + "\u0300" * 99,
            actor=ACTOR,
        )
        html = console.get("/review/").content.decode()
        assert "<script>x" not in html
        assert "\u202e" not in html

    def test_entered_by_hand_from_a_decision(
        self, console: Client, bob: User, removed: Decision
    ) -> None:
        url = f"/review/decisions/{removed.pk}/appeal/"
        assert console.get(url).status_code == 200
        assert console.post(url, {"text": ""}).status_code == 200
        assert console.post(url, {"text": "By mail"})["Location"] == "/review/appeals/"
        assert Appeal.objects.get().entered_by == bob
        assert "open" in console.get("/review/appeals/").content.decode()

    def test_page_asks_a_fixed_number(self, console: Client, bob: User) -> None:
        counts = []
        for _ in range(2):
            for choice in (UPHOLD, OVERTURN):
                message: Message = VerdictFactory(action=Action.REMOVE).message
                appeal(message.pk)
                settle(bob, open_item(bob, message.pk), choice)
            console.get("/review/appeals/")
            with CaptureQueriesContext(connection) as captured:
                console.get("/review/appeals/")
            counts.append(len(captured))
        assert counts == [8, 8]
