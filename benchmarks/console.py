"""How long a moderator waits: from key press to next card, and for the queue's page.

A stack under demo traffic is filled with messages and open items; a real browser then decides one
item after the other, at a moderator's pace, by key. A decision is measured inside the page, from
the key event to the frame after the next card was put there; the page by its whole request, in
turn with a view of the same server that knows the person and draws nothing: less can't be reached.
What a page costs the processors is told apart, Python's by the web process, SQL's by PostgreSQL;
the demo's own share, measured just before, is taken off.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, HTTPRedirectHandler, OpenerDirector, build_opener

import numpy as np
import psycopg
from playwright.sync_api import Page, sync_playwright

from benchmarks.growth import fill, name_groups_and_senders, signed_in, timed_ms
from benchmarks.stack import CpuMeter, running_stack
from moderation_site.local.browser import find_browser

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
PATIENCE_MS = 120_000
WARM_UP = 3
# How long the demo is measured alone.
ALONE_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=1_000_000, help="stored (%(default)s)")
    parser.add_argument("--open-items", type=int, default=1_000_000, help="waiting (%(default)s)")
    parser.add_argument("--decisions", type=int, default=60, help="made by key (%(default)s)")
    parser.add_argument("--pages", type=int, default=60, help="asked for (%(default)s)")
    parser.add_argument(
        "--pace-s", type=float, default=1.0, help="between two decisions (%(default)s)"
    )


def run(options: dict[str, Any]) -> dict[str, Any]:
    with running_stack(options["stack"], "--demo") as ready:
        name_groups_and_senders(ready["database_url"])
        fill(ready["database_url"], options["messages"])
        open_items = open_more(ready["database_url"], options["open_items"])
        pages = queue_pages(ready, options["pages"])
        decision_ms = decisions_ms(ready, options["decisions"], options["pace_s"])
    return {
        "open_items": open_items,
        "messages": options["messages"],
        **percentiles("queue_page", pages.page_ms),
        **percentiles("bare_view", pages.bare_ms),
        "queue_page_web_cpu_ms": pages.web_cpu_ms,
        "queue_page_sql_cpu_ms": pages.sql_cpu_ms,
        **percentiles("decision", decision_ms),
        "load_average": round(os.getloadavg()[0], 1),
    }


def percentiles(name: str, values_ms: list[float]) -> dict[str, float]:
    p50, p95 = np.quantile(values_ms, [0.5, 0.95])
    return {f"{name}_p50_ms": round(float(p50), 1), f"{name}_p95_ms": round(float(p95), 1)}


_OPEN_MORE = """
INSERT INTO review_reviewitem (message_id, group_id, cause, label, priority, rank, state, version,
  opened_at)
SELECT id, group_id, 'flagged', (ARRAY['spam', 'toxic', 'ad'])[1 + id %% 3], p,
  log(2, p::numeric) - extract(epoch FROM opened) / 900, 'open', 1, opened
FROM (
  SELECT id, group_id, 0.2 + (id %% 80) / 100.0 AS p,
    now() - (id %% 3600) * interval '1 s' AS opened
  FROM chat_message
  WHERE NOT EXISTS (SELECT FROM review_reviewitem WHERE message_id = chat_message.id)
  LIMIT %(count)s
) AS messages
"""


def open_more(database_url: str, wanted: int) -> int:
    """Open items until there are `wanted`, or as many as there are messages; returns how many."""
    with psycopg.connect(database_url, autocommit=True) as database:
        count = "SELECT count(*) FROM review_reviewitem WHERE state = 'open'"
        there = database.execute(count).fetchone()
        assert there is not None
        database.execute(_OPEN_MORE, {"count": max(wanted - there[0], 0)})
        database.execute("VACUUM ANALYZE review_reviewitem")
        now = database.execute(count).fetchone()
        assert now is not None
        return int(now[0])


@dataclass(frozen=True, slots=True)
class Pages:
    """Each page's time beside that of a view that does nothing, and a page's mean cost."""

    page_ms: list[float]
    bare_ms: list[float]
    web_cpu_ms: float
    sql_cpu_ms: float


def queue_pages(ready: dict[str, Any], times: int) -> Pages:
    moderator = _without_redirects(signed_in(ready, "moderator"))
    pids = {name: ready["pids"][name] for name in ("web", "postgres")}
    page, bare = f"{ready['url']}/review/", f"{ready['url']}/"
    pairs = [
        [timed_ms(lambda url=url: _get(moderator, url)) for url in (page, bare)]  # type: ignore[misc]
        for _ in range(WARM_UP + times)
    ][WARM_UP:]
    meter = CpuMeter(pids)
    time.sleep(ALONE_S)
    alone = {name: spent / ALONE_S for name, spent in meter.spent_s().items()}
    meter, started_s = CpuMeter(pids), time.perf_counter()
    for _ in range(times):
        _get(moderator, page)
    took_s = time.perf_counter() - started_s
    each_ms = {
        name: round(max(spent - alone[name] * took_s, 0.0) / times * 1000, 1)
        for name, spent in meter.spent_s().items()
    }
    page_ms, bare_ms = map(list, zip(*pairs, strict=True))
    return Pages(page_ms, bare_ms, each_ms["web"], each_ms["postgres"])


def _without_redirects(opener: OpenerDirector) -> OpenerDirector:
    cookies = next(one for one in opener.handlers if isinstance(one, HTTPCookieProcessor))
    return build_opener(cookies, _StayHere)


class _StayHere(HTTPRedirectHandler):
    """The address of the whole site only says where to go: middleware, session and person."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _get(moderator: OpenerDirector, url: str) -> None:
    try:
        with moderator.open(url, timeout=60) as response:
            response.read()
    except HTTPError as error:
        if error.code != 302:
            raise


# Two frames after the card is put there it has been painted.
_WATCH = """
window.waits = [];
let pressedAt = 0;
addEventListener("keydown", (event) => (pressedAt = event.timeStamp), true);
addEventListener("desk:shown", () => {
  const from = pressedAt;
  requestAnimationFrame(() => requestAnimationFrame(() => waits.push(performance.now() - from)));
});
"""


def decisions_ms(ready: dict[str, Any], times: int, pace_s: float) -> list[float]:
    with _browser_page() as page:
        page.goto(f"{ready['url']}/sign-in/")
        page.fill("[name=username]", ready["moderator"]["username"])
        page.fill("[name=password]", ready["moderator"]["password"])
        page.press("[name=password]", "Enter")
        page.wait_for_selector("review-desk[data-ready]")
        page.evaluate(_WATCH)
        for number in range(WARM_UP + times):
            page.keyboard.press("arh"[number % 3])
            page.wait_for_function("n => waits.length > n", arg=number)
            page.wait_for_timeout(pace_s * 1000)
        waits: list[float] = page.evaluate("waits")
    return waits[WARM_UP:]


@contextlib.contextmanager
def _browser_page() -> Iterator[Page]:
    found = find_browser()
    if found is None:
        raise SystemExit("No Chromium: run `make browser`.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(found), args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(PATIENCE_MS)
        yield page
        browser.close()
