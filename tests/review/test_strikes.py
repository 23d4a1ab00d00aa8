"""A strike goes with a removal, counts until it expires, and is taken back with its decision."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import given as cases
from hypothesis import strategies as st

from apps.accounts.models import Role, User
from apps.audit.models import AuditEvent
from apps.audit.services import Actor
from apps.chat.models import Sender
from apps.policies.models import Action, Label
from apps.review.models import CheckAnswer, Decision, ReviewItem, Strike
from apps.review.queue import QueueFilters
from apps.review.selectors import card
from apps.review.sender_facts import strikes_of
from apps.review.services import checks, serving, strikes
from apps.review.services.appeals import decide_appeal, open_appeal
from apps.review.services.checks import Shares
from apps.review.services.decisions import Choice, grace, reverse_decision
from apps.review.services.leases import open_item
from apps.review.services.subjects import Subject
from apps.review.trust import Fate, trust_of
from apps.webhooks.models import OutboxEvent
from apps.webhooks.services import release_due
from tests.factories import (
    MessageFactory,
    ReviewItemFactory,
    SenderFactory,
    UserFactory,
    VerdictFactory,
)

REMOVE = Choice(Action.REMOVE, Label.SPAM)
ALLOW = Choice(Action.ALLOW, Label.OK)


@pytest.fixture
def sender() -> Sender:
    return SenderFactory(external_id="u-17")


def item_of(sender: Sender) -> ReviewItem:
    item: ReviewItem = ReviewItemFactory(verdict__message__sender=sender)
    return item


def struck(user: User, item: ReviewItem, choice: Choice = REMOVE) -> Decision | CheckAnswer:
    lease = open_item(user, item.pk)
    return serving.decide(
        user, item.pk, token=lease.token, version=lease.version, choice=choice, strike=True
    )


def active(sender: Sender) -> int:
    return strikes_of(sender.pk, now=timezone.now()).count()


def tell_everything() -> None:
    """The grace time is over, and the outbox let everything go."""
    OutboxEvent.objects.update(available_at=timezone.now() - timedelta(seconds=1))
    release_due()


@pytest.mark.django_db
class TestStrike:
    def test_is_given_with_a_removal(self, ann: User, sender: Sender) -> None:
        item = item_of(sender)
        decision = struck(ann, item)
        strike = Strike.objects.get()
        assert (strike.sender, strike.moderator, strike.decision) == (sender, ann, decision)
        assert strike.expires_at - strike.given_at == strikes.lasting()
        assert active(sender) == 1

    def test_is_told_after_the_grace_time_with_how_many_count(
        self, ann: User, sender: Sender
    ) -> None:
        struck(ann, item_of(sender))
        struck(ann, item_of(sender))
        events = OutboxEvent.objects.filter(kind="sender.struck").order_by("pk")
        assert [event.payload["active"] for event in events] == [1, 2]
        assert events[0].payload["sender"] == "u-17"
        assert release_due() == []

    def test_is_on_record_without_the_senders_id_at_the_backend(
        self, ann: User, sender: Sender
    ) -> None:
        struck(ann, item_of(sender))
        event = AuditEvent.objects.get(action="sender.struck")
        assert (event.actor_id, event.target_id) == (ann.pk, str(sender.pk))
        assert "u-17" not in str(event.after)

    def test_same_request_again_strikes_once(self, ann: User, sender: Sender) -> None:
        item = item_of(sender)
        lease = open_item(ann, item.pk)
        for _ in range(2):
            serving.decide(
                ann, item.pk, token=lease.token, version=lease.version, choice=REMOVE, strike=True
            )
        assert Strike.objects.count() == 1

    def test_without_a_removal_is_refused(self, ann: User, sender: Sender) -> None:
        with pytest.raises(ValueError, match="removal"):
            struck(ann, item_of(sender), ALLOW)
        assert not Decision.objects.exists()

    def test_expires(self, ann: User, sender: Sender) -> None:
        struck(ann, item_of(sender))
        later = timezone.now() + strikes.lasting() + timedelta(seconds=1)
        assert not strikes_of(sender.pk, now=later).exists()

    def test_is_undone_with_the_decision_and_never_told(self, ann: User, sender: Sender) -> None:
        decision = struck(ann, item_of(sender))
        serving.undo(ann, decision.pk)
        assert active(sender) == 0
        assert Strike.objects.get().withdrawn_at
        tell_everything()
        assert not OutboxEvent.objects.filter(kind__startswith="sender.").exists()
        assert AuditEvent.objects.filter(action="sender.strike_withdrawn").count() == 1

    def test_is_recalled_with_a_decision_that_may_have_arrived(
        self, ann: User, sender: Sender
    ) -> None:
        decision = struck(ann, item_of(sender))
        assert isinstance(decision, Decision)
        assert decision.lease_token
        serving.recall(ann, decision.item_id, decision.lease_token)
        assert active(sender) == 0

    def test_reversal_withdraws_it_and_tells(self, ann: User, sender: Sender) -> None:
        decision = struck(ann, item_of(sender))
        tell_everything()
        reverse_decision(ann, decision.pk, ALLOW)
        assert active(sender) == 0
        event = OutboxEvent.objects.get(kind="sender.strike_withdrawn")
        assert (event.payload["strike"], event.payload["sender"]) == (
            Strike.objects.get().pk,
            "u-17",
        )

    def test_reversal_to_another_removal_keeps_it(self, ann: User, sender: Sender) -> None:
        decision = struck(ann, item_of(sender))
        tell_everything()
        new = reverse_decision(ann, decision.pk, Choice(Action.REMOVE, Label.AD))
        assert active(sender) == 1
        assert Strike.objects.get().decision == new

    def test_overturning_on_appeal_withdraws_it(self, ann: User, sender: Sender) -> None:
        decision = struck(ann, item_of(sender))
        Decision.objects.update(decided_at=timezone.now() - grace() - timedelta(minutes=1))
        open_appeal(
            Subject(message_id=decision.item_id), appellant="u", text="x", actor=Actor.system("t")
        )
        bob = UserFactory()
        lease = open_item(bob, decision.item_id)
        decide_appeal(
            bob,
            decision.item_id,
            token=lease.token,
            version=lease.version,
            choice=Choice(Action.ALLOW, Label.OK, "Sorry."),
        )
        assert active(sender) == 0

    def test_answer_to_a_blind_check_strikes_nobody(self, ann: User, sender: Sender) -> None:
        checks.set_shares(UserFactory(role=Role.LEAD), Shares(1.0, 0.0))
        item = item_of(sender)
        lease = open_item(ann, item.pk)
        serving.decide(ann, item.pk, token=lease.token, version=lease.version, choice=REMOVE)
        bob, later = UserFactory(), timezone.now() + grace() + timedelta(seconds=1)
        check = checks.take(bob, checks.CheckKind.SECOND, QueueFilters(), later)
        assert check
        answer = serving.decide(
            bob, item.pk, token=check.token, version=check.version, choice=REMOVE, strike=True
        )
        assert isinstance(answer, CheckAnswer)
        assert not Strike.objects.exists()


class TestTrust:
    @pytest.mark.parametrize(
        ("fates", "strikes_given", "value"),
        [
            ([], 0, 0.5),
            ([Fate(Action.ALLOW, False)] * 98, 0, 0.99),
            ([Fate(Action.REMOVE, False)] * 2, 0, 0.25),
            ([Fate(Action.REMOVE, True)] * 2, 0, 0.125),
            ([Fate(Action.ALLOW, True)] * 2, 0, 0.875),
            ([Fate(Action.HOLD, False)] * 50, 0, 0.5),
            ([], 2, 0.245),
        ],
    )
    def test_is_what_the_formula_says(
        self, fates: list[Fate], strikes_given: int, value: float
    ) -> None:
        assert trust_of(fates, strikes_given).value == pytest.approx(value)

    @cases(
        st.lists(st.builds(Fate, st.sampled_from(list(Action)), st.booleans()), max_size=100),
        st.integers(0, 40),
    )
    def test_lies_between_and_falls_with_removals_and_strikes(
        self, fates: list[Fate], strikes_given: int
    ) -> None:
        trust = trust_of(fates, strikes_given)
        assert 0 < trust.value < 1
        assert trust_of([*fates, Fate(Action.REMOVE, True)], strikes_given).value < trust.value
        assert trust_of(fates, strikes_given + 1).value < trust.value
        assert trust_of([*fates, Fate(Action.ALLOW, False)], strikes_given).value > trust.value


@pytest.mark.django_db
class TestCard:
    def test_shows_trust_and_strikes_of_other_messages(self, ann: User, sender: Sender) -> None:
        for action in (Action.ALLOW, Action.ALLOW, Action.REMOVE):
            VerdictFactory(message=MessageFactory(sender=sender), action=action)
        past = item_of(sender)
        struck(ann, past)
        facts = card(ann, item_of(sender).pk).sender
        assert (facts.trust.allowed, facts.trust.removed, facts.trust.strikes) == (2, 2, 1)
        assert facts.trust.value == pytest.approx(3 / 8 * 0.7)
        assert [strike.moderator for strike in facts.strikes] == [ann]
        assert card(ann, past.pk).sender.strikes == []

    def test_key_strikes_by_form(self, client: Client, ann: User, sender: Sender) -> None:
        item = item_of(sender)
        client.force_login(ann)
        html = client.get("/review/").content.decode()
        assert 'value="strike" data-command="strike"' in html
        item.refresh_from_db()
        fields = {"token": item.lease_token, "version": item.version, "suggested": "spam"}
        client.post(f"/review/items/{item.pk}/decide/", {**fields, "action": "strike"})
        decision = Decision.objects.get()
        assert (decision.action, decision.label) == ("remove", "spam")
        assert active(sender) == 1
        other = item_of(sender)
        html = client.get(f"/review/items/{other.pk}/").content.decode()
        assert "Strikes" in html
        assert ">ann<" in html
