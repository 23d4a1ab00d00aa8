"""Reports, appeals, strikes and checks in a real browser: keys, reasons, axe, on every width."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from apps.accounts.models import Role, User
from apps.audit.services import Actor
from apps.policies.models import Action, Label
from apps.review.models import Appeal, Check, Decision, ReportReason, Strike
from apps.review.queue import QueueFilters
from apps.review.services import checks, serving
from apps.review.services.appeals import decide_appeal, open_appeal
from apps.review.services.checks import CheckKind, Shares
from apps.review.services.decisions import Choice, grace
from apps.review.services.gold import make_gold
from apps.review.services.leases import open_item
from apps.review.services.reports import report_message
from apps.review.services.subjects import Subject
from tests.e2e.conftest import PHONE, WIDE, SignIn
from tests.e2e.test_review import card, open_review, wait_until
from tests.factories import ReviewItemFactory, SenderFactory, UserFactory, VerdictFactory

ACTOR = Actor.system("test")
REMOVE = Choice(Action.REMOVE, Label.SPAM)


def removed(user: User, *, strike: bool = False, **message: object) -> Decision:
    """A removal by `user`, some minutes ago."""
    item = ReviewItemFactory(**{f"verdict__message__{k}": v for k, v in message.items()})
    lease = open_item(user, item.pk)
    made = serving.decide(
        user, item.pk, token=lease.token, version=lease.version, choice=REMOVE, strike=strike
    )
    assert isinstance(made, Decision)
    made.decided_at -= grace() + timedelta(minutes=3)
    made.save()
    Check.objects.update(due_at=timezone.now() - timedelta(seconds=1))
    return made


def appeal(decision: Decision, text: str = "It was a joke among friends.") -> Appeal:
    subject = Subject(message_id=decision.item_id)
    return open_appeal(subject, appellant="u-9", text=text, actor=ACTOR).appeal


def test_appeal_is_decided_by_key_with_a_reason(sign_in: SignIn, ann: User, bob: User) -> None:
    appeal(removed(ann))
    page = open_review(sign_in(user=bob))
    expect(card(page)).to_contain_text("It was a joke among friends.")
    page.keyboard.press("a")
    expect(page.locator("#note")).to_be_focused()  # nothing goes without a reason
    page.keyboard.type("We were wrong about this.")
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    expect(card(page)).to_have_attribute("data-state", "empty")
    wait_until(lambda: Appeal.objects.get().state == "overturned")
    assert Appeal.objects.get().reason == "We were wrong about this."


def test_strike_key_removes_and_strikes_and_undo_takes_both_back(
    sign_in: SignIn, bob: User
) -> None:
    item = ReviewItemFactory()
    page = open_review(sign_in(user=bob))
    page.keyboard.press("t")
    wait_until(lambda: Strike.objects.filter(withdrawn_at=None).count() == 1)
    assert Decision.objects.get().action == Action.REMOVE
    page.keyboard.press("u")
    expect(card(page)).to_have_attribute("data-item", str(item.pk))
    wait_until(lambda: not Strike.objects.filter(withdrawn_at=None).exists())


def furnish(ann: User, bob: User) -> User:
    """Something of everything; returns the lead."""
    lead: User = UserFactory(username="lead", role=Role.LEAD)
    eve = UserFactory(username="eve")
    sender = SenderFactory(name="harbor_lamp_88")
    checks.set_shares(lead, Shares(1.0, 0.0))
    answers = [REMOVE, REMOVE, Choice(Action.ALLOW, Label.OK), Choice(Action.REMOVE, Label.AD)]
    for number, answer in enumerate(answers):
        decision = removed(
            ann, strike=number == 1, sender=sender, text=f"Free coins, round {number}"
        )
        if number == 0:
            make_gold(lead, decision.pk)
            gold = checks.take(eve, CheckKind.GOLD, QueueFilters(), timezone.now())
            assert gold
            checks.answer(eve, gold.item_id, token=gold.token, choice=REMOVE)
        lease = checks.take(bob, CheckKind.SECOND, QueueFilters(), timezone.now())
        assert lease
        given = checks.answer(bob, lease.item_id, token=lease.token, choice=answer)
        given.decided_at -= grace() + timedelta(minutes=2)
        given.save()
    checks.set_shares(lead, Shares(0.05, 0.02))
    last = removed(ann, sender=sender, text="Join tgm.example/drop \u202elast chance")
    appeal(last, "I only asked \u202ewhen we meet, z" + "\u0300" * 60)
    for number, reason in enumerate(ReportReason):
        report_message(
            Subject(message_id=last.item_id),
            reporter=f"u-{number}",
            reason=reason,
            note="third time today \u202eabc" if number else "",
            actor=ACTOR,
        )
    overturn(VerdictFactory(action=Action.REMOVE).message.pk, eve)
    return lead


def overturn(message_id: int, user: User) -> None:
    """Somebody appeals a removal by the policy, and `user` overturns it."""
    open_appeal(Subject(message_id=message_id), appellant="u", text="Please look", actor=ACTOR)
    lease = open_item(user, message_id)
    decide_appeal(
        user,
        message_id,
        token=lease.token,
        version=lease.version,
        choice=Choice(Action.ALLOW, Label.OK, "We were wrong about this."),
    )


HISTORY = "/review/history/?everybody=1"
PAGES = ["/review/", "/review/appeals/", "/review/agreement/", "/review/keys/", HISTORY]


@pytest.mark.parametrize(
    ("theme", "viewport", "locale"),
    [("light", WIDE, "en-GB"), ("dark", PHONE, "zh-CN"), ("light", PHONE, "en-GB")],
)
def test_pages_fit_and_are_accessible(
    sign_in: SignIn,
    assert_accessible: Callable[[Page], None],
    ann: User,
    bob: User,
    locale: str,
    viewport: dict[str, int],
    theme: str,
) -> None:
    lead = furnish(ann, bob)
    page = sign_in(user=lead, locale=locale, color_scheme=theme, viewport=viewport)
    for path in PAGES:
        page.goto(path)
        page.evaluate("document.fonts.ready")
        is_too_wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not page.evaluate(is_too_wide), path
        assert_accessible(page)


def test_long_text_in_the_history_is_cut_where_its_column_ends(sign_in: SignIn, ann: User) -> None:
    removed(ann, text="word " * 100)
    page = sign_in(user=ann)
    page.goto("/review/history/")
    text = page.locator(".past-text .text")
    expect(text).to_contain_text("word")
    is_cut = "e => e.getBoundingClientRect().right <= e.closest('td').getBoundingClientRect().right"
    assert text.evaluate(is_cut)
