"""The review page in real browsers: keys, leases, races, undo, hostile texts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Locator, Page, Route, expect

from apps.accounts.models import User
from apps.policies.models import Action, Label
from apps.review.announce import announce
from apps.review.models import Cause, Decision, ReviewItem
from apps.review.services.decisions import Choice, decide
from apps.review.services.leases import open_item
from tests.e2e.conftest import PATIENCE_MS, PHONE, WIDE, SignIn, Troubles
from tests.factories import (
    GroupFactory,
    MessageFactory,
    ReviewItemFactory,
    SenderFactory,
    VerdictFactory,
)

HOSTILE = [
    "<script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "safe \u202egpj.exe",
    "fr\u2062ee m\u200bon\u2068ey fr\u0435\u0435",
    "z" + "\u0300" * 60 + "algo",
    "\ufeff",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 " * 40,
    "a" * 15_000,
    "שלום עולם",
    "=HYPERLINK(1)",
    "one\n\n\n\ntwo",
]


def open_review(page: Page, path: str = "/review/") -> Page:
    page.goto(path)
    expect(page.locator("html")).to_have_attribute("data-live", "live")
    return page


def card(page: Page) -> Locator:
    return page.locator("[data-card]")


def row(page: Page, item: ReviewItem) -> Locator:
    return page.locator(f'.queue-row[data-item="{item.pk}"]')


def wait_until(is_true: Callable[[], bool]) -> None:
    """For what only the database shows; fails when it doesn't come true."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def queue() -> list[ReviewItem]:
    """Three items, the first the most urgent."""
    return [ReviewItemFactory(priority=priority) for priority in (0.9, 0.5, 0.2)]


def test_twenty_are_decided_by_keyboard_alone(sign_in: SignIn, ann: User) -> None:
    items = [ReviewItemFactory(priority=0.9 - n / 100) for n in range(20)]
    page = open_review(sign_in(user=ann))
    for number, item in enumerate(items):
        expect(card(page)).to_have_attribute("data-item", str(item.pk))
        page.keyboard.press("arh"[number % 3])
    expect(card(page)).to_have_attribute("data-state", "empty")
    wait_until(lambda: Decision.objects.count() == 20)
    made = list(Decision.objects.order_by("pk").values_list("item_id", "action"))
    actions = ["allow", "remove", "hold"]
    assert made == [(item.pk, actions[n % 3]) for n, item in enumerate(items)]


def test_both_see_each_others_lease_and_decision(
    sign_in: SignIn, ann: User, bob: User, queue: list[ReviewItem]
) -> None:
    hers = open_review(sign_in(user=ann))
    expect(row(hers, queue[0])).to_contain_text("you")
    his = open_review(sign_in(user=bob))
    expect(row(his, queue[0])).to_contain_text("ann")
    expect(row(hers, queue[2])).to_contain_text("bob")
    hers.keyboard.press("r")
    expect(row(his, queue[0])).to_have_count(0)
    expect(his.locator('[data-count="all"]')).to_have_text("2")


def test_item_of_somebody_else_can_be_looked_at_and_shows_what_they_decide(
    sign_in: SignIn, ann: User, bob: User
) -> None:
    item = ReviewItemFactory()
    hers = open_review(sign_in(user=ann))
    his = open_review(sign_in(user=bob), f"/review/items/{item.pk}/")
    expect(his.get_by_role("alert")).to_contain_text("ann has it open now")
    expect(his.get_by_role("button", name="Remove")).to_have_count(0)
    hers.keyboard.press("r")
    expect(his.get_by_role("alert")).to_contain_text("ann removed it")


def test_loser_of_a_race_sees_the_winner(
    sign_in: SignIn, troubles: Troubles, ann: User, bob: User
) -> None:
    troubles.expect("409")
    item = ReviewItemFactory()
    hers = open_review(sign_in(user=ann))
    # Her line is slow: she decides before the news of his decision reaches her.
    hers.evaluate("document.querySelector('live-link').disconnectedCallback()")
    lease = open_item(bob, item.pk, now=timezone.now() + timedelta(hours=1))
    choice = Choice(Action.ALLOW, Label.OK)
    decide(bob, item.pk, token=lease.token, version=lease.version, choice=choice)
    hers.keyboard.press("r")
    expect(hers.locator(".toast")).to_contain_text("bob allowed it")
    assert Decision.objects.get().action == "allow"


def test_lease_that_somebody_took_over_is_said_at_once(
    sign_in: SignIn, ann: User, bob: User
) -> None:
    item = ReviewItemFactory()
    hers = open_review(sign_in(user=ann))
    open_item(bob, item.pk, now=timezone.now() + timedelta(hours=1))
    expect(hers.get_by_role("alert")).to_contain_text("bob has it open now")


def test_lease_counts_down_and_its_end_is_shown(sign_in: SignIn, ann: User) -> None:
    item = ReviewItemFactory()
    page = open_review(sign_in(user=ann))
    left = page.locator(".actions [data-left]")
    expect(left).to_have_text(re.compile(r"[01]:\d\d|2:00"))
    expect(left).not_to_have_text(left.inner_text())
    ReviewItem.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    page.locator(".actions lease-clock").evaluate("clock => clock.set(0)")
    expect(page.get_by_role("alert")).to_contain_text("Your lease has ended")
    page.get_by_role("button", name="Take it again").click()
    expect(card(page)).to_have_attribute("data-state", "leased")
    item.refresh_from_db()
    assert item.leased_by == ann


def test_news_of_the_open_item_does_not_extend_its_lease(sign_in: SignIn, ann: User) -> None:
    item = ReviewItemFactory()
    page = open_review(sign_in(user=ann))
    ends = timezone.now() + timedelta(seconds=100)
    ReviewItem.objects.update(lease_until=ends)
    with page.expect_response(lambda answer: answer.url.endswith(f"/{item.pk}/ask/")):
        announce("reported", [item.pk])
    expect(card(page)).to_have_attribute("data-state", "leased")
    item.refresh_from_db()
    assert item.lease_until == ends
    ReviewItem.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    announce("reported", [item.pk])
    expect(page.get_by_role("alert")).to_contain_text("Your lease has ended")


def test_closed_tab_gives_the_items_back(
    sign_in: SignIn, ann: User, queue: list[ReviewItem]
) -> None:
    page = open_review(sign_in(user=ann))
    expect(page.locator("review-desk")).to_have_attribute("data-ready", "")
    page.close(run_before_unload=True)
    wait_until(lambda: not ReviewItem.objects.filter(leased_by__isnull=False).exists())


def test_undo_brings_the_cards_back_newest_first(
    sign_in: SignIn, ann: User, queue: list[ReviewItem]
) -> None:
    page = open_review(sign_in(user=ann))
    for item in queue[:2]:
        expect(card(page)).to_have_attribute("data-item", str(item.pk))
        page.keyboard.press("r")
    expect(page.locator("undo-bar")).to_contain_text("Removed: spam")
    expect(page.locator("undo-bar")).to_contain_text("final in")
    wait_until(lambda: Decision.objects.count() == 2)
    page.keyboard.press("u")
    expect(card(page)).to_have_attribute("data-item", str(queue[1].pk))
    page.keyboard.press("u")
    expect(card(page)).to_have_attribute("data-item", str(queue[0].pk))
    assert not Decision.objects.filter(undone_at__isnull=True).exists()
    page.keyboard.press("a")
    wait_until(lambda: Decision.objects.filter(undone_at__isnull=True, action="allow").exists())


def test_undo_takes_the_newest_back_though_its_answer_is_still_on_its_way(
    sign_in: SignIn, ann: User, queue: list[ReviewItem]
) -> None:
    sent: list[Route] = []

    def hold_the_second(route: Route) -> None:
        sent.append(route)
        if len(sent) == 1:
            route.continue_()

    # From the beginning: requests that are made while interception begins may go by unseen.
    page = sign_in(user=ann)
    page.route(re.compile("/decide/"), hold_the_second)
    open_review(page)
    page.keyboard.press("r")
    expect(page.locator("undo-bar")).to_contain_text("Removed: spam")
    expect(card(page)).to_have_attribute("data-item", str(queue[1].pk))
    page.keyboard.press("r")
    wait_until(lambda: page.evaluate("1") and len(sent) == 2)
    page.keyboard.press("u")
    page.keyboard.press("u")
    sent[1].continue_()
    expect(card(page)).to_have_attribute("data-item", str(queue[0].pk))
    assert not Decision.objects.filter(undone_at__isnull=True).exists()
    assert Decision.objects.count() == 2


def test_skipped_message_does_not_come_back(
    sign_in: SignIn, ann: User, queue: list[ReviewItem]
) -> None:
    page = open_review(sign_in(user=ann))
    page.keyboard.press("s")
    expect(card(page)).to_have_attribute("data-item", str(queue[1].pk))
    page.reload()
    expect(card(page)).to_have_attribute("data-item", str(queue[1].pk))


def test_message_that_was_to_be_the_next_is_decided_once_when_it_is_chosen(
    sign_in: SignIn, ann: User, queue: list[ReviewItem]
) -> None:
    page = open_review(sign_in(user=ann))
    expect(page.locator("review-desk")).to_have_attribute("data-ready", "")
    row(page, queue[1]).click()
    expect(card(page)).to_have_attribute("data-item", str(queue[1].pk))
    page.keyboard.press("r")
    expect(card(page)).not_to_have_attribute("data-item", str(queue[1].pk))
    expect(card(page)).to_have_attribute("data-state", "leased")
    wait_until(lambda: Decision.objects.filter(item=queue[1], undone_at=None).exists())
    assert Decision.objects.count() == 1


def test_new_message_appears_by_itself_in_an_empty_queue(sign_in: SignIn, ann: User) -> None:
    page = open_review(sign_in(user=ann))
    expect(page.get_by_role("heading", name="Nothing to review")).to_be_visible()
    item = ReviewItemFactory()
    announce("opened", [item.pk])
    expect(card(page)).to_have_attribute("data-item", str(item.pk))
    expect(page.locator('[data-count="all"]')).to_have_text("1")


def test_news_of_a_message_is_not_lost_on_a_page_that_is_asking_for_one(
    sign_in: SignIn, ann: User
) -> None:
    page = sign_in(user=ann)
    held: list[Route] = []
    page.route(re.compile("/next/"), lambda route: held.append(route), times=1)
    open_review(page)
    wait_until(lambda: page.evaluate("1") and len(held) == 1)
    answer_before = held[0].fetch()
    page.evaluate("addEventListener('live:review', () => (window.heard = true), {capture: true})")
    item = ReviewItemFactory()
    announce("opened", [item.pk])
    wait_until(lambda: page.evaluate("window.heard === true"))
    held[0].fulfill(response=answer_before)
    expect(card(page)).to_have_attribute("data-item", str(item.pk))


def test_news_from_before_the_line_was_up_are_not_lost(
    sign_in: SignIn, ann: User, bob: User
) -> None:
    held: list[Route] = []
    page = sign_in(user=ann)
    page.route(re.compile("live-link"), lambda route: held.append(route), times=1)
    page.goto("/review/", wait_until="commit")
    expect(page.get_by_role("heading", name="Nothing to review")).to_be_visible()
    other = open_review(sign_in(user=bob))
    # Bob takes one and fetches one ahead.
    announce("opened", [ReviewItemFactory().pk for _ in range(3)])
    expect(other.locator("review-desk")).to_have_attribute("data-ready", "")
    wait_until(lambda: page.evaluate("1") and len(held) == 1)
    held[0].continue_()
    expect(card(page)).to_have_attribute("data-item", re.compile(r"\d+"))


def test_what_nothing_judged_asks_what_it_is_before_it_is_removed(
    sign_in: SignIn, ann: User
) -> None:
    ReviewItemFactory(label=None, cause=Cause.UNDETERMINED)
    page = open_review(sign_in(user=ann))
    page.keyboard.press("r")
    expect(page.locator(".toast")).to_contain_text("Choose what it is first")
    page.keyboard.press("3")
    wait_until(lambda: Decision.objects.filter(action="remove", label="toxic").exists())


def test_phone_has_the_queue_and_the_labels_when_they_are_asked_for(
    sign_in: SignIn, ann: User
) -> None:
    items = [
        ReviewItemFactory(priority=priority, label=None, cause=Cause.UNDETERMINED)
        for priority in (0.9, 0.5)
    ]
    page = open_review(sign_in(user=ann, viewport=PHONE, has_touch=True))
    page.get_by_role("button", name="Queue").tap()
    row(page, items[1]).tap()
    expect(card(page)).to_have_attribute("data-item", str(items[1].pk))
    page.get_by_role("button", name="Remove").tap()
    page.locator(".label-choice:has([value=ad])").tap()
    wait_until(lambda: Decision.objects.filter(item=items[1], label="ad").exists())


def test_keys_do_not_fire_in_text_fields_or_twice_when_held(
    sign_in: SignIn, ann: User, queue: list[ReviewItem]
) -> None:
    page = open_review(sign_in(user=ann))
    page.keyboard.press("n")
    page.keyboard.type("a remark, s and r")
    expect(page.get_by_label("Note")).to_have_value("a remark, s and r")
    page.keyboard.press("Escape")
    page.keyboard.down("r")
    page.keyboard.down("r")
    page.keyboard.up("r")
    expect(card(page)).to_have_attribute("data-item", str(queue[1].pk))
    wait_until(lambda: Decision.objects.exists())
    assert Decision.objects.get().note == "a remark, s and r"


def test_rows_are_reached_and_opened_by_key(
    sign_in: SignIn, ann: User, queue: list[ReviewItem]
) -> None:
    page = open_review(sign_in(user=ann))
    for _ in range(2):
        page.keyboard.press("j")
    expect(row(page, queue[2])).to_be_focused()
    page.keyboard.press("Enter")
    expect(card(page)).to_have_attribute("data-item", str(queue[2].pk))
    expect(row(page, queue[2])).to_have_attribute("aria-current", "true")
    wait_until(lambda: ReviewItem.objects.get(pk=queue[0].pk).leased_by is None)


def test_decision_made_without_a_line_waits_visibly_and_is_sent(
    sign_in: SignIn, troubles: Troubles, ann: User, queue: list[ReviewItem]
) -> None:
    troubles.expect("ERR_INTERNET_DISCONNECTED", "ERR_NETWORK", "WebSocket")
    page = open_review(sign_in(user=ann))
    expect(page.locator("review-desk")).to_have_attribute("data-ready", "")
    page.context.set_offline(True)
    page.keyboard.press("r")
    expect(card(page)).to_have_attribute("data-item", str(queue[1].pk))
    expect(page.locator("[data-waiting]")).to_contain_text("1 decision waits")
    assert not Decision.objects.exists()
    page.context.set_offline(False)
    wait_until(lambda: Decision.objects.filter(item=queue[0]).exists())
    expect(page.locator("[data-waiting]")).to_be_empty()


def test_undo_of_a_decision_whose_answer_was_lost_takes_it_back_on_the_server_too(
    sign_in: SignIn, troubles: Troubles, ann: User, queue: list[ReviewItem]
) -> None:
    troubles.expect("ERR_FAILED")
    page = sign_in(user=ann)

    def lose_the_answer(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route(re.compile("/decide/"), lambda route: route.abort())
    page.route(re.compile("/decide/"), lose_the_answer, times=1)
    open_review(page)
    expect(page.locator("review-desk")).to_have_attribute("data-ready", "")
    page.keyboard.press("r")
    expect(page.locator("[data-waiting]")).to_contain_text("1 decision waits")
    page.keyboard.press("u")
    expect(card(page)).to_have_attribute("data-item", str(queue[0].pk))
    wait_until(lambda: Decision.objects.filter(undone_at__isnull=False).exists())
    page.unroute_all()
    expect(card(page)).not_to_have_attribute("data-recalled", "")
    page.keyboard.press("a")
    wait_until(lambda: Decision.objects.filter(undone_at__isnull=True, action="allow").exists())


def test_reason_and_changed_keys(sign_in: SignIn, ann: User, queue: list[ReviewItem]) -> None:
    page = sign_in(user=ann)
    page.goto("/review/keys/")
    page.get_by_label("Remove", exact=True).press("x")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".toast")).to_contain_text("Your keys are saved")
    open_review(page)
    page.keyboard.press("r")
    page.keyboard.press("6")
    page.keyboard.press("5")
    expect(page.get_by_role("radio", name="scam or phishing")).to_be_checked()
    page.keyboard.press("x")
    wait_until(lambda: Decision.objects.exists())
    made = Decision.objects.get()
    assert (made.item_id, made.action, made.reason) == (queue[0].pk, "remove", "fraud")


def test_palette_acts_on_the_message_filters_the_queue_and_goes_to_pages(
    sign_in: SignIn, ann: User, queue: list[ReviewItem]
) -> None:
    page = open_review(sign_in(user=ann))
    page.keyboard.press("Control+k")
    page.keyboard.type("remove")
    page.keyboard.press("Enter")
    wait_until(lambda: Decision.objects.filter(action="remove").exists())
    expect(card(page)).to_have_attribute("data-item", str(queue[1].pk))
    page.keyboard.press("Control+k")
    page.keyboard.type("queue toxic")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"label=toxic"))
    page.keyboard.press("Control+k")
    page.keyboard.type("my keys")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/review/keys/"))


@pytest.mark.usefixtures("triton")
def test_spans_are_marked_after_the_card_is_there_and_more_of_the_conversation_comes(
    sign_in: SignIn, ann: User
) -> None:
    group = GroupFactory()
    said = MessageFactory.create_batch(12, group=group)
    spam = MessageFactory(group=group, text="hello, fr\u0435\u0435 coins at tgm.example/drop today")
    ReviewItemFactory(verdict=VerdictFactory(message=spam))
    page = sign_in(user=ann)
    # A busy machine may not answer within the explainer's time; then the card offers to ask again.
    again = page.locator("verdict-spans [data-again]")
    page.add_locator_handler(again, lambda button: button.click(), no_wait_after=True)
    open_review(page)
    expect(page.locator("[data-part=sent] mark").first).to_be_visible()
    expect(page.locator("[data-part=read] mark").first).to_be_visible()
    expect(page.locator("verdict-spans .span-line").first).to_contain_text("+")
    expect(page.locator(".talk")).to_have_count(6)
    page.keyboard.press("]")
    expect(page.locator(".talk")).to_have_count(len(said) + 1)


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_figures_are_drawn_and_told(
    sign_in: SignIn,
    ann: User,
    queue: list[ReviewItem],
    assert_accessible: Callable[[Page], None],
    size: dict[str, int],
) -> None:
    for item in queue:
        lease = open_item(ann, item.pk)
        choice = Choice(Action.REMOVE, Label.SPAM)
        decide(ann, item.pk, token=lease.token, version=lease.version, choice=choice)
    page = sign_in(user=ann, viewport=size)
    page.goto("/review/figures/")
    expect(page.locator("review-charts canvas")).to_have_count(4)
    expect(page.locator("review-charts figure").first).to_have_attribute("role", "img")
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    assert_accessible(page)


def test_everything_works_without_javascript(sign_in: SignIn, ann: User) -> None:
    items = [ReviewItemFactory(priority=priority) for priority in (0.9, 0.5)]
    page = sign_in(user=ann, java_script_enabled=False)
    page.goto("/review/")
    page.locator('[data-command="remove"]').click()
    expect(card(page)).to_have_attribute("data-item", str(items[1].pk))
    page.get_by_role("button", name="Undo").click()
    page.locator(f'.queue-row[data-item="{items[0].pk}"]').click()
    expect(card(page)).to_have_attribute("data-item", str(items[0].pk))
    page.get_by_role("button", name="Skip").click()
    expect(card(page)).to_have_attribute("data-item", str(items[1].pk))


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_hostile_texts_stay_in_their_boxes(
    sign_in: SignIn,
    ann: User,
    assert_accessible: Callable[[Page], None],
    theme: str,
    size: dict[str, int],
) -> None:
    for text in HOSTILE:
        sender, group = SenderFactory(name=text[:200]), GroupFactory(name=text[:200])
        message = MessageFactory(text=text, sender=sender, group=group, quoted_text=text)
        ReviewItemFactory(verdict=VerdictFactory(message=message, reasons=[text[:200]]))
    page = open_review(sign_in(user=ann, color_scheme=theme, viewport=size))
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    assert_accessible(page)
    for number in range(len(HOSTILE)):
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide == size["width"]
        before = card(page).get_attribute("data-item")
        assert before is not None
        page.keyboard.press("a")
        if number < len(HOSTILE) - 1:
            expect(card(page)).not_to_have_attribute("data-item", before)
    expect(card(page)).to_have_attribute("data-state", "empty")
    assert_accessible(page)
