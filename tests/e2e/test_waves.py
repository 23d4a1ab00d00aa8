"""A wave in real browsers: one key for 143, members taken out, undo of the whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import User
from apps.review.models import Decision, ReviewItem, ReviewState
from tests.e2e.conftest import PHONE, WIDE, SignIn
from tests.e2e.test_review import card, open_review, row, wait_until
from tests.factories import ReviewItemFactory
from tests.review.test_waves import offers, taken_in


def test_wave_of_143_is_decided_with_one_key_and_taken_back_with_another(
    sign_in: SignIn, ann: User, bob: User
) -> None:
    ids = taken_in(offers(143, groups=12))
    # Her page fetches one of them ahead; he gets the other.
    after = [ReviewItemFactory(priority=0.01) for _ in range(2)]
    page = open_review(sign_in(user=ann))
    expect(card(page)).to_have_attribute("data-item", str(ids[0]))
    expect(row(page, ReviewItem.objects.get(pk=ids[0]))).to_contain_text("×143 in 12 groups")
    expect(page.locator('[data-count="all"]')).to_have_text("145")
    expect(page.locator(".queue-row")).to_have_count(3)
    expect(page.locator("wave-members .wave-member")).to_have_count(3)
    expect(page.locator("review-desk")).to_have_attribute("data-ready", "")
    his = open_review(sign_in(user=bob))
    expect(card(his)).to_have_attribute("data-item", str(after[1].pk))
    page.keyboard.press("r")
    expect(page.locator("undo-bar")).to_contain_text("Removed: spam ×143")
    expect(his.locator('[data-count="all"]')).to_have_text("2")
    assert Decision.objects.filter(item_id__in=ids, undone_at__isnull=True).count() == 143
    expect(page.locator("[data-today]").first).to_have_text("143")
    page.keyboard.press("u")
    expect(card(page)).to_have_attribute("data-item", str(ids[0]))
    expect(his.locator('[data-count="all"]')).to_have_text("145")
    assert ReviewItem.objects.filter(state=ReviewState.OPEN).count() == 145
    expect(page.locator("[data-today]").first).to_have_text("0")
    page.keyboard.press("s")  # the next card was drawn while 143 were decided
    expect(card(page)).to_have_attribute("data-item", str(after[0].pk))
    expect(page.locator("[data-today]").first).to_have_text("0")


def test_members_are_read_and_taken_out_by_keyboard(sign_in: SignIn, ann: User) -> None:
    ids = taken_in(offers(9))
    page = open_review(sign_in(user=ann))
    members = page.locator("wave-members")
    expect(members.locator("[data-wave-size]")).to_have_text("×9")
    members.get_by_role("link", name="Show all").press("Enter")
    expect(members.locator(".wave-member")).to_have_count(8)
    out = int(members.locator(".wave-member").nth(4).get_attribute("data-member") or 0)
    members.get_by_role("button", name="Take out").nth(4).press("Enter")
    expect(members.locator("[data-wave-size]")).to_have_text("×8")
    expect(page.locator(".toast")).to_contain_text("Taken out")
    expect(members.get_by_role("button", name="Take out").nth(2)).to_be_focused()
    page.keyboard.press("r")
    expect(card(page)).to_have_attribute("data-item", str(out))
    wait_until(lambda: Decision.objects.count() == 8)
    assert not Decision.objects.filter(item_id=out).exists()
    assert len(ids) == 9


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_wave_is_accessible_and_fits(
    sign_in: SignIn,
    ann: User,
    assert_accessible: Callable[[Page], None],
    theme: str,
    size: dict[str, int],
) -> None:
    taken_in(offers(30, groups=12))
    page = open_review(sign_in(user=ann, color_scheme=theme, viewport=size))
    expect(page.locator("wave-members .wave-member")).to_have_count(3)
    assert_accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]


def test_reading_all_members_leaves_the_lease_as_it_is(sign_in: SignIn, ann: User) -> None:
    ids = taken_in(offers(9))
    page = open_review(sign_in(user=ann))
    token = card(page).get_attribute("data-token")
    members = page.locator("wave-members")
    members.get_by_role("link", name="Show all").click()
    expect(members.locator(".wave-member")).to_have_count(8)
    members.get_by_role("button", name="Take out").first.click()
    expect(members.locator("[data-wave-size]")).to_have_text("×8")
    assert str(ReviewItem.objects.get(pk=ids[0]).lease_token) == token
