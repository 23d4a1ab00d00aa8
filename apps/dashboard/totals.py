"""Counters that never fall: everything ever measured, by all processes, in one row.

Prometheus wants counters that only grow. A process's own counters start anew with it and end with
it, and a scrape reaches one web process of many while workers listen on no port at all. So the
samples, which all processes write, are folded into one row; a scrape shows that row and the
samples that are not yet in it. Restarting any process, or all, takes nothing away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Max, Sum

from apps.dashboard.measured import Measured
from apps.dashboard.models import InflowSample, MetricTotals
from apps.scoring.models import StageSample

# A sample carries the time its transaction began; by then all of that second have committed.
SETTLED_AFTER = timedelta(seconds=10)
NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_THE_ROW = 1


@dataclass(frozen=True, slots=True)
class Totals:
    """Since the first sample of this installation."""

    received: int
    measured: Measured


@transaction.atomic
def fold_totals(*, now: datetime) -> None:
    """Move what has settled from samples into the row. Twice or late does no harm.

    A fold that comes more than an hour late misses samples that were dropped meanwhile: the
    counters are then too low by them, and still never fall.

    Args:
        now: the database's time, as the samples carry it.
    """
    row = _locked_row()
    until = now - SETTLED_AFTER
    if until <= row.samples_until:
        return
    measured = Measured.of(row.payload) if row.payload else Measured()
    for payload in _payloads(row.samples_until, until):
        measured.add(payload)
    row.payload, row.samples_until = measured.to_json(), until
    _fold_inflow(row, until)
    row.save()


def _fold_inflow(row: MetricTotals, until: datetime) -> None:
    """No further than what is written: seconds are written in order, and after a pause late."""
    seconds = InflowSample.objects.filter(second__gte=row.inflow_until, second__lt=until)
    newest = seconds.aggregate(newest=Max("second"))["newest"]
    if newest is not None:
        next_second = newest + timedelta(seconds=1)
        row.received += _received(row.inflow_until, next_second)
        row.inflow_until = next_second


@transaction.atomic
def read_totals() -> Totals:
    """The row and what is not yet in it. The lock keeps a fold from moving samples meanwhile."""
    row = _locked_row()
    measured = Measured.of(row.payload) if row.payload else Measured()
    for payload in _payloads(row.samples_until):
        measured.add(payload)
    return Totals(row.received + _received(row.inflow_until), measured)


def _locked_row() -> MetricTotals:
    MetricTotals.objects.bulk_create(
        [MetricTotals(id=_THE_ROW, samples_until=NEVER, inflow_until=NEVER)], ignore_conflicts=True
    )
    return MetricTotals.objects.select_for_update().get(pk=_THE_ROW)


def _payloads(since: datetime, until: datetime | None = None) -> list[Mapping[str, Any]]:
    samples = StageSample.objects.filter(at__gte=since)
    if until is not None:
        samples = samples.filter(at__lt=until)
    return list(samples.values_list("payload", flat=True))


def _received(since: datetime, until: datetime | None = None) -> int:
    seconds = InflowSample.objects.filter(second__gte=since)
    if until is not None:
        seconds = seconds.filter(second__lt=until)
    return seconds.aggregate(sum=Sum("received"))["sum"] or 0
