"""What no process of the pipeline can measure alone: how much comes in, how much waits."""

from __future__ import annotations

from django.db import models


class InflowSample(models.Model):
    """One second of the whole installation. The waiting part is null for seconds filled in late."""

    second = models.DateTimeField(primary_key=True)
    received = models.PositiveIntegerField()
    # The highest message id then: where counting the next seconds may begin.
    high_id = models.BigIntegerField()
    waiting = models.PositiveIntegerField(null=True)
    oldest_age_s = models.FloatField(null=True)


class MetricTotals(models.Model):
    """One row: all that was ever measured, up to two instants. `totals.py` says why."""

    id = models.PositiveSmallIntegerField(primary_key=True)
    # Samples before the first, and inflow seconds before the second, are in here.
    samples_until = models.DateTimeField()
    inflow_until = models.DateTimeField()
    received = models.BigIntegerField(default=0)
    # `Measured.to_json()`; empty at first.
    payload = models.JSONField(default=dict)
