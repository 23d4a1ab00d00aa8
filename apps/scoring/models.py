"""Verdicts: what model or rules concluded about one revision, and how long it took."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.chat.models import Message
from apps.policies.models import Action, Label, PolicyVersion
from apps.releases.models import Release


class Source(models.TextChoices):
    MODEL = "model"
    RULES = "rules"
    FALLBACK = "fallback"
    PERSON = "person"


class Verdict(models.Model):
    """One conclusion, inserted once and never updated. No label means undetermined.

    Scores are probabilities, 0 to 1. The foreign keys carry no database constraint: each would
    cost a lookup an insert on the hot path, and the service writes them from rows it just read.
    """

    pk = models.CompositePrimaryKey("message_id", "release_id")
    message = models.ForeignKey(
        Message, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    release = models.ForeignKey(
        Release, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    policy_version = models.ForeignKey(
        PolicyVersion, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    source = models.CharField(max_length=8, choices=Source)
    label = models.CharField(max_length=8, choices=Label, null=True)
    action = models.CharField(max_length=8, choices=Action)
    # The label whose threshold acted; null when none did.
    acting_label = models.CharField(max_length=8, choices=Label, null=True)
    score_ok = models.FloatField(null=True)
    score_spam = models.FloatField(null=True)
    score_toxic = models.FloatField(null=True)
    score_ad = models.FloatField(null=True)
    undone = models.IntegerField(default=0)
    reasons = ArrayField(models.CharField(max_length=200), default=list)
    queue_ms = models.FloatField()
    inference_ms = models.FloatField()
    total_ms = models.FloatField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(label__isnull=False) | Q(action=Action.HOLD),
                name="verdict_undetermined_is_held",
            )
        ]


class StageSample(models.Model):
    """What one process measured in one second: counters, latency sketches, replica states.

    The dashboard merges these; they are figures, not truth, and old ones are dropped.
    """

    at = models.DateTimeField(db_default=Now())
    process = models.CharField(max_length=64)
    payload = models.JSONField()

    class Meta:
        # The dashboard's window.
        indexes = [models.Index(fields=["at"], name="stage_sample_by_time")]
