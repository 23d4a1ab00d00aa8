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
        indexes = [
            # What the lists decided alone, to be compared with the model's verdicts since.
            models.Index(
                fields=["message"], condition=Q(source=Source.FALLBACK), name="verdict_fallback"
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


class ControlKind(models.TextChoices):
    REPLICA = "replica"
    BREAKER = "breaker"
    CLAIMING = "claiming"
    LIMITS = "limits"
    MODEL = "model"
    JUDGING = "judging"


class ModelWish(models.TextChoices):
    LOADED = "loaded"
    UNLOADED = "unloaded"


class Control(models.Model):
    """What an operator wants of one thing: the workers bring it about, and a new worker reads it.

    `version` counts the wishes, so that a worker knows whether it has carried out the newest.
    Who wished what before stands in the audit log.
    """

    kind = models.CharField(max_length=8, choices=ControlKind)
    # The replica's or the model's name; empty where there is only one such thing.
    target = models.CharField(max_length=100, default="")
    value = models.JSONField()
    version = models.PositiveIntegerField(default=0)
    changed_at = models.DateTimeField(db_default=Now())
    changed_by = models.CharField(max_length=150, default="")
    # Of models, which one process loads or unloads for all: the wish that is done, and how it went.
    done_version = models.PositiveIntegerField(default=0)
    failure = models.CharField(max_length=200, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "target"], name="control_one_of_a_thing")
        ]

    @property
    def key(self) -> str:
        """Under which a worker's sample says which version it has carried out."""
        return f"{self.kind}:{self.target}"
