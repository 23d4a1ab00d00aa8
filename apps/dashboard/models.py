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
