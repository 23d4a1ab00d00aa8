"""Blurred texts in a real browser: shown and blurred again by key, with and without JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, ViewportSize, expect

from apps.policies.models import Label
from apps.review.models import Exposure, Wellbeing
from tests.e2e.conftest import PHONE, WIDE, SignIn
from tests.e2e.test_review import open_review, wait_until
from tests.factories import ReviewItemFactory, UserFactory

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


def test_held_key_shows_and_letting_go_blurs(sign_in: SignIn) -> None:
    ann = UserFactory()
    Wellbeing.objects.create(person=ann, holds_to_reveal=True, is_gray=True)
    item = ReviewItemFactory(label=Label.TOXIC)
    page = open_review(sign_in(user=ann))
    text, veil = page.locator(".msg-text").first, page.locator("details.veil")
    assert text.evaluate(BLUR) == "blur(6px) grayscale(1)"
    page.keyboard.down("v")
    page.keyboard.down("v")  # as a held key repeats
    expect(veil).to_have_attribute("open", "")
    assert text.evaluate(BLUR) == "grayscale(1)"
    page.keyboard.up("v")
    expect(veil).not_to_have_attribute("open", "")
    page.get_by_text("Hold to show").hover()
    page.mouse.down()
    expect(veil).to_have_attribute("open", "")
    page.mouse.up()
    expect(veil).not_to_have_attribute("open", "")
    wait_until(lambda: Exposure.objects.filter(message_id=item.pk, is_severe=True).count() == 1)


def test_card_fetched_ahead_is_counted_when_it_comes(sign_in: SignIn) -> None:
    ann = UserFactory()
    first, second = (ReviewItemFactory(label=Label.SPAM, priority=p) for p in (0.9, 0.2))
    page = open_review(sign_in(user=ann))
    expect(page.locator("review-desk[data-ready]")).to_be_attached()
    assert list(Exposure.objects.values_list("message_id", flat=True)) == [first.pk]
    page.keyboard.press("a")
    wait_until(lambda: Exposure.objects.filter(message_id=second.pk).exists())


def test_range_is_blurred_until_a_key(
    sign_in: SignIn, assert_accessible: Callable[[Page], None]
) -> None:
    ReviewItemFactory(label=Label.TOXIC, score=0.95)
    page = sign_in()
    page.goto("/review/range/?label=toxic")
    text = page.locator(".range-list .text").first
    assert text.evaluate(BLUR) == "blur(5px)"
    assert_accessible(page)
    page.keyboard.press("v")
    expect(page.locator("details.veil")).to_have_attribute("open", "")
    assert text.evaluate(BLUR) == "none"
    wait_until(lambda: Exposure.objects.filter(is_severe=True).count() == 1)


@pytest.mark.parametrize("viewport", [WIDE, PHONE])
def test_break_is_offered_without_taking_anything_away(
    sign_in: SignIn,
    assert_accessible: Callable[[Page], None],
    viewport: ViewportSize,
) -> None:
    ann, now = UserFactory(), timezone.now()
    for minutes in range(56):
        seen_at = now - timedelta(minutes=minutes)
        Exposure.objects.create(
            person=ann, day=seen_at.date(), message_id=minutes, seen_at=seen_at, is_severe=False
        )
    ReviewItemFactory(label=Label.SPAM)
    page = open_review(sign_in(user=ann, viewport=viewport))
    notice = page.locator("break-reminder[role=status]")
    expect(notice).to_contain_text("You have worked for 55 minutes without one.")
    assert not notice.evaluate("element => element.contains(document.activeElement)")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Remove").first).to_be_in_viewport(ratio=1)
    assert_accessible(page)
    expect(notice.get_by_role("link", name="milder")).to_have_attribute("href", "/review/?label=ad")
    notice.get_by_role("button", name="In 10 minutes").click()
    expect(notice).to_be_empty()
    wait_until(lambda: Wellbeing.objects.get(person=ann).put_off_until is not None)
