"""The outbox: events for the outside, written in the transaction of what they tell."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class EventKind(models.TextChoices):
    VERDICTS_STORED = "verdicts.stored"
    DECISION_MADE = "decision.made"
    DECISION_REVERSED = "decision.reversed"
    APPEAL_DECIDED = "appeal.decided"
    SENDER_STRUCK = "sender.struck"
    STRIKE_WITHDRAWN = "sender.strike_withdrawn"


class OutboxEvent(models.Model):
    """One event. It may leave from `available_at` on, and has left when `released_at` is set.

    A batch of verdicts is one event with many subjects: a row a verdict would double the writes
    of the hot path. It names them by `payload["ranges"]`, first and last id of each run, and the
    release whose verdicts they are; its `message_ids` is empty. (`services.subject_ids`.)
    """

    kind = models.CharField(max_length=32, choices=EventKind)
    # What the event is about, so that a repeat writes nothing: "decision:17".
    key = models.CharField(max_length=80)
    message_ids = ArrayField(models.BigIntegerField())
    payload = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_default=Now())
    available_at = models.DateTimeField(db_default=Now())
    released_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "key"], name="outbox_event_once")]
        indexes = [
            # What is due, oldest first.
            models.Index(
                fields=["available_at", "id"],
                condition=Q(released_at__isnull=True),
                name="outbox_due",
            ),
            # What retention drops.
            models.Index(
                fields=["released_at"],
                condition=Q(released_at__isnull=False),
                name="outbox_released",
            ),
        ]
