"""Blurred texts in a real browser: shown and blurred again by key, with and without JavaScript."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from apps.policies.models import Label
from tests.e2e.conftest import SignIn
from tests.e2e.test_review import open_review
from tests.factories import ReviewItemFactory

BLUR = "element => getComputedStyle(element).filter"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_blurred_text_is_shown_and_blurred_again_by_key(
    sign_in: SignIn, assert_accessible: Callable[[Page], None], theme: str
) -> None:
    ReviewItemFactory(label=Label.TOXIC)
    page = open_review(sign_in(color_scheme=theme))
    text = page.locator(".msg-text").first
    expect(page.get_by_text("The texts are blurred")).to_be_visible()
    assert text.evaluate(BLUR) == "blur(6px)"
    assert_accessible(page)
    page.keyboard.press("v")
    expect(page.locator("details.veil")).to_have_attribute("open", "")
    assert text.evaluate(BLUR) == "none"
    page.keyboard.press("v")
    expect(page.locator("details.veil")).not_to_have_attribute("open", "")
    assert text.evaluate(BLUR) == "blur(6px)"


def test_choice_is_made_on_an_accessible_page(
    sign_in: SignIn, assert_accessible: Callable[[Page], None]
) -> None:
    ReviewItemFactory(label=Label.SPAM)
    page = sign_in()
    page.goto("/review/wellbeing/")
    assert_accessible(page)
    page.get_by_role("checkbox", name="spam").check()
    page.get_by_role("button", name="Save").click()
    open_review(page)
    assert page.locator(".msg-text").first.evaluate(BLUR) == "blur(6px)"
