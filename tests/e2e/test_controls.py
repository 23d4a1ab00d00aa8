"""Operators act, and see it done by a real worker; alerts are read and changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from apps.accounts.models import Role
from apps.alerts.services import ensure_rules
from apps.chat.services import NewMessage, ingest_messages
from apps.policies.matching import RuleSpec
from apps.policies.models import Action, Label, RuleKind
from apps.policies.services import RuleChange, limits_of, newest_version, publish_version
from apps.scoring.models import Source, Verdict
from tests.dashboard.samples import replica, sample, store
from tests.e2e.conftest import PHONE, WIDE, Processes, SignIn
from tests.factories import (
    MessageFactory,
    UserFactory,
    VerdictFactory,
    active_release,
    default_policy_version,
    rules_release,
)

CONTROLS, ALERTS, FALLBACK = "/operate/controls/", "/operate/alerts/", "/operate/fallback/"


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


def test_degraded_to_the_lists_and_back_and_a_worker_did_it(
    pipeline: Processes, sign_in: SignIn
) -> None:
    active_release()
    publish_entry("coins")
    page = sign_in(Role.ADMIN)
    page.goto(CONTROLS)
    judged_by = page.locator(".control", has=page.get_by_role("heading", name="Judged by"))
    ask(judged_by, "Degrade to lists")
    expect(judged_by.locator(".state").first).to_have_text("lists alone")
    expect(judged_by).to_contain_text("applied by 1 of 1 worker")
    (message,) = ingest_messages(
        messages=[NewMessage(group="g", external_id="1", sender="ann", text="free coins")]
    )
    page.goto(f"{FALLBACK}?fate=waiting")
    row = page.get_by_role("row").filter(has_text="free coins")
    look_until_shown(page, row)
    page.goto(CONTROLS)
    ask(judged_by, "Judge by the model again")
    expect(judged_by.locator(".state").first).to_have_text("the model")
    page.goto(f"{FALLBACK}?fate=changed")
    look_until_shown(page, row)
    verdicts = Verdict.objects.filter(message_id=message.id).order_by("created_at")
    assert [verdict.source for verdict in verdicts] == ["fallback", "model"]


def publish_entry(pattern: str) -> None:
    """One that counts only while the model is away."""
    policy = default_policy_version().policy
    spec = RuleSpec(RuleKind.TERM, pattern, Label.TOXIC, Action.REMOVE, only_away=True)
    newest = newest_version(policy)
    publish_version(
        UserFactory(role=Role.ADMIN),
        policy.pk,
        limits_of(newest),
        note="",
        based_on=newest.number,
        rules=RuleChange([spec]),
    )


def look_until_shown(page: Page, row: Locator) -> None:
    """The page is not live, and a worker needs a moment."""
    for _ in range(120):
        if row.count():
            return
        page.wait_for_timeout(500)
        page.reload()
    expect(row).to_have_count(1)


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


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_list_of_what_an_outage_changed_is_accessible_and_fits(
    sign_in: SignIn,
    assert_accessible: Callable[[Page], None],
    theme: str,
    size: dict[str, int],
) -> None:
    for text in ("free coins", "<b>\u202eevil</b> " + "W" * 300, "加微信"):
        message = MessageFactory(text=text)
        VerdictFactory(message=message, label="ok", action="allow")
        VerdictFactory(message=message, release=rules_release(), source=Source.FALLBACK)
    page = sign_in(Role.MODERATOR, color_scheme=theme, viewport=size)
    page.goto(FALLBACK)
    expect(page.get_by_role("row")).to_have_count(4)
    assert_accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
