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


class Rollup(models.Model):
    """One bucket of the history: `step_s` long, over all processes. `rollups.py` makes them.

    Null where nobody measured. What is shown stands in columns, so that a window is drawn without
    reading a sketch; the payload is what coarser buckets are added up from.
    """

    pk = models.CompositePrimaryKey("step_s", "at")
    step_s = models.PositiveSmallIntegerField()
    at = models.DateTimeField()
    # How much of the bucket is in here: less than `step_s` while it is the newest.
    covered_s = models.PositiveSmallIntegerField()
    # New messages, in so many seconds that were counted.
    received = models.BigIntegerField(null=True)
    counted_s = models.PositiveSmallIntegerField()
    verdicts = models.BigIntegerField(null=True)
    undetermined = models.BigIntegerField(null=True)
    fallback = models.BigIntegerField(null=True)
    # The most, and the longest, in the bucket.
    waiting = models.PositiveIntegerField(null=True)
    oldest_age_s = models.FloatField(null=True)
    p50_ms = models.FloatField(null=True)
    p95_ms = models.FloatField(null=True)
    p99_ms = models.FloatField(null=True)
    # `Measured.to_json()`; null where nobody measured.
    payload = models.JSONField(null=True)


class OperationalEvent(models.Model):
    """A change of a replica, a breaker, a process or a group's traffic, or a new version.

    What people changed stands in the audit.
    """

    class Kind(models.TextChoices):
        BREAKER = "breaker"
        REPLICA = "replica"
        WORKER = "worker"
        WEB = "web"
        # The subject is a version of the code.
        DEPLOY = "deploy"
        # The subject is a group's key.
        BURST = "burst"

    at = models.DateTimeField()
    kind = models.CharField(max_length=8, choices=Kind)
    # What `kind` says, or the replica's or the process's name.
    subject = models.CharField(max_length=64)
    state = models.CharField(max_length=16)
    reason = models.CharField(max_length=200, blank=True)
    # Whether it is the last that was said of its thing, and holds (`standing.py`).
    is_standing = models.BooleanField(default=False, db_default=False)

    class Meta:
        indexes = [
            # A window of the time line.
            models.Index(fields=["at"], name="operational_event_by_time"),
            # What was last known of one thing.
            models.Index(
                fields=["kind", "subject"],
                condition=models.Q(is_standing=True),
                name="operational_event_standing",
            ),
        ]
