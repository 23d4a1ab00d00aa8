"""Operators act, and see it done by a real worker; alerts are read and changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from apps.accounts.models import Role
from apps.alerts.services import ensure_rules
from tests.dashboard.samples import replica, sample, store
from tests.e2e.conftest import PHONE, WIDE, Processes, SignIn

CONTROLS, ALERTS = "/operate/controls/", "/operate/alerts/"


def ask(part: Any, action: str) -> None:
    """Ask, read what it does, confirm."""
    part.locator("summary", has_text=action).first.click()
    part.locator("details[open] button").click()


def test_drained_and_readmitted_and_a_worker_did_it(pipeline: Processes, sign_in: SignIn) -> None:
    page = sign_in(Role.OPERATOR)
    page.goto(CONTROLS)
    replica = page.locator(".control").first
    expect(replica).to_contain_text("ready")
    ask(replica, "Drain")
    expect(replica.locator(".progress .state").first).to_have_text("draining")
    expect(replica).to_contain_text("applied by 1 of 1 worker")
    ask(replica, "Readmit")
    expect(replica.locator(".progress .state").first).to_have_text("ready")
    expect(replica).to_contain_text("applied by 1 of 1 worker")


def show() -> None:
    ensure_rules()
    models = [["moderation:1", True], ["explainer:1", False]]
    seen = [replica(models=models), replica("W" * 60, state="draining", models=models)]
    store(sample(timezone.now(), replicas=seen))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("url", [CONTROLS, ALERTS])
def test_axe_finds_nothing_serious(
    sign_in: SignIn, assert_accessible: Callable[[Page], None], url: str, theme: str
) -> None:
    show()
    page = sign_in(Role.OPERATOR, color_scheme=theme)
    page.goto(url)
    page.locator("details.ask > summary").first.click()
    assert_accessible(page)
    page.set_viewport_size(PHONE)
    assert_accessible(page)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("size", [WIDE, PHONE])
@pytest.mark.parametrize("url", [CONTROLS, ALERTS])
def test_nothing_is_wider_than_the_screen(
    sign_in: SignIn, url: str, size: dict[str, int], language: str
) -> None:
    show()
    page = sign_in(Role.OPERATOR, viewport=size, locale=language)
    page.goto(url)
    page.locator("details.ask > summary").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]


def test_an_open_question_stays_open_while_the_page_is_kept_fresh(sign_in: SignIn) -> None:
    show()
    page = sign_in(Role.OPERATOR)
    page.goto(CONTROLS)
    question = page.locator("details.ask").first
    question.locator("summary").click()
    for _ in range(2):
        with page.expect_response(f"**{CONTROLS}progress/"):
            page.evaluate("document.body.dispatchEvent(new CustomEvent('live:operate'))")
    expect(question).to_have_attribute("open", "")
