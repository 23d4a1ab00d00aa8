"""The append-only record of who did what. A trigger refuses UPDATE and DELETE."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class ActorKind(models.TextChoices):
    USER = "user"
    API_KEY = "api_key"
    SYSTEM = "system"


class AuditEvent(models.Model):
    """One state change. Holds ids and settings, never message text."""

    at = models.DateTimeField(db_default=Now())
    actor_kind = models.CharField(max_length=8, choices=ActorKind)
    actor_id = models.BigIntegerField(null=True)
    actor_name = models.CharField(max_length=150)
    action = models.CharField(max_length=64)
    target_type = models.CharField(max_length=32)
    target_id = models.CharField(max_length=64)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)

    class Meta:
        indexes = [
            # The history of one thing (a policy, a review item), newest first.
            models.Index(fields=["target_type", "target_id", "-id"], name="audit_by_target"),
        ]
