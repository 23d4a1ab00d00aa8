"""The frame works in a real browser: sign-in, themes, languages, keyboard, errors."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.hashers import make_password
from playwright.sync_api import Page, expect

from apps.accounts.models import Role
from tests.e2e.conftest import PHONE, WIDE, SignIn, Troubles
from tests.factories import UserFactory

OPERATE = re.compile(r"/operate/$")
PASSWORD = "correct horse battery"


def test_a_person_signs_in_lands_where_the_work_is_and_signs_out(
    open_page: Callable[..., Page],
) -> None:
    password = make_password(PASSWORD, hasher="pbkdf2_sha256")
    UserFactory(username="omar", role=Role.OPERATOR, password=password)
    page = open_page()
    page.goto("/")
    page.get_by_label("Name").fill("omar")
    page.get_by_label("Password").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Name or password is wrong")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page).to_have_url(OPERATE)
    page.get_by_label("Account").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to Chatwarden")).to_be_visible()


def test_theme_is_kept_and_painted_before_any_script(sign_in: SignIn) -> None:
    page = sign_in(Role.OPERATOR, color_scheme="light")
    page.goto("/operate/")
    dark = "rgb(13, 16, 19)"
    page.get_by_label("Switch theme").click()  # system -> light
    page.get_by_label("Switch theme").click()  # light -> dark
    expect(page.locator("body")).to_have_css("background-color", dark)
    without_script = page.context.browser.new_context(java_script_enabled=False)
    without_script.add_cookies(page.context.cookies())
    plain = without_script.new_page()
    plain.goto(page.url)
    expect(plain.locator("body")).to_have_css("background-color", dark)
    without_script.close()


def test_language_changes_in_place(sign_in: SignIn) -> None:
    page = sign_in(Role.OPERATOR)
    page.goto("/operate/")
    page.get_by_label("Account").click()
    page.get_by_role("button", name="简体中文").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    expect(page).to_have_url(OPERATE)


def test_frame_works_by_keyboard_alone(sign_in: SignIn) -> None:
    page = sign_in(Role.OPERATOR)
    page.goto("/operate/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_hidden()
    page.get_by_label("Account").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Sign out")).to_be_hidden()
    expect(page.get_by_label("Account")).to_be_focused()


def test_forms_of_the_frame_work_without_javascript(sign_in: SignIn) -> None:
    page = sign_in(Role.OPERATOR, java_script_enabled=False)
    page.goto("/operate/")
    page.get_by_label("Switch theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_unknown_page_is_shown_with_a_way_back(sign_in: SignIn, troubles: Troubles) -> None:
    troubles.expect("404")
    page = sign_in(Role.OPERATOR)
    page.goto("/nowhere/")
    page.get_by_role("link", name="To the start page").click()
    expect(page).to_have_url(OPERATE)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/sign-in/", "/nowhere/"])
def test_axe_finds_nothing_serious(
    open_page: Callable[..., Page],
    assert_accessible: Callable[[Page], None],
    troubles: Troubles,
    path: str,
    theme: str,
) -> None:
    troubles.expect("404")
    page = open_page(color_scheme=theme)
    page.goto(path)
    assert_accessible(page)


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_nothing_is_wider_than_the_screen(sign_in: SignIn, size: dict[str, int]) -> None:
    page = sign_in(Role.OPERATOR, viewport=size)
    page.goto("/operate/")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width == size["width"]
