"""The charts' data: any window from five minutes to thirty days, in at most a thousand points."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from apps.dashboard import selectors
from apps.dashboard.rollups import BASE_STEP_S, bucket_of, finest_step_s
from apps.dashboard.selectors import Point

MOST_POINTS = 1_000
SHORTEST = timedelta(minutes=5)
LONGEST = timedelta(days=31)
RANGES_S = (300, 2_400, 21_600, 259_200, 2_592_000)
COLUMNS = (
    *("at_s", "received_per_s", "verdicts_per_s", "waiting", "oldest_age_s"),
    *("undetermined_share", "p50_ms", "p95_ms", "p99_ms"),
)


@dataclass(frozen=True, slots=True)
class Window:
    """One point a bucket, gaps included: where nothing was measured all of it is None."""

    step_s: int
    points: Sequence[Point]

    def to_json(self) -> dict[str, Any]:
        columns = {name: [getattr(p, name) for p in self.points] for name in COLUMNS}
        return {"step_s": self.step_s, **columns}


def read_window(since: datetime, until: datetime, *, now: datetime) -> Window:
    """The history from `since` to `until`, in the shortest buckets that are few enough.

    Args:
        since, until: `SHORTEST` to `LONGEST` apart; what lies outside is cut or added at `since`.
        now: the end, if `until` is later.
    """
    until = min(until, now)
    since = min(max(since, until - LONGEST), until - SHORTEST)
    step_s = finest_step_s(since, until, now=now, most_points=MOST_POINTS)
    known = {point.at_s: point for point in _rolled_up(step_s, since, until)}
    if step_s == BASE_STEP_S:
        known = {**_live(), **known}
    first_s = int(bucket_of(since, step_s).timestamp())
    grid = range(first_s, int(until.timestamp()), step_s)
    return Window(step_s, [known.get(at_s) or _gap(at_s) for at_s in grid])


def _rolled_up(step_s: int, since: datetime, until: datetime) -> Iterable[Point]:
    with connection.cursor() as cursor:
        cursor.execute(_ROWS, [step_s, bucket_of(since, step_s), until])
        return list(itertools.starmap(_point, cursor.fetchall()))


def _live() -> dict[int, Point]:
    """The last minutes as the page has them: the newest are not rolled up yet."""
    return {point.at_s: point for point in selectors.overview().history}


# A month is hundreds of rows: as tuples without times of day they cost a quarter of what the ORM's
# do. Of a latency nobody draws more than three digits after the point.
_ROWS = """
SELECT extract(epoch FROM at)::bigint, covered_s, received, counted_s, verdicts, undetermined,
  waiting, round(oldest_age_s::numeric, 3)::float8, round(p50_ms::numeric, 3)::float8,
  round(p95_ms::numeric, 3)::float8, round(p99_ms::numeric, 3)::float8
FROM dashboard_rollup WHERE step_s = %s AND at >= %s AND at < %s
"""


def _point(
    at_s: int,
    covered_s: int,
    received: int | None,
    counted_s: int,
    verdicts: int | None,
    undetermined: int | None,
    *shown: Any,
) -> Point:
    """From the columns of `_ROWS`; the last of them are shown as they are."""
    waiting, oldest_age_s, p50_ms, p95_ms, p99_ms = shown
    return Point(
        at_s=at_s,
        received_per_s=_rate(received, counted_s),
        verdicts_per_s=_rate(verdicts, covered_s),
        waiting=waiting,
        oldest_age_s=oldest_age_s,
        undetermined_share=_rate(undetermined, verdicts or 0, digits=5),
        p50_ms=p50_ms,
        p95_ms=p95_ms,
        p99_ms=p99_ms,
    )


def _rate(count: int | None, of: int, *, digits: int = 3) -> float | None:
    return None if count is None or not of else round(count / of, digits)


def _gap(at_s: int) -> Point:
    return Point(at_s, None, None, None, None, None, None, None, None)
