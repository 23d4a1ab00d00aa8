"""Erased texts vanish from pages that show them, at once, and nobody's work is lost by it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from apps.accounts.models import Role, User
from apps.audit.services import Actor
from apps.chat.models import CHUNK_ID_BITS, Erasure, Message
from apps.review.models import ReviewItem
from apps.review.services.erasure import carry_on, erase_message, request_erasure
from apps.scoring.feed import tell_viewers
from tests.e2e.conftest import PHONE, WIDE, Processes, SignIn, Troubles
from tests.e2e.test_review import card, open_review, row
from tests.e2e.test_timeline import slow_batch
from tests.factories import (
    GroupFactory,
    MessageFactory,
    ReviewItemFactory,
    SenderFactory,
    VerdictFactory,
)
from tests.review.test_intake import judged

ACTOR = Actor.system("test")


def erase(message: Message) -> None:
    erase_message(group=message.group.external_id, external_id=message.external_id, by=ACTOR)


def test_open_card_shows_that_its_message_was_erased(sign_in: SignIn, ann: User) -> None:
    item = ReviewItemFactory(verdict__message__text="my address is 5 Elm Street")
    page = open_review(sign_in(user=ann))
    expect(card(page)).to_contain_text("5 Elm Street")
    erase(item.message)
    expect(card(page).get_by_role("alert")).to_contain_text("Erased")
    expect(card(page).locator("[data-part=sent]")).to_have_text("(erased)")
    expect(page.locator("body")).not_to_contain_text("5 Elm Street")
    expect(row(page, item)).to_have_count(0)


def test_what_is_read_beside_the_open_message_goes_and_the_note_stays(
    sign_in: SignIn, ann: User
) -> None:
    group = GroupFactory()
    erased = MessageFactory(
        group=group, text="my address is 5 Elm Street", sender__name="Ada Lovelace"
    )
    item = ReviewItemFactory(
        verdict__message__group=group,
        verdict__message__reply_to=erased.external_id,
        verdict__message__quoted_text="my address is 5 Elm Street",
        verdict__message__text="nobody asked",
    )
    page = open_review(sign_in(user=ann))
    expect(card(page)).to_have_attribute("data-item", str(item.pk))
    expect(card(page).locator(".quoted")).to_contain_text("5 Elm Street")
    expect(card(page).locator(".talk").first).to_contain_text("Ada Lovelace")
    note = card(page).locator("[data-note]")
    note.fill("half a sentence")
    erase(erased)
    expect(card(page).locator(".quoted")).to_contain_text("(erased)")
    expect(page.locator("body")).not_to_contain_text("5 Elm Street")
    expect(page.locator("body")).not_to_contain_text("Ada Lovelace")
    expect(card(page).locator("[data-part=sent]")).to_have_text("nobody asked")
    expect(note).to_have_value("half a sentence")
    expect(card(page)).to_have_attribute("data-state", "leased")


def test_more_than_can_be_told_one_by_one_are_read_anew(sign_in: SignIn, ann: User) -> None:
    group, sender = GroupFactory(), SenderFactory(external_id="u-1", name="Ada Lovelace")
    said = [
        MessageFactory(group=group, sender=sender, text=f"5 Elm Street, I said {n}")
        for n in range(120)
    ]
    item = ReviewItemFactory(verdict__message__group=group, verdict__message__text="nobody asked")
    page = open_review(sign_in(user=ann))
    expect(card(page)).to_contain_text("5 Elm Street")
    request_erasure("u-1", by=ACTOR)
    assert carry_on(for_s=60)
    expect(page.locator("body")).not_to_contain_text("5 Elm Street")
    expect(page.locator("body")).not_to_contain_text("Ada Lovelace")
    expect(card(page)).to_have_attribute("data-item", str(item.pk))
    expect(card(page)).to_have_attribute("data-state", "leased")
    assert ReviewItem.objects.get().leased_by == ann
    assert len(said) == Message.objects.filter(text="").count()


def test_card_of_an_erased_message_can_be_read_by_everybody(
    sign_in: SignIn, assert_accessible: Callable[[Page], None]
) -> None:
    item = ReviewItemFactory()
    erase(item.message)
    for size in (WIDE, PHONE):
        page = open_review(sign_in(Role.LEAD, viewport=size), f"/review/items/{item.pk}/")
        expect(card(page).get_by_role("alert")).to_contain_text("stays on record")
        assert_accessible(page)


# ---------- the operator's page ----------


def feed_row(page: Page, message: Message) -> Locator:
    return page.locator(f'[data-rows] tr[data-id="{message.pk}"]')


def open_feed(page: Page) -> Page:
    page.goto("/operate/")
    expect(page.locator("live-link .state")).to_have_attribute("data-state", "healthy")
    return page


def test_rows_of_the_feed_lose_their_text_at_once(sign_in: SignIn) -> None:
    gone = VerdictFactory(message__text="my address is 5 Elm Street").message
    stays = VerdictFactory(message__text="see you at noon").message
    page = open_feed(sign_in(Role.MODERATOR))
    expect(feed_row(page, gone)).to_contain_text("5 Elm Street")
    erase(gone)
    expect(feed_row(page, gone).locator(".text-cell")).to_have_text("deleted")
    expect(feed_row(page, stays)).to_contain_text("see you at noon")
    expect(page.locator("body")).not_to_contain_text("5 Elm Street")


def test_frames_that_a_paused_feed_holds_back_lose_their_text_too(sign_in: SignIn) -> None:
    page = open_feed(sign_in(Role.MODERATOR))
    page.locator("#main").focus()
    page.keyboard.press("Space")
    gone, other = (
        VerdictFactory(message__text=text).message for text in ("5 Elm Street", "see you at noon")
    )
    tell_viewers([judged(gone)])
    expect(page.locator("[data-rate]")).to_have_text("Paused: 1 since then")
    erase(gone)
    tell_viewers([judged(other)])  # no frame overtakes another
    expect(page.locator("[data-rate]")).to_have_text("Paused: 2 since then")
    page.keyboard.press(".")
    page.keyboard.press(".")
    expect(feed_row(page, other)).to_contain_text("see you at noon")
    expect(feed_row(page, gone).locator(".text-cell")).to_have_text("deleted")


def test_feed_is_read_anew_when_too_many_are_erased_to_be_told(sign_in: SignIn) -> None:
    sender = SenderFactory(external_id="u-1")
    verdicts = [
        VerdictFactory(message__sender=sender, message__text=f"5 Elm Street, I said {n}")
        for n in range(120)
    ]
    page = open_feed(sign_in(Role.MODERATOR))
    expect(feed_row(page, verdicts[-1].message)).to_contain_text("5 Elm Street")
    request_erasure("u-1", by=ACTOR)
    assert carry_on(for_s=60)
    expect(feed_row(page, verdicts[-1].message).locator(".text-cell")).to_have_text("deleted")
    expect(page.locator("body")).not_to_contain_text("5 Elm Street")


def test_messages_of_a_slow_batch_lose_their_text_at_once(sign_in: SignIn) -> None:
    gone = VerdictFactory(message__text="my address is 5 Elm Street").message
    slow_batch(chunks=[gone.pk >> CHUNK_ID_BITS])
    page = open_feed(sign_in(Role.MODERATOR))
    page.get_by_role("link", name="Slowest batches").click()
    region = page.get_by_role("region", name="Slowest batches")
    region.get_by_text("Messages in it").click()
    expect(region).to_contain_text("5 Elm Street")
    erase(gone)
    expect(region.locator(f'[data-message="{gone.pk}"] .text')).to_have_text("deleted")
    expect(page.locator("body")).not_to_contain_text("5 Elm Street")


# ---------- an admin erases a sender ----------


def test_admin_erases_a_sender_from_the_card_and_sees_it_done(
    own_site: str, pipeline: Processes, sign_in: SignIn, troubles: Troubles
) -> None:
    troubles.expect("422")
    sender = SenderFactory(external_id="\u202eevil", name="<b>Ada</b>\u202e")
    item = ReviewItemFactory(verdict__message__sender=sender)
    MessageFactory.create_batch(300, sender=sender, text="my address is 5 Elm Street")
    page = open_review(sign_in(Role.ADMIN), f"/review/items/{item.pk}/")
    page.get_by_role("link", name="Erase this sender").click()
    expect(page.get_by_role("heading", name="<b>Ada</b>")).to_be_visible()
    expect(page.locator("[data-count=messages]")).to_have_text("301")
    page.get_by_label("Type the id to go on").fill("evil")
    page.get_by_role("button", name="Erase for good").click()
    expect(page.get_by_role("alert")).to_have_text("This is not the id. Nothing was erased.")
    assert not Erasure.objects.exists()
    page.get_by_label("Type the id to go on").fill("[RLO]evil")
    page.get_by_role("button", name="Erase for good").click()
    state = page.locator(".panel-head .state")
    expect(state).to_have_text("done")
    expect(page.locator("[data-count=messages]")).to_have_text("301")
    assert Message.objects.exclude(text="").count() == 0
    page.get_by_role("link", name="All erasures").click()
    expect(page.locator("#erasures tbody tr")).to_have_count(1)
    expect(page.locator("#erasures tbody tr")).to_contain_text("done")
    expect(page.locator("body")).not_to_contain_text("Ada")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_pages_of_erasure_can_be_read_by_everybody_and_fit(
    sign_in: SignIn,
    troubles: Troubles,
    assert_accessible: Callable[[Page], None],
    scheme: str,
    size: dict[str, int],
) -> None:
    troubles.expect("422")
    sender = SenderFactory(external_id="x" * 200, name="\u202e" + "n" * 199)
    MessageFactory(sender=sender)
    done = request_erasure("u-1", by=Actor.system("a" * 150))
    assert carry_on(for_s=60)
    going = SenderFactory(external_id="u-2")
    MessageFactory(sender=going)
    under_way = request_erasure("u-2", by=ACTOR)
    page = sign_in(Role.ADMIN, viewport=size, color_scheme=scheme)
    for path in ("", f"senders/{sender.pk}/", f"{done.pk}/", f"{under_way.pk}/"):
        page.goto(f"/admin/erasures/{path}")
        assert_accessible(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto(f"/admin/erasures/senders/{sender.pk}/")
    page.get_by_role("button", name="Erase for good").click()
    expect(page.get_by_label("Type the id to go on")).to_have_attribute("aria-invalid", "true")
    assert_accessible(page)
