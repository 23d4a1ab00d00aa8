"""Operators look back: five minutes to thirty days, by buttons, by dragging, and back to now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from apps.accounts.models import Role
from apps.dashboard.models import OperationalEvent, Rollup
from apps.dashboard.rollups import bucket_of
from apps.scoring.slowest import BatchTrace, CallTrace
from tests.dashboard.samples import sample, store
from tests.e2e.conftest import SignIn, Troubles

pytestmark = pytest.mark.django_db(transaction=True)


def measured(step_s: int, ago: timedelta) -> datetime:
    at = bucket_of(timezone.now() - ago, step_s)
    Rollup.objects.create(
        step_s=step_s,
        at=at,
        covered_s=step_s,
        counted_s=step_s,
        received=step_s * 10,
        verdicts=step_s * 9,
        p50_ms=5.0,
        p95_ms=20.0,
        p99_ms=40.0,
    )
    return at


@pytest.fixture
def page(site: str, sign_in: SignIn) -> Page:
    store(sample(timezone.now(), verdicts=1))
    for step_s, ago in (
        (5, timedelta(minutes=2)),
        (60, timedelta(hours=3)),
        (600, timedelta(days=2)),
        (3600, timedelta(days=20)),
    ):
        measured(step_s, ago)
    page = sign_in(Role.OPERATOR)
    page.goto("/operate/")
    expect(page.locator("live-chart canvas")).to_have_count(2)
    return page


def window(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate("document.querySelector('time-range').range")
    return found


def button(page: Page, name: str) -> Any:
    return page.get_by_role("group", name="Window of time").get_by_role("button", name=name)


@pytest.mark.parametrize(
    ("name", "step_s", "words"),
    [
        ("5 min", 5, "points of 5 s"),
        ("6 h", 60, "points of 1 min"),
        ("3 d", 600, "points of 10 min"),
        ("30 d", 3600, "points of 1 h"),
    ],
)
def test_each_range_is_one_press(page: Page, name: str, step_s: int, words: str) -> None:
    button(page, name).click()
    expect(button(page, name)).to_have_attribute("aria-pressed", "true")
    expect(page.locator("live-chart")).to_have_attribute("data-step-s", str(step_s))
    expect(page.locator("#chart-window")).to_contain_text(words)
    expect(page.locator("#chart-window")).to_contain_text("to now")
    expect(page.locator("live-chart canvas")).to_have_count(2)


def test_dragging_zooms_all_charts_and_now_leads_back(page: Page) -> None:
    button(page, "6 h").click()
    expect(page.locator("live-chart")).to_have_attribute("data-step-s", "60")
    before = window(page)
    box = page.locator("live-chart .u-over").first.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.25, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, y, steps=5)
    page.mouse.up()

    expect(button(page, "Now")).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#chart-window")).not_to_contain_text("now")
    after = window(page)
    assert after["spanS"] == pytest.approx(before["spanS"] / 2, rel=0.02)
    assert after["fromS"] == pytest.approx(before["fromS"] + before["spanS"] / 4, abs=600)

    button(page, "Now").click()
    expect(page.locator("#chart-window")).to_contain_text("to now")
    assert window(page)["isLive"]


def test_earlier_and_later_move_by_half_a_window(page: Page) -> None:
    button(page, "3 d").click()
    before = window(page)
    button(page, "Earlier").press("Enter")
    expect(page.locator("#chart-window")).not_to_contain_text("now")
    assert window(page)["toS"] == pytest.approx(before["toS"] - before["spanS"] / 2, abs=120)
    button(page, "Later").press("Enter")
    button(page, "Later").press("Enter")
    expect(page.locator("#chart-window")).to_contain_text("to now")


def test_the_crosshair_is_in_all_charts(page: Page) -> None:
    page.locator("live-chart .u-over").first.hover()
    lines = page.locator("live-chart .u-cursor-x")
    expect(lines).to_have_count(2)
    places = [lines.nth(i).evaluate("e => e.style.transform") for i in range(2)]
    assert places[0] == places[1] != "translate(-10px, 0px)"


def test_a_history_that_does_not_load_says_so(page: Page, troubles: Troubles) -> None:
    troubles.expect("ERR_FAILED")
    page.route("**/history.json*", lambda route: route.abort())
    button(page, "6 h").click()
    expect(page.locator("#chart-window")).to_contain_text("did not load")


def test_events_stand_under_the_charts_and_in_a_list(page: Page) -> None:
    now = timezone.now()
    for ago_s, state in ((120, "open"), (60, "half_open")):
        OperationalEvent.objects.create(
            at=now - timedelta(seconds=ago_s),
            kind="breaker",
            subject="triton-3",
            state=state,
            reason="<b>9 of 12</b> failed",
        )
    button(page, "5 min").click()
    spans = page.locator('[data-lane="breaker"] .event-span')
    expect(spans).to_have_text(["triton-3 open", "triton-3 half-open"])
    first, second = spans.nth(0).bounding_box(), spans.nth(1).bounding_box()
    chart = page.locator("live-chart .u-over").first.bounding_box()
    assert first
    assert second
    assert chart
    # One axis: a minute is a fifth of five minutes, and the last still holds at the end.
    assert first["width"] == pytest.approx(chart["width"] / 5, rel=0.1)
    assert second["x"] + second["width"] == pytest.approx(chart["x"] + chart["width"], abs=3)

    page.get_by_text("Events in this window").click()
    items = page.locator("[data-list] li")
    expect(items).to_have_count(2)
    expect(items.first).to_contain_text("triton-3 half-open: <b>9 of 12</b> failed")


def slow_batch(chunks: Sequence[int] = (7, 8)) -> None:
    trace = BatchTrace(
        claim="ab" * 16,
        size=256,
        chunks=list(chunks),
        queue_ms=900.0,
        claim_ms=3.0,
        encode_ms=2.0,
        inference_ms=80.0,
        store_ms=15.0,
        calls=[CallTrace(1.0, 79.0, 256)],
    )
    at = timezone.now() - timedelta(seconds=30)
    store(sample(at, slow_batches=[trace.to_json()], verdicts=256, total_ms=[1000.0]))


def test_a_click_on_a_spike_shows_what_it_was_made_of(
    page: Page, assert_accessible: Callable[[Page], None]
) -> None:
    slow_batch()
    button(page, "5 min").click()
    expect(page.locator("live-chart canvas")).to_have_count(2)
    region = page.get_by_role("region", name="Slowest batches")
    expect(region).to_be_hidden()
    page.get_by_role("link", name="Slowest batches").click()
    expect(region.locator(".traces > li")).to_have_count(1)
    expect(region).to_contain_text("256 messages, sent after 1.0 ms, answered in 79.0 ms")
    expect(region).to_contain_text("Moderators see the messages here.")
    assert_accessible(page)
    region.get_by_role("button", name="Close").press("Enter")
    expect(region).to_be_hidden()

    chart = page.locator("live-chart .u-over").first
    box = chart.bounding_box()
    assert box
    with page.expect_response("**/operate/moment/*") as answer:
        chart.click(position={"x": box["width"] / 2, "y": 20})
    # The middle of five minutes, and no more of it than one point.
    asked = dict(part.split("=") for part in answer.value.url.partition("?")[2].split("&"))
    assert int(asked["to"]) - int(asked["from"]) == 5
    assert int(asked["from"]) == pytest.approx(timezone.now().timestamp() - 150, abs=60)
    expect(region).to_contain_text("No batch was stored in this time.")
