"""Whether anything gets slower as messages pile up: ingest, claim, queue page, dashboard.

One stack is filled to each size in turn, by SQL, with messages, verdicts and open review items as
the product would have stored them; at each size the same things are timed. `growth` is a figure
at that size over the same at the smallest, worse being more; it is to stay under 1.2. What is sent
meanwhile comes from the groups and senders that are stored already, at random: their places in the
indexes lie all over them. Processor time stands beside the times (`postgres_us_a_message`,
`dashboard_cpu_ms` of the web process), because other programs on the machine hardly move it.

The dashboard shows the last minute, so a page costs more when all of that minute was sampled and
judged in. So that this does not pass for growth, each size begins after a minute without messages.
"""

from __future__ import annotations

import argparse
import base64
import http.cookiejar
import json
import random
import re
import statistics
import time
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

import psycopg

from benchmarks.pipeline import Sender
from benchmarks.stack import CpuMeter, running_stack
from benchmarks.texts import chat_texts
from inference.stats import LatencySketch

SIZES = (10_000, 1_000_000, 10_000_000)
REQUESTS, BATCH = 40, 500
PAGES = 20
CHUNK, CHUNK_ID_BITS = 256, 10
FILL_AT_ONCE = 200_000
# The best of so many rounds counts, each figure by itself: others use the machine too.
ROUNDS = 3
GROUPS, SENDERS = 997, 49_999


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sizes",
        type=lambda text: [int(size) for size in text.split(",")],
        default=list(SIZES),
        help="stored messages, ascending (10000,1000000,10000000)",
    )


def run(options: dict[str, Any]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    with running_stack(options["stack"]) as ready:
        moderator, admin = signed_in(ready, "moderator"), signed_in(ready, "admin")
        name_groups_and_senders(ready["database_url"])
        measure(ready, moderator, admin)  # once, to warm everything up
        for size in options["sizes"]:
            fill(ready["database_url"], size)
            wait_for_a_quiet_minute(ready["database_url"])
            rounds = [measure(ready, moderator, admin) for _ in range(ROUNDS)]
            best = {name: min(figures[name] for figures in rounds) for name in rounds[0]}
            rows.append({"messages": size, **best})
    smallest = rows[0]
    for row in rows:
        row["growth"] = max(
            round(row[name] / smallest[name], 2) for name in row if name != "messages"
        )
    return {"rows": rows, "worst_growth": max(row["growth"] for row in rows)}


# ---------------------------------------------------------------- filling

_FILL = f"""
WITH numbered AS (
  SELECT n, (%(first_chunk)s + n / {CHUNK} << {CHUNK_ID_BITS}) + n %% {CHUNK} AS id
  FROM generate_series(0, %(count)s - 1) AS n
), messages AS (
  INSERT INTO chat_message (id, group_id, external_id, revision, sender_id, text, quoted_text,
    reply_to, received_at)
  SELECT id, (SELECT min(id) FROM chat_group WHERE external_id LIKE 'old-%%') + n %% {GROUPS},
    md5(id::text), 1,
    (SELECT min(id) FROM chat_sender WHERE external_id LIKE 'old-%%') + n %% {SENDERS},
    repeat('what was said long ago ', 1 + n %% 5) || id, '', '', now() - interval '30 days'
  FROM numbered RETURNING id, group_id
), verdicts AS (
  INSERT INTO scoring_verdict (message_id, release_id, policy_version_id, source, label, action,
    acting_label, score_ok, score_spam, score_toxic, score_ad, undone, reasons, queue_ms,
    inference_ms, total_ms)
  SELECT messages.id, release.id, version.id, 'model', 'ok', 'allow', NULL, 0.9, 0.05, 0.03, 0.02,
    0, '{{}}', 10, 10, 30
  FROM messages, (SELECT id FROM releases_release WHERE kind = 'model' AND is_active) AS release,
    (SELECT max(id) AS id FROM policies_policyversion) AS version
)
INSERT INTO review_reviewitem (message_id, group_id, cause, label, priority, rank, state, version,
  opened_at)
SELECT id, group_id, 'flagged', 'spam', 0.5, 0.5, 'open', 1, now() FROM messages
WHERE id %% 200 = 0
"""


def name_groups_and_senders(database_url: str) -> None:
    """Those that everything is from."""
    with psycopg.connect(database_url, autocommit=True) as database:
        for table, count in (("chat_group", GROUPS), ("chat_sender", SENDERS)):
            database.execute(
                f"INSERT INTO {table} (external_id, name)"
                f" SELECT 'old-' || n, '' FROM generate_series(1, {count}) AS n"
                " ON CONFLICT DO NOTHING"
            )


def fill(database_url: str, size: int) -> None:
    """Add messages as the product stores them until there are `size`."""
    with psycopg.connect(database_url, autocommit=True) as database:
        database.execute("SET synchronous_commit = off")
        stored = _one(database, "SELECT count(*) FROM chat_message")
        while stored < size:
            count = min(FILL_AT_ONCE, size - stored)
            chunks = -(-count // CHUNK)
            last = _one(
                database,
                f"SELECT setval('chat_chunk_number', nextval('chat_chunk_number') + {chunks})",
            )
            database.execute(_FILL, {"first_chunk": last - chunks, "count": count})
            stored += count
        database.execute("VACUUM ANALYZE chat_message, scoring_verdict, review_reviewitem")
        database.execute("CHECKPOINT")


_MINUTE = """
SELECT count(*) FILTER (WHERE at < now() - interval '60 s'),
  count(*) FILTER (WHERE at >= now() - interval '60 s' AND payload #> '{counters,verdicts}' <> '0')
FROM scoring_stagesample WHERE at >= now() - interval '70 s'
"""


def wait_for_a_quiet_minute(database_url: str) -> None:
    """Until workers have told of a whole minute, in which they judged nothing."""
    with psycopg.connect(database_url, autocommit=True) as database:
        while True:
            row = database.execute(_MINUTE).fetchone()
            if row is not None and row[0] and not row[1]:
                return
            time.sleep(1)


def _one(database: psycopg.Connection[Any], query: Any) -> int:
    row = database.execute(query).fetchone()
    assert row is not None
    return int(row[0])


# ---------------------------------------------------------------- timing


def measure(
    ready: dict[str, Any], moderator: OpenerDirector, admin: OpenerDirector
) -> dict[str, float]:
    """Medians, so that another program's burst does not count as growth."""
    run_id = uuid.uuid4().hex[:8]
    requests = bodies(run_id)
    sender = Sender(ready)
    meter = CpuMeter({"postgres": ready["pids"]["postgres"]})
    with psycopg.connect(ready["database_url"], autocommit=True) as database:
        before = _one(database, "SELECT coalesce(max(id), 0) FROM scoring_stagesample")
        ingest_ms = []
        for body in requests:
            ingest_ms.append(timed_ms(lambda body=body: sender.post(body)))  # type: ignore[misc]
            while _one(database, "SELECT count(*) FROM chat_chunk"):
                time.sleep(0.01)
        postgres_us = round(meter.spent_s()["postgres"] / (REQUESTS * BATCH) * 1e6, 1)
        time.sleep(1.5)  # the workers' last sample
        stages = _stages(database, before)
    return {
        "ingest_request_ms": round(statistics.median(ingest_ms), 2),
        "postgres_us_a_message": postgres_us,
        **{f"{name}_ms": round(sketch.quantile(0.5) or 0.0, 2) for name, sketch in stages.items()},
        "queue_page_ms": _page_ms(moderator, f"{ready['url']}/review/"),
        **_dashboard(ready, admin),
    }


def _dashboard(ready: dict[str, Any], admin: OpenerDirector) -> dict[str, float]:
    meter = CpuMeter({"web": ready["pids"]["web"]})
    taken_ms = _page_ms(admin, f"{ready['url']}/operate/")
    # One page more than is timed.
    cpu_ms = meter.spent_s()["web"] / (PAGES + 1) * 1000
    return {"dashboard_ms": taken_ms, "dashboard_cpu_ms": round(cpu_ms, 1)}


def bodies(run_id: str) -> list[bytes]:
    """Requests of messages in old groups by old senders, new to both."""
    source = random.Random(run_id)
    texts = chat_texts(REQUESTS * BATCH, seed=source.randrange(1 << 30))
    return [
        json.dumps(
            {
                "messages": [
                    {
                        "group": f"old-{1 + source.randrange(GROUPS)}",
                        "external_id": f"{run_id}-{at + place}",
                        "sender": {"id": f"old-{1 + source.randrange(SENDERS)}"},
                        "text": text,
                    }
                    for place, text in enumerate(texts[at : at + BATCH])
                ]
            },
            ensure_ascii=False,
        ).encode()
        for at in range(0, len(texts), BATCH)
    ]


def _stages(database: psycopg.Connection[Any], after_id: int) -> dict[str, LatencySketch]:
    merged = {name: LatencySketch() for name in ("claim", "store")}
    rows = database.execute(
        "SELECT payload -> 'sketches' FROM scoring_stagesample WHERE id > %s", [after_id]
    )
    for (sketches,) in rows:
        for name, encoded in sketches.items():
            # By class of messages: `claim:batch`.
            sketch = merged.get(name.partition(":")[0])
            if sketch is not None:
                sketch.merge(LatencySketch.from_bytes(base64.b64decode(encoded)))
    return merged


def timed_ms(do: Callable[[], Any]) -> float:
    started_s = time.perf_counter()
    do()
    return (time.perf_counter() - started_s) * 1000


def _page_ms(opener: OpenerDirector, url: str) -> float:
    def get() -> None:
        with opener.open(url, timeout=60) as response:
            response.read()

    get()
    return round(statistics.median(timed_ms(get) for _ in range(PAGES)), 2)


def signed_in(ready: dict[str, Any], who: str) -> OpenerDirector:
    """A browser's cookies after signing in."""
    opener = build_opener(HTTPCookieProcessor(http.cookiejar.CookieJar()))
    url = f"{ready['url']}/sign-in/"
    with opener.open(url, timeout=60) as page:
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.read().decode())
    assert found is not None
    form = {**ready[who], "csrfmiddlewaretoken": found[1]}
    with opener.open(url, urlencode(form).encode(), timeout=60) as answer:
        if "/sign-in/" in answer.url:
            raise SystemExit(f"{who} could not sign in")
    return opener
