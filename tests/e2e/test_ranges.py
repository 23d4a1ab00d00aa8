"""Bulk by score in a real browser: a range of 40, chosen by mouse or keys, decided and undone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import User
from apps.review.models import Decision, ReviewItem, ReviewState
from apps.review.services.keymaps import save_keys
from tests.e2e.conftest import PHONE, WIDE, SignIn
from tests.factories import ReviewItemFactory


@pytest.fixture
def items() -> list[ReviewItem]:
    """Forty that score high, ten that don't."""
    high = [ReviewItemFactory(score=0.92 + n / 1000) for n in range(40)]
    return high + [ReviewItemFactory(score=0.5 + n / 100) for n in range(10)]


def test_range_of_40_is_read_decided_without_one_and_taken_back(
    sign_in: SignIn, items: list[ReviewItem]
) -> None:
    page = sign_in()
    page.goto("/review/range/?label=spam&low=0.99&high=1")
    expect(page.locator("[data-in-range]")).to_have_text("0 messages in the range")
    low = page.get_by_role("slider", name="Lowest score")
    for _ in range(9):
        low.press("ArrowLeft")
    expect(page.locator("[data-in-range]")).to_have_text("40 messages in the range")
    page.get_by_role("checkbox").nth(3).uncheck()
    expect(page.locator("[data-chosen]")).to_have_text("39 / 40")
    page.get_by_role("button", name="Remove these as spam").click()
    expect(page.get_by_role("heading", name="Remove 39 messages as spam?")).to_be_visible()
    page.get_by_role("button", name="Remove 39").click()
    expect(page.locator("[data-in-range]")).to_have_text("1 message in the range")
    assert Decision.objects.count() == 39
    page.keyboard.press("u")
    expect(page.locator("[data-in-range]")).to_have_text("40 messages in the range")
    assert ReviewItem.objects.filter(state=ReviewState.OPEN).count() == 50


def test_range_is_taken_back_with_the_key_that_somebody_chose(
    sign_in: SignIn, items: list[ReviewItem], ann: User
) -> None:
    save_keys(ann, {"undo": "z"})
    page = sign_in(user=ann)
    page.goto("/review/range/?label=spam&low=0.9&high=1")
    page.get_by_role("button", name="Remove these as spam").click()
    page.get_by_role("button", name="Remove 40").click()
    expect(page.get_by_role("button", name="Undo Z")).to_be_visible()
    page.keyboard.press("u")
    page.keyboard.press("z")
    expect(page.locator("[data-in-range]")).to_have_text("40 messages in the range")


def test_range_is_dragged_with_the_pointer(sign_in: SignIn, items: list[ReviewItem]) -> None:
    page = sign_in()
    page.goto("/review/range/?label=spam&low=0.99&high=1")
    box = page.locator("[data-chart]").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.45, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 40, steps=4)
    page.mouse.up()
    expect(page.locator("[data-in-range]")).to_have_text("10 messages in the range")


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_range_page_is_accessible_and_fits(
    sign_in: SignIn,
    items: list[ReviewItem],
    assert_accessible: Callable[[Page], None],
    theme: str,
    size: dict[str, int],
) -> None:
    page = sign_in(color_scheme=theme, viewport=size)
    page.goto("/review/range/?label=spam&low=0.9&high=1")
    expect(page.get_by_role("slider")).to_have_count(2)
    assert_accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
