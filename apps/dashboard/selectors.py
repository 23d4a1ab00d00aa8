"""Reading what the operator's page shows. Figures are cached for half a second a process, so any
number of viewers cost one reading and see the same numbers."""

from __future__ import annotations

import base64
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from django.db import connection
from django.db.models import Max, Min, Sum
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.utils import timezone

from apps.chat.models import Chunk
from apps.dashboard.figures import RATE_WINDOW_S, STAGE_WINDOW_S, Figures, make_figures
from apps.dashboard.models import InflowSample
from apps.scoring.models import StageSample
from apps.scoring.samples import MessageClass, Sample, read_samples
from inference.stats import LatencySketch

FRESH_FOR_S = 0.5
HISTORY = timedelta(minutes=10)
BUCKET_S = 5
# What is younger than this, a sample or a bucket, may not be all there is.
SETTLED_AFTER_S = 10

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits for a verdict. `oldest_age_s` is None when nothing waits."""

    messages: int
    oldest_age_s: float | None


@dataclass(frozen=True, slots=True)
class Inflow:
    """Messages received a second, over the rate window; None while nobody samples it."""

    received_per_s: float | None
    sampled_at: datetime | None


@dataclass(frozen=True, slots=True)
class Point:
    """One bucket of the history. None where nobody measured: a gap, not a zero."""

    at_s: int
    received_per_s: float | None
    verdicts_per_s: float | None
    waiting: int | None
    oldest_age_s: float | None
    undetermined_share: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Overview:
    figures: Figures
    backlog: Backlog
    inflow: Inflow
    history: Sequence[Point]


class _Fresh(Generic[T]):
    """A value that one thread reads and all threads of the process share for a moment."""

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._value: T | None = None
        self._read_at_s = float("-inf")

    def get(self) -> T:
        with self._lock:
            if self._value is None or time.monotonic() - self._read_at_s > FRESH_FOR_S:
                self._value = self._read()
                self._read_at_s = time.monotonic()
            return self._value

    def forget(self) -> None:
        with self._lock:
            self._value = None


def database_now() -> datetime:
    """The time that samples carry: no machine's clock but PostgreSQL's."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now


def read_backlog(*, now: datetime) -> Backlog:
    """What waits, exactly: the backlog is a table."""
    found = Chunk.objects.aggregate(messages=Sum("size"), oldest=Min("created_at"))
    oldest = found["oldest"]
    age_s = None if oldest is None else max(0.0, (now - oldest).total_seconds())
    return Backlog(found["messages"] or 0, age_s)


def read_inflow(*, now: datetime) -> Inflow:
    """The mean rate of the last settled seconds."""
    newest = InflowSample.objects.aggregate(newest=Max("second"))["newest"]
    # A sampler that has been silent for longer than the window has nothing to say about now.
    if newest is None or now - newest > timedelta(seconds=RATE_WINDOW_S):
        return Inflow(None, newest)
    seconds = InflowSample.objects.filter(second__gt=newest - timedelta(seconds=RATE_WINDOW_S))
    counts = list(seconds.values_list("received", flat=True))
    return Inflow(sum(counts) / len(counts), newest)


def _read_overview() -> Overview:
    now = timezone.now()
    samples = _recent.samples(now)
    return Overview(
        figures=make_figures(samples, now=now),
        backlog=read_backlog(now=now),
        inflow=read_inflow(now=now),
        history=_history.points(now),
    )


_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class _Recent:
    """The samples of the stage window. Settled ones are read once a process, not every second."""

    def __init__(self) -> None:
        self._settled: Sequence[Sample] = ()
        self._settled_until = _LONG_AGO

    def samples(self, now: datetime) -> list[Sample]:
        since = now - timedelta(seconds=STAGE_WINDOW_S)
        known = [sample for sample in self._settled if sample.at > since]
        fresh = read_samples(max(since, self._settled_until))
        self._settled_until = now - timedelta(seconds=SETTLED_AFTER_S)
        self._settled = known + [each for each in fresh if each.at <= self._settled_until]
        return known + fresh

    def forget(self) -> None:
        self._settled, self._settled_until = (), _LONG_AGO


# The end-to-end latency's sketches in a sample, of every class of message.
_TOTALS = ("total", *(f"total:{each}" for each in MessageClass))


class _Bucket:
    """What is added up for one point of the history."""

    def __init__(self) -> None:
        self.total = LatencySketch()
        self.verdicts = self.undetermined = self.samples = 0

    def add(self, verdicts: int, undetermined: int, sketches: Sequence[str | None]) -> None:
        self.samples += 1
        self.verdicts += verdicts
        self.undetermined += undetermined
        for sketch in filter(None, sketches):
            self.total.merge(LatencySketch.from_bytes(base64.b64decode(sketch)))


class _History:
    """The last ten minutes in five-second points. Settled points are made once a process."""

    def __init__(self) -> None:
        self._settled: dict[int, Point] = {}

    def points(self, now: datetime) -> list[Point]:
        last_s = _bucket_of(now)
        first_s = last_s - int(HISTORY.total_seconds()) + BUCKET_S
        self._settled = {at_s: p for at_s, p in self._settled.items() if at_s >= first_s}
        wanted = [s for s in range(first_s, last_s, BUCKET_S) if s not in self._settled]
        fresh = _make_points(wanted[0], last_s) if wanted else {}
        settled_before_s = now.timestamp() - SETTLED_AFTER_S - BUCKET_S
        self._settled.update({s: p for s, p in fresh.items() if s <= settled_before_s})
        known = self._settled | fresh
        return [known[at_s] for at_s in range(first_s, last_s, BUCKET_S)]

    def forget(self) -> None:
        self._settled = {}


def _bucket_of(at: datetime) -> int:
    return int(at.timestamp()) // BUCKET_S * BUCKET_S


def _make_points(first_s: int, until_s: int) -> dict[int, Point]:
    since, until = (datetime.fromtimestamp(s, tz=UTC) for s in (first_s, until_s))
    buckets = _sample_buckets(since, until)
    inflow = _inflow_buckets(since, until)
    return {
        at_s: _point(at_s, buckets.get(at_s), inflow.get(at_s, []))
        for at_s in range(first_s, until_s, BUCKET_S)
    }


def _sample_buckets(since: datetime, until: datetime) -> dict[int, _Bucket]:
    buckets: dict[int, _Bucket] = defaultdict(_Bucket)
    # Only what a point needs: whole payloads of ten minutes would be tens of megabytes.
    counters = KeyTransform("counters", "payload")
    rows = StageSample.objects.filter(at__gte=since, at__lt=until).values_list(
        "at",
        KeyTransform("verdicts", counters),
        KeyTransform("", KeyTransform("by_label", counters)),
        *(KeyTextTransform(name, KeyTransform("sketches", "payload")) for name in _TOTALS),
    )
    for at, verdicts, undetermined, *sketches in rows.iterator():
        buckets[_bucket_of(at)].add(verdicts or 0, undetermined or 0, sketches)
    return buckets


def _inflow_buckets(since: datetime, until: datetime) -> dict[int, list[InflowSample]]:
    buckets: dict[int, list[InflowSample]] = defaultdict(list)
    for sample in InflowSample.objects.filter(second__gte=since, second__lt=until).order_by(
        "second"
    ):
        buckets[_bucket_of(sample.second)].append(sample)
    return buckets


def _point(at_s: int, bucket: _Bucket | None, inflow: Sequence[InflowSample]) -> Point:
    waiting = [s.waiting for s in inflow if s.waiting is not None]
    ages = [s.oldest_age_s for s in inflow if s.oldest_age_s is not None]
    sketch = bucket.total if bucket else LatencySketch()
    return Point(
        at_s=at_s,
        received_per_s=sum(s.received for s in inflow) / len(inflow) if inflow else None,
        verdicts_per_s=bucket.verdicts / BUCKET_S if bucket else None,
        waiting=max(waiting, default=None),
        oldest_age_s=max(ages, default=0.0) if waiting else None,
        undetermined_share=bucket.undetermined / bucket.verdicts
        if bucket and bucket.verdicts
        else None,
        p50_ms=sketch.quantile(0.5),
        p95_ms=sketch.quantile(0.95),
        p99_ms=sketch.quantile(0.99),
    )


_recent = _Recent()
_history = _History()
_overview: _Fresh[Overview] = _Fresh(_read_overview)


def overview() -> Overview:
    """The whole page's figures, at most half a second old."""
    return _overview.get()


def forget_cached() -> None:
    """Read anew next time: tests change what is stored under the cache's feet."""
    _overview.forget()
    _recent.forget()
    _history.forget()
