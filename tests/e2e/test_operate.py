"""Operators see the machine breathe: verdicts as they come, and what is wrong as it happens."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from apps.accounts.models import Role
from apps.accounts.services import create_api_key
from apps.chat.models import Chunk
from tests.dashboard.samples import replica, sample, store
from tests.e2e.conftest import PHONE, WIDE, Processes, SignIn, Troubles
from tests.factories import (
    ReviewItemFactory,
    VerdictFactory,
    active_release,
    default_policy_version,
)

FREE_COINS = "Free coins for everyone, join tgm.example/drop today"
LUNCH = "明天中午一起吃饭吗"


class Backend:
    """A chat backend that sends messages over REST."""

    def __init__(self, site: str) -> None:
        # Rows that a migration made are gone once a test has emptied the tables.
        active_release()
        default_policy_version()
        _, secret = create_api_key(name="chat backend")
        self._url = f"{site}/api/v1/messages:batch"
        self._headers = {"Authorization": f"Bearer {secret}"}
        self._sent = 0

    def send(self, *texts: str) -> None:
        messages = [
            {
                "group": "harbour",
                "external_id": f"m{self._sent + number}",
                "sender": {"id": "u1"},
                "text": text,
            }
            for number, text in enumerate(texts)
        ]
        self._sent += len(texts)
        answer = httpx.post(
            self._url, headers=self._headers, json={"messages": messages}, timeout=60
        )
        answer.raise_for_status()


def row(page: Page, text: str) -> Any:
    return page.locator("[data-rows] tr", has_text=text)


def link(page: Page) -> Any:
    return page.locator("live-link")


def test_messages_sent_over_rest_appear_judged_without_a_reload(
    own_site: str, pipeline: Processes, sign_in: SignIn
) -> None:
    page = sign_in(Role.MODERATOR)
    page.goto("/operate/")
    expect(link(page)).to_contain_text("Live")
    page.evaluate("window.isTheSamePage = true")

    backend = Backend(own_site)
    backend.send(FREE_COINS, LUNCH, "\u202enac ti daer\u202c <b>bold</b>")

    expect(row(page, "Free coins").locator(".chip")).to_have_attribute("data-label", "spam")
    expect(row(page, LUNCH).locator(".chip")).to_have_attribute("data-label", "ok")
    expect(row(page, "<b>bold</b>").locator('.cp[data-kind="control"]').first).to_have_text("RLO")
    # What the worker measured arrives too: itself, the replica it calls, and the stages.
    expect(page.locator("#op-workers tbody tr")).to_have_count(1)
    expect(page.locator("#op-replicas tbody tr").first).to_contain_text("ready")
    expect(page.locator("#op-stages")).to_contain_text("End to end")
    expect(page.locator("#op-banner .banner")).to_have_count(0)
    expect(page.locator("live-chart canvas")).to_have_count(2)
    assert page.evaluate("window.isTheSamePage")


def test_space_pauses_the_feed_and_it_says_what_came_since(
    own_site: str, pipeline: Processes, sign_in: SignIn
) -> None:
    page = sign_in(Role.MODERATOR)
    page.goto("/operate/")
    expect(link(page)).to_contain_text("Live")
    backend = Backend(own_site)
    page.locator("#main").focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Go on")).to_be_visible()

    backend.send(FREE_COINS, LUNCH)
    expect(page.locator("[data-rate]")).to_have_text("Paused: 2 since then")
    expect(page.locator("[data-rows] tr")).to_have_count(0)

    # One frame of what was held back, then on.
    page.keyboard.press(".")
    expect(page.locator("[data-rows] tr").first).to_be_visible()
    page.locator("#main").focus()
    page.keyboard.press("Space")
    backend.send("and one more")
    expect(row(page, "and one more")).to_be_visible()


def test_filter_holds_for_what_comes_live(
    own_site: str, pipeline: Processes, sign_in: SignIn
) -> None:
    page = sign_in(Role.MODERATOR)
    page.goto("/operate/")
    expect(link(page)).to_contain_text("Live")
    page.get_by_label("Label", exact=True).select_option("spam")
    page.get_by_label("Source", exact=True).select_option("model")
    page.get_by_label("Group", exact=True).fill("harbour")
    Backend(own_site).send(LUNCH, FREE_COINS)
    expect(row(page, "Free coins")).to_be_visible()
    expect(row(page, LUNCH)).to_have_count(0)
    expect(page.locator("[data-rate]")).to_contain_text("that fit, of a sample of")


def test_operators_watch_verdicts_and_are_sent_no_text(
    own_site: str, pipeline: Processes, sign_in: SignIn
) -> None:
    page, reader = sign_in(Role.OPERATOR), sign_in(Role.MODERATOR)
    heard: list[str] = []
    page.on("websocket", lambda line: line.on("framereceived", lambda text: heard.append(text)))
    for each in (page, reader):
        each.goto("/operate/")
        expect(link(each)).to_contain_text("Live")

    Backend(own_site).send(FREE_COINS)
    # Both feeds are filled from one frame.
    expect(row(reader, "Free coins").locator(".chip")).to_have_attribute("data-label", "spam")
    mine = page.locator("[data-rows] tr")
    expect(mine.locator(".chip")).to_have_attribute("data-label", "spam")
    number = mine.get_attribute("data-id")
    assert number is not None
    expect(mine.locator(".text-cell")).to_have_text(number)
    assert any(number in frame for frame in heard)
    assert not any("Free coins" in frame for frame in heard)
    page.reload()
    expect(mine.locator(".text-cell")).to_have_text(number)
    assert "Free coins" not in page.content()


def test_a_moderator_opens_in_review_what_went_there(
    own_site: str, pipeline: Processes, sign_in: SignIn
) -> None:
    page = sign_in(Role.MODERATOR)
    page.goto("/operate/")
    expect(link(page)).to_contain_text("Live")
    Backend(own_site).send(FREE_COINS, LUNCH)
    expect(row(page, LUNCH)).to_be_visible()
    expect(row(page, LUNCH).get_by_role("link", name="Review")).to_have_count(0)
    verdict = VerdictFactory(label=None, action="hold", message__text="for people to look at")
    ReviewItemFactory(message=verdict.message)
    page.reload()
    row(page, "for people to look at").get_by_role("link", name="Review").click()
    expect(page).to_have_url(re.compile(rf"/review/items/{verdict.message_id}/"))


def test_a_lost_line_is_said_and_the_page_catches_up(
    own_site: str, processes: Processes, sign_in: SignIn, troubles: Troubles
) -> None:
    troubles.expect("WebSocket", "Failed to load resource", "htmx:sendError", "ERR_")
    page = sign_in(Role.OPERATOR)
    page.goto("/operate/")
    expect(link(page)).to_contain_text("Live")

    processes.stop("web")
    expect(link(page)).to_contain_text("Reconnecting")
    expect(page.get_by_text("What you see may be old.")).to_be_visible()

    # Happens while nobody can tell the page.
    Chunk.objects.create(id=1, size=777)
    processes.start_again("web")
    expect(link(page)).to_contain_text("Live")
    expect(page.locator("#op-banner")).to_contain_text("777 messages wait")
    expect(page.get_by_text("What you see may be old.")).to_be_hidden()


def show(state: str) -> None:
    """What the page shows, from samples: calm, or with one thing wrong."""
    now = timezone.now()
    lately, soon = now - timedelta(seconds=20), now + timedelta(seconds=60)  # fresh for a while
    replicas = [replica("triton-1"), replica("triton-2")]
    if state == "half-open":
        replicas[1] |= {"breaker": "half_open", "breaker_reason": "9 of 12 failed"}
    if state == "away":
        replicas = [{**each, "state": "down", "breaker": "open"} for each in replicas]
    if state != "stopped":
        counters = {"verdicts": 90, "batches": 3, "batch_sizes": {"8": 1, "32": 2}}
        for at in (lately, soon):
            store(sample(at, replicas=replicas, total_ms=[9.0, 30.0], **counters))
    for label, action in (("ok", "allow"), ("spam", "remove"), ("toxic", "hold"), ("ad", "hold")):
        VerdictFactory(label=label, action=action)
    VerdictFactory(label=None, action="hold", message__text="\u202ereversed\u202c a\u200bb")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("state", ["calm", "half-open", "away", "stopped"])
def test_axe_finds_nothing_serious(
    sign_in: SignIn, assert_accessible: Callable[[Page], None], state: str, theme: str
) -> None:
    show(state)
    page = sign_in(Role.OPERATOR, color_scheme=theme)
    page.goto("/operate/")
    expect(link(page)).to_contain_text("Live")
    assert_accessible(page)
    page.get_by_label("Account").click()
    page.set_viewport_size(PHONE)
    assert_accessible(page)


def refetch(page: Page) -> None:
    """Returns once the answer has been put in its place, or found to say nothing new."""
    page.evaluate(
        """() => new Promise((done) => {
          document.addEventListener("htmx:oobBeforeSwap", ({ detail }) =>
            detail.target.id === "op-banner" && setTimeout(done));
          document.body.dispatchEvent(new CustomEvent("live:gap"));
        })"""
    )


def test_the_banner_speaks_once_and_not_every_second(sign_in: SignIn) -> None:
    show("stopped")
    page = sign_in(Role.OPERATOR)
    page.goto("/operate/")
    banner = page.locator("#op-banner .banner")
    expect(banner).to_contain_text("No worker is running")
    refetch(page)
    page.evaluate("document.querySelector('#op-banner .banner').dataset.mine = 'yes'")
    refetch(page)
    refetch(page)
    expect(banner).to_have_attribute("data-mine", "yes")


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_nothing_is_wider_than_the_screen(
    sign_in: SignIn, size: dict[str, int], language: str
) -> None:
    show("half-open")
    VerdictFactory(message__text="W" * 4000, message__group__name="G" * 200)
    page = sign_in(Role.OPERATOR, viewport=size, locale=language)
    page.goto("/operate/")
    expect(page.locator("live-chart canvas").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
