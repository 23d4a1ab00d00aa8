"""Pictures of the operator's page while things happen to a real stack.

Run it as `python -m benchmarks.pictures`. Two Triton servers under made-up traffic: calm; more than
is judged at once; one server killed; and the same server back. Each picture is taken when the page
itself shows the state.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

from benchmarks.console import FLAGS
from benchmarks.pipeline import Sender, bodies
from benchmarks.stack import read_ready, running_stack
from benchmarks.texts import chat_texts
from moderation_site.local.browser import find_browser

WIDE = {"width": 1440, "height": 900}
PATIENCE_MS = 180_000
# Long enough for the charts to have something to show.
CALM_S = 30
FLOOD = 60_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/screenshots"))
    parser.add_argument("--stack", type=Path, help="the ready file of a running `up --demo`")
    options = parser.parse_args()
    expect.set_options(timeout=PATIENCE_MS)
    with (
        running_stack(options.stack, "--replicas", "2", "--demo") as ready,
        sync_playwright() as playwright,
    ):
        found = find_browser()
        if found is None:
            raise SystemExit("No Chromium: run `make browser`.")
        browser = playwright.chromium.launch(executable_path=str(found), args=FLAGS)
        _tell_the_story(browser, ready, options.out)
        browser.close()


def _tell_the_story(browser: Browser, ready: dict[str, Any], out: Path) -> None:
    page = _signed_in(browser, ready)
    time.sleep(CALM_S)
    _take(browser, page, out, "calm")

    flood = threading.Thread(target=_flood, args=(ready,))
    flood.start()
    # By its place, not by a handle: each second the tiles are new elements.
    page.wait_for_function(
        """() => {
          const [, , backlog] = document.querySelectorAll("#op-tiles .tile-figure");
          return Number(backlog.firstChild.textContent.replace(/[^0-9]/g, "")) > 2000;
        }"""
    )
    time.sleep(6)
    _take(browser, page, out, "overload")
    flood.join()

    os.kill(read_ready(ready["ready_file"])["pids"]["triton-1"], signal.SIGKILL)
    gone = page.locator("#op-replicas tbody tr", has_text="triton-1")
    expect(gone).to_contain_text("no answer to health checks")
    _take(browser, page, out, "outage")

    expect(gone.locator(".state").first).to_have_text("ready")
    expect(gone.locator("td").nth(1)).to_have_text("closed")
    closed = page.locator('[data-lane="breaker"] .event-point', has_text="triton-1 closed")
    expect(closed.last).to_be_visible()
    time.sleep(10)
    _take(browser, page, out, "recovery")


def _signed_in(browser: Browser, ready: dict[str, Any]) -> Page:
    page = browser.new_page(viewport=WIDE, color_scheme="light", base_url=ready["url"])
    page.set_default_timeout(PATIENCE_MS)
    page.goto("/sign-in/")
    page.fill("[name=username]", ready["admin"]["username"])
    page.fill("[name=password]", ready["admin"]["password"])
    page.press("[name=password]", "Enter")
    page.wait_for_url(lambda url: "sign-in" not in url)
    page.goto("/operate/")
    page.get_by_role("group", name="Window of time").get_by_role("button", name="5 min").click()
    expect(page.locator("live-chart canvas")).to_have_count(2)
    return page


def _take(browser: Browser, page: Page, out: Path, state: str) -> None:
    """Light and dark: the same moment, as near as a change of theme is."""
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_timeout(300)
        page.screenshot(path=out / f"operate-{state}-{theme}.png", full_page=True)
        print(f"{state}, {theme}", flush=True)
    page.emulate_media(color_scheme="light")


def _flood(ready: dict[str, Any]) -> None:
    """Faster than it is judged, over a few connections."""
    todo = iter(bodies(chat_texts(FLOOD), 1_000, f"flood-{time.time_ns()}"))
    lock = threading.Lock()

    def send() -> None:
        sender = Sender(ready)
        while True:
            with lock:
                body = next(todo, None)
            if body is None:
                return
            sender.post(body)

    senders = [threading.Thread(target=send) for _ in range(3)]
    for each in senders:
        each.start()
    for each in senders:
        each.join()


if __name__ == "__main__":
    main()
