"""How long the operator's charts take to load: every range, over thirty days of rollups.

The rollups of 31 days are written as beat would have left them, as large as with sketches; then a
signed-in operator asks for each range again and again, over HTTP, as the page does.
`slowest_p95_ms` is what the page's promise is held against, `most_points` the other half of it.
What other programs on the machine add to the times they don't add to `web_cpu_ms` and
`postgres_cpu_ms`: processor time of one request, with what each process does besides meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any
from urllib.request import OpenerDirector

import numpy as np
import psycopg

from benchmarks.growth import signed_in
from benchmarks.stack import CpuMeter, running_stack

# As `apps/dashboard/rollups.py` keeps them: length and how many days back.
KEPT_DAYS = {5: 2 / 24, 60: 3, 600: 31, 3600: 400}
RANGES_S = (300, 2_400, 21_600, 86_400, 259_200, 2_592_000)
WARM_UP = 3

_FILL = """
INSERT INTO dashboard_rollup (step_s, at, covered_s, received, counted_s, verdicts, undetermined,
  fallback, waiting, oldest_age_s, p50_ms, p95_ms, p99_ms, payload)
SELECT %(step)s, to_timestamp(second), %(step)s, %(step)s * 4000, %(step)s, %(step)s * 3990, 3, 1,
  100, 0.4, 10 + random(), 30 + random(), 60 + 40 * random(),
  jsonb_build_object('counters', '{}'::jsonb, 'sketches', '{}'::jsonb,
    'as_large_as_sketches', repeat(md5(second::text), 200))
FROM generate_series(
  (extract(epoch FROM now())::bigint / %(step)s - %(count)s) * %(step)s,
  extract(epoch FROM now())::bigint / %(step)s * %(step)s, %(step)s) AS second
ON CONFLICT DO NOTHING
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=40, help="each range is asked (%(default)s)")


def run(options: dict[str, Any]) -> dict[str, Any]:
    with running_stack(options["stack"]) as ready:
        with psycopg.connect(ready["database_url"], autocommit=True) as database:
            for step_s, days in KEPT_DAYS.items():
                count = int(days * 86_400 / step_s)
                database.execute(_FILL, {"step": step_s, "count": count})
            database.execute("VACUUM ANALYZE dashboard_rollup")
        operator = signed_in(ready, "admin")
        rows = [_row(operator, ready, span_s, options["times"]) for span_s in RANGES_S]
    return {
        "most_points": max(row["points"] for row in rows),
        "slowest_p95_ms": max(row["p95_ms"] for row in rows),
        "load_average": round(os.getloadavg()[0], 1),
        "rows": rows,
    }


def _row(
    operator: OpenerDirector, ready: dict[str, Any], span_s: int, times: int
) -> dict[str, Any]:
    for _ in range(WARM_UP):
        _ask(operator, ready["url"], span_s)
    meter = CpuMeter({name: ready["pids"][name] for name in ("web", "postgres")})
    answers = [_ask(operator, ready["url"], span_s) for _ in range(times)]
    spent_s = meter.spent_s()
    p50, p95 = np.quantile([taken_ms for taken_ms, _ in answers], [0.5, 0.95])
    columns, size = json.loads(answers[-1][1]), len(answers[-1][1])
    return {
        "span_s": span_s,
        "step_s": columns["step_s"],
        "points": len(columns["at_s"]),
        "kilobytes": round(size / 1000, 1),
        "p50_ms": round(float(p50), 1),
        "p95_ms": round(float(p95), 1),
        "web_cpu_ms": round(spent_s["web"] / times * 1000, 1),
        "postgres_cpu_ms": round(spent_s["postgres"] / times * 1000, 1),
    }


def _ask(operator: OpenerDirector, url: str, span_s: int) -> tuple[float, bytes]:
    """Milliseconds, and the answer."""
    since_s = int(time.time()) - span_s
    started_s = time.perf_counter()
    with operator.open(f"{url}/operate/history.json?from={since_s}", timeout=60) as answer:
        body: bytes = answer.read()
    return (time.perf_counter() - started_s) * 1000, body
