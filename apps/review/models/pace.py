"""How fast the queue fills and empties, and how old it was: figures, minute by minute."""

from __future__ import annotations

from django.db import models


class QueueFlow(models.Model):
    """What came into the queue and what was decided in a minute, as changes to be added up.

    Written by the triggers that keep `QueueTally` (see migration 0005), in the same transaction: a
    decision that is taken back counts as minus one.
    """

    minute = models.DateTimeField()
    arrived = models.BigIntegerField()
    decided = models.BigIntegerField()

    class Meta:
        # The last minutes.
        indexes = [models.Index(fields=["minute"], name="queue_flow_by_minute")]


class QueueSample(models.Model):
    """How much was open at the start of a minute, and how long the oldest had waited."""

    minute = models.DateTimeField(primary_key=True)
    open_items = models.PositiveBigIntegerField()
    oldest_age_s = models.FloatField()
