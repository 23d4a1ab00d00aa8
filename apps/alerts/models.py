"""Rules and where each stands, the alerts they made, and whom each alert is still to be told."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.alerts.figures import DEFAULTS, Figure
from apps.alerts.judging import Condition, Course, Phase

# How long a condition must last, and how far limits may go.
LONGEST_S = 24 * 3600
LARGEST = 1e9


class AlertRule(models.Model):
    """One rule for each figure. `judging.py` says what the durations and the two limits mean."""

    figure = models.CharField(max_length=32, choices=Figure, unique=True)
    is_on = models.BooleanField()
    limit = models.FloatField()
    clear_at = models.FloatField()
    for_s = models.PositiveIntegerField()
    clear_for_s = models.PositiveIntegerField()
    # Nobody is told before then.
    silenced_until = models.DateTimeField(null=True)
    phase = models.CharField(
        max_length=8, choices=[(phase.value, phase.value) for phase in Phase], default=Phase.CALM
    )
    phase_since = models.DateTimeField(null=True)
    looked_at = models.DateTimeField(null=True)
    # The figure at the last look.
    value = models.FloatField(null=True)

    @property
    def is_below(self) -> bool:
        return DEFAULTS[Figure(self.figure)].is_below

    @property
    def condition(self) -> Condition:
        return Condition(self.is_below, self.limit, self.clear_at, self.for_s, self.clear_for_s)

    @property
    def course(self) -> Course:
        return Course(Phase(self.phase), self.phase_since, self.looked_at)


class Alert(models.Model):
    """One time that a rule fired. `value` and `limit` are those it fired with."""

    rule = models.ForeignKey(AlertRule, on_delete=models.PROTECT, related_name="alerts")
    fired_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)
    value = models.FloatField(null=True)
    limit = models.FloatField()
    # Whether it left the house; a silenced one has not, yet.
    is_told = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["rule"], condition=Q(resolved_at__isnull=True), name="alert_one_at_a_time"
            )
        ]
        # The page's history, newest first.
        indexes = [models.Index(F("fired_at").desc(), name="alert_newest_first")]


class Channel(models.TextChoices):
    WEBHOOK = "webhook"
    EMAIL = "email"


class Notice(models.Model):
    """One alert told over one channel, when it fired or when it was over."""

    # The receiver knows a repeat by it.
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="notices")
    channel = models.CharField(max_length=8, choices=Channel)
    is_resolved = models.BooleanField()
    attempts = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(null=True, db_default=Now())
    sent_at = models.DateTimeField(null=True)
    failure = models.CharField(max_length=100, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["alert", "channel", "is_resolved"], name="notice_once_a_channel"
            )
        ]
        # What is to be sent next.
        indexes = [
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="notice_due")
        ]


class ClockReading(models.Model):
    """By how much a process's clock was ahead of the database's when it last looked."""

    process = models.CharField(primary_key=True, max_length=64)
    ahead_s = models.FloatField()
    at = models.DateTimeField(db_default=Now())
