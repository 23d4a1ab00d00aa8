"""The history, in buckets of four lengths, each added up from the next shorter one.

A bucket is always made anew from all of its parts and replaces what was there: a run that comes
twice changes nothing, one that comes late catches up, and a part that was written late is in the
next run. Sketches are merged before they are asked; a percentile is never made from percentiles.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self

from django.db import transaction
from django.db.models import Max

from apps.dashboard.measured import Measured
from apps.dashboard.models import InflowSample, Rollup
from apps.scoring.models import StageSample
from apps.scoring.samples import KEPT_FOR as SAMPLES_KEPT_FOR

BASE_STEP_S = 5
# How long buckets of each length are kept, shortest first.
KEPT_FOR = {
    BASE_STEP_S: timedelta(hours=2),
    60: timedelta(days=3),
    600: timedelta(days=31),
    3600: timedelta(days=400),
}
STEPS_S = tuple(KEPT_FOR)
# Samples of the last moments may not have committed, and inflow counts two seconds later.
SETTLED_AFTER = timedelta(seconds=3)
# So far back buckets are made anew: a sampler that paused fills in up to a minute.
LATE_BY = timedelta(seconds=70)
_WRITTEN = tuple(f.name for f in Rollup._meta.concrete_fields if f.name not in {"step_s", "at"})


@dataclass(slots=True)
class _Bucket:
    """What is added up for one row."""

    measured: Measured | None = None
    counted_s: int = 0
    received: int = 0
    waiting: list[int] = field(default_factory=list)
    ages_s: list[float] = field(default_factory=list)

    def add_payload(self, payload: dict[str, object]) -> None:
        self.measured = self.measured or Measured()
        self.measured.add(payload)

    def add_inflow(self, second: InflowSample) -> None:
        self.counted_s += 1
        self.received += second.received
        if second.waiting is not None:
            self.waiting.append(second.waiting)
            self.ages_s.append(second.oldest_age_s or 0.0)

    def add_row(self, row: Rollup) -> None:
        if row.payload is not None:
            self.add_payload(row.payload)
        self.counted_s += row.counted_s
        self.received += row.received or 0
        if row.waiting is not None:
            self.waiting.append(row.waiting)
            self.ages_s.append(row.oldest_age_s or 0.0)

    def row(self, step_s: int, at: datetime, until: datetime) -> Rollup:
        return Rollup(
            step_s=step_s,
            at=at,
            covered_s=min(step_s, int((until - at).total_seconds())),
            received=self.received if self.counted_s else None,
            counted_s=self.counted_s,
            waiting=max(self.waiting, default=None),
            oldest_age_s=max(self.ages_s, default=None),
            **_shown(self.measured),
        )


def _shown(measured: Measured | None) -> dict[str, object]:
    if measured is None:
        return {}
    return {
        "verdicts": measured.counts["verdicts"],
        "undetermined": measured.maps["by_label"][""],
        "fallback": measured.maps["by_source"]["fallback"],
        "p50_ms": measured.quantile_ms("total", 0.5),
        "p95_ms": measured.quantile_ms("total", 0.95),
        "p99_ms": measured.quantile_ms("total", 0.99),
        "payload": measured.to_json(),
    }


@dataclass(frozen=True, slots=True)
class _Span:
    """Which buckets of one length are to be made."""

    step_s: int
    since: datetime
    until: datetime

    @classmethod
    def of(cls, step_s: int, until: datetime) -> Self:
        """From the last bucket there is, or further back where parts may have come late."""
        last = Rollup.objects.filter(step_s=step_s).aggregate(last=Max("at"))["last"]
        since = until - LATE_BY
        if last is not None:
            since = min(since, last)
        elif step_s == BASE_STEP_S:
            since = until - SAMPLES_KEPT_FOR
        else:
            since = until - KEPT_FOR[STEPS_S[STEPS_S.index(step_s) - 1]]
        return cls(step_s, bucket_of(since, step_s), until)


def bucket_of(at: datetime, step_s: int) -> datetime:
    """When the bucket that `at` falls into begins."""
    return datetime.fromtimestamp(int(at.timestamp()) // step_s * step_s, tz=UTC)


@transaction.atomic
def roll_up(*, now: datetime) -> None:
    """Bring all lengths up to date and drop what is too old.

    Args:
        now: the database's time, as the samples carry it.
    """
    until = bucket_of(now - SETTLED_AFTER, BASE_STEP_S)
    _write(_base_rows(_base_span(until, now)))
    for finer_s, step_s in itertools.pairwise(STEPS_S):
        _write(_coarser_rows(finer_s, _Span.of(step_s, until)))
    for step_s, kept_for in KEPT_FOR.items():
        # Last: a run that comes late still needs the parts.
        Rollup.objects.filter(step_s=step_s, at__lt=until - kept_for).delete()


def _base_span(until: datetime, now: datetime) -> _Span:
    """Never a bucket of which a part has been dropped already: it would replace the whole one."""
    span = _Span.of(BASE_STEP_S, until)
    whole = bucket_of(now - SAMPLES_KEPT_FOR, BASE_STEP_S) + timedelta(seconds=2 * BASE_STEP_S)
    return _Span(BASE_STEP_S, max(span.since, whole), until)


def _write(rows: Iterable[Rollup]) -> None:
    Rollup.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["step_s", "at"], update_fields=_WRITTEN
    )


def _base_rows(span: _Span) -> Iterator[Rollup]:
    buckets: dict[datetime, _Bucket] = defaultdict(_Bucket)
    samples = StageSample.objects.filter(at__gte=span.since, at__lt=span.until)
    for at, payload in samples.values_list("at", "payload").iterator():
        buckets[bucket_of(at, span.step_s)].add_payload(payload)
    for second in InflowSample.objects.filter(second__gte=span.since, second__lt=span.until):
        buckets[bucket_of(second.second, span.step_s)].add_inflow(second)
    return _rows(buckets, span)


def _coarser_rows(finer_s: int, span: _Span) -> Iterator[Rollup]:
    buckets: dict[datetime, _Bucket] = defaultdict(_Bucket)
    for row in Rollup.objects.filter(step_s=finer_s, at__gte=span.since, at__lt=span.until):
        buckets[bucket_of(row.at, span.step_s)].add_row(row)
    return _rows(buckets, span)


def _rows(buckets: dict[datetime, _Bucket], span: _Span) -> Iterator[Rollup]:
    for at, bucket in sorted(buckets.items()):
        yield bucket.row(span.step_s, at, span.until)


def finest_step_s(since: datetime, until: datetime, *, now: datetime, most_points: int) -> int:
    """The shortest buckets that are still kept at `since` and are few enough."""
    span_s = (until - since).total_seconds()
    fitting: Sequence[int] = [
        step_s
        for step_s, kept_for in KEPT_FOR.items()
        if span_s / step_s <= most_points and since >= now - kept_for
    ]
    return fitting[0] if fitting else STEPS_S[-1]
