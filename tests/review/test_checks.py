"""A blind check looks like any message, is never one's own, and changes nothing but figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.audit.models import AuditEvent
from apps.audit.services import Actor
from apps.core import realtime
from apps.policies.models import Action, Label
from apps.review import blind, check_figures
from apps.review.errors import (
    AlreadyDecidedError,
    LeaseLostError,
    NotCheckableError,
    OwnDecisionError,
    UndoExpiredError,
)
from apps.review.models import (
    Cause,
    Check,
    CheckAnswer,
    CheckOutcome,
    Decision,
    Gold,
    QueueTally,
    ReviewItem,
)
from apps.review.queue import QueueFilters
from apps.review.queue_page import queue_page
from apps.review.services import checks, serving
from apps.review.services.checks import Shares
from apps.review.services.decisions import Choice, grace, reverse_decision
from apps.review.services.erasure import erase_about_messages
from apps.review.services.gold import make_gold, retire_gold
from apps.review.services.leases import Lease, open_item
from apps.review.services.settling import settle
from apps.webhooks.models import OutboxEvent
from tests.factories import ReviewItemFactory, UserFactory

pytestmark = pytest.mark.django_db

REMOVE = Choice(Action.REMOVE, Label.SPAM)
ALLOW = Choice(Action.ALLOW, Label.OK)
ALWAYS = Shares(1.0, 0.0)


@pytest.fixture
def lead() -> User:
    return UserFactory(username="lead", role=Role.LEAD)


@pytest.fixture
def all_checked(lead: User) -> None:
    checks.set_shares(lead, ALWAYS)


def decided(user: User, choice: Choice = REMOVE) -> Decision:
    """A decision by `user`, long enough ago to be final."""
    item = ReviewItemFactory()
    lease = open_item(user, item.pk)
    made = serving.decide(user, item.pk, token=lease.token, version=lease.version, choice=choice)
    assert isinstance(made, Decision)
    age(made)
    return made


def age(*made: Decision | CheckAnswer) -> None:
    """Let the grace time of these pass."""
    for one in made:
        one.decided_at -= grace() + timedelta(minutes=1)
        one.save(update_fields=["decided_at"])
    Check.objects.update(due_at=timezone.now() - timedelta(seconds=1))


def check_for(user: User) -> Lease:
    """The check that is waiting for `user`, whoever's turn it is."""
    for kind in ("second", "gold"):
        lease = checks.take(user, checks.CheckKind(kind), QueueFilters(), timezone.now())
        if lease is not None:
            return lease
    raise AssertionError("no check waits")


def answered(user: User, choice: Choice) -> CheckAnswer:
    lease = check_for(user)
    made = serving.decide(
        user, lease.item_id, token=lease.token, version=lease.version, choice=choice
    )
    assert isinstance(made, CheckAnswer)
    return made


def world() -> list[object]:
    """All that a check must not touch."""
    return [
        list(ReviewItem.objects.order_by("pk").values()),
        list(Decision.objects.order_by("pk").values()),
        list(QueueTally.objects.order_by("pk").values()),
        list(OutboxEvent.objects.order_by("pk").values()),
    ]


class TestSampling:
    def test_nothing_is_checked_until_a_lead_says_so(self, ann: User) -> None:
        decided(ann)
        assert not Check.objects.exists()

    def test_share_is_kept(self, ann: User, lead: User) -> None:
        checks.set_shares(lead, Shares(0.3, 0.0))
        for _ in range(60):
            decided(ann)
        assert 6 <= Check.objects.count() <= 32

    @pytest.mark.usefixtures("all_checked")
    def test_repeat_of_a_decision_is_not_drawn_again(self, ann: User) -> None:
        item = ReviewItemFactory()
        lease = open_item(ann, item.pk)
        for _ in range(2):
            serving.decide(ann, item.pk, token=lease.token, version=lease.version, choice=REMOVE)
        assert Check.objects.count() == 1

    def test_only_leads_set_shares_and_it_is_on_record(self, ann: User, lead: User) -> None:
        with pytest.raises(PermissionDenied):
            checks.set_shares(ann, ALWAYS)
        checks.set_shares(lead, ALWAYS)
        checks.set_shares(lead, ALWAYS)
        event = AuditEvent.objects.get(action="checks.shares_set")
        assert (event.before, event.after) == (
            {"second": 0.0, "gold": 0.0},
            {"second": 1.0, "gold": 0.0},
        )


@pytest.mark.usefixtures("all_checked")
class TestHandingOut:
    def test_never_to_whoever_decided_first(self, ann: User) -> None:
        decided(ann)
        assert checks.take(ann, checks.CheckKind.SECOND, QueueFilters(), timezone.now()) is None

    def test_not_while_the_first_may_still_be_taken_back(self, ann: User, bob: User) -> None:
        item = ReviewItemFactory()
        lease = open_item(ann, item.pk)
        serving.decide(ann, item.pk, token=lease.token, version=lease.version, choice=REMOVE)
        now = timezone.now()
        assert checks.take(bob, checks.CheckKind.SECOND, QueueFilters(), now) is None

    def test_not_when_the_first_was_reversed(self, ann: User, bob: User) -> None:
        reverse_decision(ann, decided(ann).pk, ALLOW)
        with pytest.raises(AssertionError):
            check_for(bob)

    def test_not_into_an_empty_queue(self, ann: User, bob: User) -> None:
        decided(ann)
        for _ in range(20):
            assert serving.open_next(bob) is None

    def test_between_items_of_the_queue(self, ann: User, bob: User) -> None:
        first = decided(ann)
        waiting = {ReviewItemFactory().pk for _ in range(30)}
        seen = set()
        for _ in range(30):
            lease = serving.open_next(bob, resume=False)
            assert lease
            seen.add(lease.item_id)
        assert first.item_id in seen
        assert seen - {first.item_id} < waiting

    def test_two_people_never_have_the_same(self, ann: User, bob: User) -> None:
        decided(ann)
        check_for(bob)
        with pytest.raises(AssertionError):
            check_for(UserFactory())

    def test_only_where_the_filters_would_show_it(self, ann: User, bob: User) -> None:
        decided(ann)
        now = timezone.now()
        for filters in (
            QueueFilters(label=Label.TOXIC),
            QueueFilters(group_id=1),
            QueueFilters(text="coins"),
        ):
            assert checks.take(bob, checks.CheckKind.SECOND, filters, now) is None
        assert checks.take(bob, checks.CheckKind.SECOND, QueueFilters(label=Label.SPAM), now)

    def test_skipped_one_goes_to_somebody_else(self, ann: User, bob: User) -> None:
        decided(ann)
        lease = check_for(bob)
        serving.skip(bob, lease.item_id, lease.token)
        with pytest.raises(AssertionError):
            check_for(bob)
        assert check_for(UserFactory()).item_id == lease.item_id

    def test_lease_is_extended_released_and_ends_at_sign_out(self, ann: User, bob: User) -> None:
        decided(ann)
        lease = check_for(bob)
        assert serving.lease_end(bob, lease.item_id, lease.token) == lease.until
        assert serving.extend_lease(bob, lease.item_id, lease.token)
        assert serving.open_item(bob, lease.item_id).item_id == lease.item_id
        assert serving.release_all(bob) == 1
        assert not serving.release_lease(bob, lease.item_id, lease.token)
        eve = UserFactory()
        other = check_for(eve)
        assert serving.release_lease(eve, other.item_id, other.token)
        with pytest.raises(LeaseLostError):
            checks.answer(eve, other.item_id, token=other.token, choice=ALLOW)

    def test_answer_that_may_have_arrived_is_recalled(self, ann: User, bob: User) -> None:
        decided(ann)
        lease = check_for(bob)
        again = serving.recall(bob, lease.item_id, lease.token)
        assert again
        assert again.token != lease.token
        serving.decide(bob, lease.item_id, token=again.token, version=1, choice=ALLOW)
        third = serving.recall(bob, lease.item_id, again.token)
        assert third
        assert Check.objects.get().outcome == CheckOutcome.WAITING
        assert CheckAnswer.objects.get().undone_at

    def test_lost_lease_is_refused(self, ann: User, bob: User) -> None:
        decided(ann)
        lost = check_for(bob)
        Check.objects.update(lease_until=timezone.now())
        check_for(UserFactory())
        with pytest.raises(LeaseLostError):
            checks.answer(bob, lost.item_id, token=lost.token, choice=ALLOW)

    def test_deleted_message_is_not_checked(self, ann: User, bob: User) -> None:
        first = decided(ann)
        message = first.item.message
        message.deleted_at = timezone.now()
        message.save()
        with pytest.raises(AssertionError):
            check_for(bob)
        assert Check.objects.get().outcome == CheckOutcome.VOID


@pytest.mark.usefixtures("all_checked")
class TestAnswering:
    @pytest.mark.parametrize(
        ("choice", "outcome"),
        [
            (REMOVE, CheckOutcome.AGREED),
            (ALLOW, CheckOutcome.DISAGREED),
            (Choice(Action.REMOVE, Label.AD), CheckOutcome.DISAGREED),
        ],
    )
    def test_answer_changes_nothing_but_the_check(
        self, ann: User, bob: User, choice: Choice, outcome: CheckOutcome
    ) -> None:
        decided(ann)
        ReviewItemFactory()
        before = world()
        answered(bob, choice)
        assert Check.objects.get().outcome == outcome
        assert world() == before

    def test_same_answer_again_is_the_same(self, ann: User, bob: User) -> None:
        decided(ann)
        lease = check_for(bob)
        given = [
            serving.decide(bob, lease.item_id, token=lease.token, version=1, choice=ALLOW)
            for _ in range(2)
        ]
        assert given[0] == given[1]
        with pytest.raises(AlreadyDecidedError):
            serving.decide(bob, lease.item_id, token=lease.token, version=1, choice=REMOVE)

    def test_answer_is_taken_back_like_a_decision(self, ann: User, bob: User) -> None:
        decided(ann)
        given = answered(bob, ALLOW)
        lease, item_id = serving.undo(bob, given.pk)
        assert lease
        assert lease.item_id == item_id == given.item_id
        assert Check.objects.get().outcome == CheckOutcome.WAITING
        serving.decide(bob, item_id, token=lease.token, version=1, choice=REMOVE)
        assert Check.objects.get().outcome == CheckOutcome.AGREED

    def test_answer_is_final_after_the_grace_time(self, ann: User, bob: User) -> None:
        decided(ann)
        given = answered(bob, ALLOW)
        with pytest.raises(PermissionDenied):
            serving.undo(ann, given.pk)
        age(given)
        with pytest.raises(UndoExpiredError):
            serving.undo(bob, given.pk)

    def test_erasing_empties_the_notes_of_answers(self, ann: User, bob: User) -> None:
        decided(ann)
        given = answered(bob, Choice(Action.ALLOW, Label.OK, "my words"))
        erased = erase_about_messages([given.item_id], actor=Actor.system("test"))
        given.refresh_from_db()
        assert (erased.notes, given.note, given.action) == (1, "", "allow")

    def test_ids_are_those_of_decisions(self, ann: User, bob: User) -> None:
        first = decided(ann)
        given = answered(bob, ALLOW)
        later = decided(ann)
        assert first.pk < given.pk < later.pk

    def test_counts_stay_equal_to_the_rows(self, ann: User, bob: User) -> None:
        decided(ann)
        ReviewItemFactory()
        answered(bob, ALLOW)
        rows = ReviewItem.objects.filter(state="open").count()
        assert queue_page(bob, QueueFilters()).total == rows == 1


@pytest.mark.usefixtures("all_checked")
class TestSettling:
    def test_lead_lets_the_first_stand(self, ann: User, bob: User, lead: User) -> None:
        first = decided(ann)
        age(answered(bob, ALLOW))
        check = settle(lead, Check.objects.get().pk, REMOVE)
        assert check.outcome == CheckOutcome.SETTLED
        assert Decision.objects.get(undone_at=None) == first
        assert settle(lead, check.pk, REMOVE) == check
        assert AuditEvent.objects.filter(action="check.settled").count() == 1

    def test_lead_reverses_the_first(self, ann: User, bob: User, lead: User) -> None:
        first = decided(ann)
        age(answered(bob, ALLOW))
        settle(lead, Check.objects.get().pk, ALLOW)
        standing = Decision.objects.get(undone_at=None)
        assert (standing.reverses, standing.moderator, standing.action) == (first, lead, "allow")

    def test_only_leads_and_not_one_of_the_two(self, ann: User, lead: User) -> None:
        decided(ann)
        age(answered(lead, ALLOW))
        check = Check.objects.get()
        with pytest.raises(PermissionDenied):
            settle(ann, check.pk, REMOVE)
        with pytest.raises(OwnDecisionError):
            settle(lead, check.pk, REMOVE)
        [dispute] = check_figures.to_settle(lead, now=timezone.now())
        assert not dispute.may_settle

    def test_not_what_agrees_or_may_be_taken_back(self, ann: User, bob: User, lead: User) -> None:
        decided(ann)
        answered(bob, ALLOW)
        with pytest.raises(NotCheckableError):
            settle(lead, Check.objects.get().pk, REMOVE)
        assert check_figures.to_settle(lead, now=timezone.now()) == []


class TestGold:
    def test_known_answer_is_asked_once_of_each(self, ann: User, bob: User, lead: User) -> None:
        gold = make_gold(lead, decided(ann).pk)
        before = world()
        answered(bob, ALLOW)
        assert world() == before
        with pytest.raises(AssertionError):
            check_for(bob)
        for person in (ann, lead):  # who decided it, and who made it
            with pytest.raises(AssertionError):
                check_for(person)
        answered(UserFactory(), REMOVE)
        assert gold.checks.count() == 2

    def test_accuracy_is_of_those_that_are_final(self, ann: User, bob: User, lead: User) -> None:
        for choice in (REMOVE, REMOVE, ALLOW):
            make_gold(lead, decided(ann).pk)
            age(answered(bob, choice))
        [score] = check_figures.gold_scores(now=timezone.now())
        assert (score.name, score.answered, score.right) == ("bob", 3, 2)
        assert score.accuracy == pytest.approx(2 / 3)

    def test_retired_item_is_served_no_more(self, ann: User, bob: User, lead: User) -> None:
        gold = make_gold(lead, decided(ann).pk)
        retire_gold(lead, gold.pk)
        with pytest.raises(AssertionError):
            check_for(bob)
        assert make_gold(lead, Decision.objects.get().pk).retired_at is None

    def test_only_leads_make_it_of_what_is_final(self, ann: User, lead: User) -> None:
        first = decided(ann)
        with pytest.raises(PermissionDenied):
            make_gold(ann, first.pk)
        reverse_decision(ann, first.pk, ALLOW)
        for decision in Decision.objects.all():
            with pytest.raises(NotCheckableError):
                make_gold(lead, decision.pk)
        assert not Gold.objects.exists()

    def test_share_of_cards_is_kept(self, ann: User, lead: User) -> None:
        checks.set_shares(lead, Shares(0.0, 0.25))
        now = timezone.now()
        drawn = [checks.is_turn_of(ann, now, chance=n / 100) for n in range(100)]
        assert drawn.count(checks.CheckKind.GOLD) == 25
        assert drawn.count(None) == 75


@pytest.mark.usefixtures("all_checked")
class TestFigures:
    def test_agreement_overall_by_label_and_pair(self, ann: User, bob: User) -> None:
        for first, second in ((REMOVE, REMOVE), (REMOVE, ALLOW), (ALLOW, ALLOW), (ALLOW, ALLOW)):
            decided(ann, first)
            age(answered(bob, second))
        found = check_figures.looks(now=timezone.now())
        team = check_figures.overall(found, "team")
        assert (team.looks, team.agreed) == (4, 0.75)
        [pair] = check_figures.by_pair(found)
        assert (pair.looks, pair.measure) == (4, pytest.approx(0.5))
        assert [one.label for one in check_figures.by_label(found)] == ["ok", "spam"]
        assert check_figures.own(found, ann, "").looks == 4
        assert check_figures.looks(now=timezone.now(), of=UserFactory()) == []

    def test_what_a_lead_settles_leaves_the_figures_as_they_were(
        self, ann: User, bob: User, lead: User
    ) -> None:
        decided(ann)
        age(answered(bob, ALLOW))
        before = check_figures.looks(now=timezone.now())
        settle(lead, Check.objects.get().pk, ALLOW)
        assert check_figures.looks(now=timezone.now()) == before


class TestPages:
    @pytest.fixture
    def open_as(self, client: Client) -> Callable[[User], Client]:
        def open_as(user: User) -> Client:
            client.force_login(user)
            return client

        return open_as

    @pytest.mark.usefixtures("all_checked")
    def test_card_tells_nothing_of_the_first_decision(
        self, open_as: Callable[[User], Client], ann: User, bob: User
    ) -> None:
        first = decided(ann)
        lease = check_for(bob)
        console = open_as(bob)
        ReviewItemFactory()
        pages = [
            console.get(f"/review/items/{lease.item_id}/").content.decode(),
            console.get("/review/").content.decode(),
            console.get(f"/review/items/{lease.item_id}/look/").content.decode(),
            console.get("/review/rows/").content.decode(),
            console.get(f"/review/items/{lease.item_id}/conversation/?each=15").content.decode(),
        ]
        for html in pages:
            assert "ann" not in re.sub(r"\b(cannot|channel|scanned)\b", "", html).split()
            # The name of a page, in the palette of every page.
            assert "ecided by" not in html.replace("Decided by the lists alone", "")
            assert 'data-state="decided"' not in html
            assert "Removed:" not in html
        assert f'data-item="{first.item_id}" data-state="leased"' in pages[0]
        assert f'data-item="{first.item_id}" data-state="leased"' in pages[1]
        assert f'data-item="{first.item_id}" data-leased' in pages[3]

    @pytest.mark.usefixtures("all_checked")
    def test_check_has_the_same_markup_as_an_item_of_the_queue(
        self, open_as: Callable[[User], Client], ann: User, bob: User
    ) -> None:
        console = open_as(bob)
        item = ReviewItemFactory()
        ordinary = console.get(f"/review/items/{item.pk}/").content.decode()
        serving.release_all(bob)
        decided(ann)
        lease = check_for(bob)
        checked = console.get(f"/review/items/{lease.item_id}/").content.decode()
        assert skeleton(checked) == skeleton(ordinary)

    @pytest.mark.usefixtures("all_checked")
    def test_answer_undo_and_history_are_those_of_a_decision(
        self, open_as: Callable[[User], Client], ann: User, bob: User
    ) -> None:
        decided(ann)
        lease = check_for(bob)
        console = open_as(bob)
        url = f"/review/items/{lease.item_id}/decide/"
        fields = {"token": lease.token, "version": lease.version, "action": "allow"}
        answer = console.post(url, fields, headers={"Accept": "application/json"}).json()
        assert answer.keys() == {"text", "decision", "item", "count", "undo_ms"}
        assert "Take back" in console.get("/review/history/").content.decode()
        assert (
            "data-today>1<" in console.get(f"/review/items/{lease.item_id}/look/").content.decode()
        )
        console.post(f"/review/decisions/{answer['decision']}/undo/")
        assert Check.objects.get().outcome == CheckOutcome.WAITING

    @pytest.mark.usefixtures("all_checked")
    def test_lead_sees_the_team_and_settles_a_moderator_sees_their_own(
        self, open_as: Callable[[User], Client], ann: User, bob: User, lead: User
    ) -> None:
        decided(ann)
        age(answered(bob, ALLOW))
        own = open_as(bob).get("/review/agreement/").content.decode()
        assert "You and all others" in own
        assert "ann" not in own.split()
        assert "To settle" not in own
        console = open_as(lead)
        team = console.get("/review/agreement/").content.decode()
        assert "ann · bob" in team
        console.post(f"/review/checks/{Check.objects.get().pk}/settle/", {"choice": "remove:spam"})
        assert Check.objects.get().outcome == CheckOutcome.SETTLED

    def test_lead_sets_shares_and_makes_gold(
        self, open_as: Callable[[User], Client], ann: User, lead: User
    ) -> None:
        first = decided(ann)
        console = open_as(lead)
        console.post("/review/agreement/shares/", {"second": "5", "gold": "2.5"})
        assert checks.shares() == Shares(0.05, 0.025)
        console.post("/review/agreement/shares/", {"second": "500", "gold": "x"})
        assert checks.shares() == Shares(0.05, 0.025)
        console.post(f"/review/decisions/{first.pk}/gold/")
        gold = Gold.objects.get()
        assert (
            f"/review/gold/{gold.pk}/retire/" in console.get("/review/agreement/").content.decode()
        )
        console.post(f"/review/gold/{gold.pk}/retire/")
        assert not check_figures.gold_items()

    def test_moderators_may_not_post_what_is_for_leads(
        self, open_as: Callable[[User], Client], ann: User, bob: User
    ) -> None:
        first = decided(ann)
        console = open_as(bob)
        for url in (
            "/review/agreement/shares/",
            "/review/checks/1/settle/",
            f"/review/decisions/{first.pk}/gold/",
            "/review/gold/1/retire/",
        ):
            assert (
                console.post(url, {"second": 1, "gold": 1, "choice": "allow:ok"}).status_code == 403
            )

    @pytest.mark.usefixtures("all_checked")
    def test_page_asks_a_fixed_number(
        self, open_as: Callable[[User], Client], ann: User, bob: User, lead: User
    ) -> None:
        console = open_as(lead)
        counts = []
        for _ in range(2):
            for choice in (REMOVE, ALLOW):
                make_gold(lead, decided(ann).pk)
                age(answered(bob, choice))
            console.get("/review/agreement/")
            with CaptureQueriesContext(connection) as captured:
                console.get("/review/agreement/")
            counts.append(len(captured))
        assert counts == [9, 9]


def skeleton(html: str) -> str:
    """A card without what differs from message to message: ids, tokens, times, names."""
    card = html[html.index("data-card") : html.index("</footer>")]
    card = re.sub(r"<time[^>]*>[^<]*</time>|[0-9a-f-]{36}|[\d.:,]+", "", card)
    card = re.sub(r'csrfmiddlewaretoken" value="\w+"', "", card)
    return re.sub(r"\b(Group|Sender|sender|group|message)\b\W*", "", card)


class TestBlindness:
    """Nothing that a browser gets tells a check from an item of the queue."""

    def test_live_events_are_those_of_a_decision(self, ann: User, bob: User, lead: User) -> None:
        checks.set_shares(lead, ALWAYS)
        decided(ann)
        item = ReviewItemFactory()
        with frames() as ordinary:
            lease = open_item(bob, item.pk)
            made = decide_as(bob, lease)
            serving.undo(bob, made.pk)
            serving.release_all(bob)
        with frames() as checked:
            lease = check_for(bob)
            answer = decide_as(bob, lease)
            serving.undo(bob, answer.pk)
            serving.release_all(bob)
        assert checked == ordinary

    def test_version_is_that_of_an_item_that_nobody_has_decided(
        self, ann: User, bob: User, lead: User
    ) -> None:
        checks.set_shares(lead, ALWAYS)
        decided(ann)
        fresh = ReviewItemFactory()
        assert check_for(bob).version == open_item(bob, fresh.pk).version

    def test_part_of_the_queue_that_could_not_hold_it_shows_none(
        self, ann: User, bob: User, lead: User
    ) -> None:
        checks.set_shares(lead, ALWAYS)
        decided(ann)
        lease = check_for(bob)
        toxic = ReviewItemFactory(label=Label.TOXIC)
        part = QueueFilters(label=Label.TOXIC)
        page = blind.queue_page(bob, part)
        assert [row.item_id for row in page.rows] == [toxic.pk]
        assert serving.open_next(bob, part).item_id == toxic.pk
        assert serving.open_next(bob, QueueFilters(label=Label.SPAM)).item_id == lease.item_id

    def test_row_of_a_message_that_was_appealed_is_labelled_by_its_verdict(
        self, ann: User, bob: User, lead: User
    ) -> None:
        checks.set_shares(lead, ALWAYS)
        first = decided(ann, Choice(Action.REMOVE, Label.TOXIC))
        ReviewItem.objects.filter(pk=first.item_id).update(cause=Cause.APPEALED, label=Label.TOXIC)
        lease = check_for(bob)
        ReviewItemFactory()
        rows = {row.item_id: row for row in blind.queue_page(bob, QueueFilters()).rows}
        assert rows[lease.item_id].label == Label.SPAM


def decide_as(user: User, lease: Lease) -> Decision | CheckAnswer:
    return serving.decide(
        user, lease.item_id, token=lease.token, version=lease.version, choice=ALLOW
    )


@contextmanager
def frames() -> Iterator[list[str]]:
    """The kinds of the events that browsers hear of meanwhile."""
    kinds: list[str] = []

    def heard(_topic: str, kind: str, **_: object) -> None:
        kinds.append(kind)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(realtime, "publish", heard)
        yield kinds


class TestVouchingAgain:
    def test_known_answer_follows_the_decision_that_is_vouched_for(
        self, ann: User, lead: User
    ) -> None:
        first = decided(ann)
        make_gold(lead, first.pk)
        second = reverse_decision(ann, first.pk, ALLOW)
        age(second)
        gold = make_gold(lead, second.pk)
        assert (gold.action, gold.label) == (Action.ALLOW, Label.OK)
