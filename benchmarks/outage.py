"""How soon operators see that a replica was killed, and that it is back.

Two replicas under load; one is killed with -9, again and again, once all is calm. What counts as
seen is a frame on a WebSocket of the operator's page in which that replica is no longer in service,
its breaker open and the reason beside it.

- `noticed_ms`: from the kill to the breaker's opening, as it stands on the time line. After that
  the worker's next sample takes up to a second, beat's next look another, and the frame a quarter.
- `seen_ms`: from the kill to the frame. `limit_ms` is what the product promises.
- `ready_again_ms`: to the frame in which it is in service again; the supervisor starts it anew.
- `steps`: what stands on the time line of its breaker, in order.
- `lost`: messages without a verdict when all is over.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
from websockets.sync.client import ClientConnection, connect

from benchmarks.fanout import cookie
from benchmarks.pipeline import Sender, bodies, warm_up
from benchmarks.stack import read_ready, running_stack
from benchmarks.texts import chat_texts

KILLED = "triton-1"
BATCH = 100
LOOK_EVERY_S = 0.05
GIVE_UP_S = 60.0
# Between two kills: long enough for a window of samples without the last one.
CALM_S = 12.0
LIMIT_MS = 3_000
_ROW = re.compile(
    rf'<tr(?: data-state="([a-z-]+)")?>\s*<th scope="row"[^>]*>{KILLED}</th>(.*?)</tr>', re.DOTALL
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=5, help="it is killed (%(default)s)")
    parser.add_argument("--rate", type=int, default=1_000, help="messages a second (%(default)s)")


def run(options: dict[str, Any]) -> dict[str, Any]:
    with running_stack(options["stack"], "--replicas", "2") as ready:
        texts = chat_texts(20 * BATCH)
        warm_up(ready, texts, BATCH)
        with (
            psycopg.connect(ready["database_url"], autocommit=True) as database,
            _load(ready, texts, options["rate"]),
            _page(ready) as page,
        ):
            rows = [_round(ready, database, page) for _ in range(options["times"])]
        lost = _lost(ready)
    seen_ms = [row["seen_ms"] for row in rows]
    return {
        "seen_worst_ms": max(seen_ms),
        "seen_p50_ms": round(statistics.median(seen_ms)),
        "limit_ms": LIMIT_MS,
        "within_limit": sum(each <= LIMIT_MS for each in seen_ms),
        "lost": lost,
        "load_average": round(os.getloadavg()[0], 1),
        "rows": rows,
    }


@contextmanager
def _page(ready: dict[str, Any]) -> Iterator[ClientConnection]:
    address = urlsplit(ready["url"])
    headers = {"Cookie": cookie(ready), "Origin": ready["url"]}
    url = f"ws://{address.netloc}/ws/operate/?lang=en"
    with connect(url, additional_headers=headers, max_size=None) as page:
        yield page


@contextmanager
def _load(ready: dict[str, Any], texts: list[str], rate: int) -> Iterator[None]:
    is_over = threading.Event()

    def send() -> None:
        sender = Sender(ready)
        while not is_over.is_set():
            for body in bodies(texts, BATCH, uuid.uuid4().hex[:8]):
                sender.post(body)
                if is_over.wait(BATCH / rate):
                    return

    sending = threading.Thread(target=send)
    sending.start()
    try:
        yield
    finally:
        is_over.set()
        sending.join()


def _round(
    ready: dict[str, Any], database: psycopg.Connection[Any], page: ClientConnection
) -> dict[str, Any]:
    _wait(page, lambda state, _: state == "")
    # Frames go on being read: what waits in the socket is not news.
    calm_until_s = time.time() + CALM_S
    _wait(page, lambda state, _: time.time() > calm_until_s and state == "")
    killed_s = time.time()
    os.kill(int(read_ready(ready["ready_file"])["pids"][KILLED]), signal.SIGKILL)
    seen_s = _wait(page, lambda state, row: state == "down" and "no answer" in row)
    noticed_s = _noticed(database, killed_s)
    back_s = _wait(page, lambda state, _: state == "")
    steps = database.execute(
        "SELECT state FROM dashboard_operationalevent"
        " WHERE kind = 'breaker' AND subject = %s AND at >= to_timestamp(%s) ORDER BY at, id",
        [KILLED, killed_s],
    ).fetchall()
    return {
        "noticed_ms": round((noticed_s - killed_s) * 1000),
        "seen_ms": round((seen_s - killed_s) * 1000),
        "ready_again_ms": round((back_s - killed_s) * 1000),
        "steps": " ".join(state for (state,) in steps),
    }


def _wait(page: ClientConnection, is_so: Callable[[str, str], bool]) -> float:
    """Until a frame shows the replica so; the state of its row is "" when all is well."""
    give_up_s = time.time() + GIVE_UP_S
    while time.time() < give_up_s:
        frame = json.loads(page.recv(timeout=GIVE_UP_S))
        if frame["topic"] != "figures.en" or not frame["content"]:
            continue
        found = _ROW.search(frame["content"]["html"])
        if found is not None and is_so(found[1] or "", found[2]):
            return time.time()
    raise SystemExit(f"The page did not come to show {KILLED} so within {GIVE_UP_S:.0f} s.")


def _noticed(database: psycopg.Connection[Any], killed_s: float) -> float:
    """When the breaker opened."""
    give_up_s = time.time() + GIVE_UP_S
    while time.time() < give_up_s:
        row = database.execute(
            "SELECT extract(epoch FROM at)::float8 FROM dashboard_operationalevent"
            " WHERE kind = 'breaker' AND subject = %s AND state = 'open' AND at >= to_timestamp(%s)"
            " ORDER BY at LIMIT 1",
            [KILLED, killed_s],
        ).fetchone()
        if row is not None:
            return float(row[0])
        time.sleep(LOOK_EVERY_S)
    raise SystemExit("The breaker's opening does not stand on the time line.")


def _lost(ready: dict[str, Any]) -> int:
    give_up_s = time.time() + GIVE_UP_S
    with psycopg.connect(ready["database_url"], autocommit=True) as database:
        while time.time() < give_up_s:
            row = database.execute(
                "SELECT (SELECT count(*) FROM chat_chunk), (SELECT count(*) FROM chat_message m"
                " WHERE NOT EXISTS (SELECT FROM scoring_verdict v WHERE v.message_id = m.id))"
            ).fetchone()
            assert row is not None
            if not row[0]:
                return int(row[1])
            time.sleep(LOOK_EVERY_S)
    raise SystemExit("The backlog did not drain.")
