"""Releases: what can give a verdict, and which of them does."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class ReleaseKind(models.TextChoices):
    MODEL = "model"
    RULES = "rules"


class Release(models.Model):
    """One servable version of a Triton model, or the rules that stand in when Triton is away."""

    kind = models.CharField(max_length=8, choices=ReleaseKind, default=ReleaseKind.MODEL)
    model_name = models.CharField(max_length=100)
    model_version = models.CharField(max_length=40)
    is_active = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["model_name", "model_version"], name="release_unique"),
            models.UniqueConstraint(
                fields=["kind"], condition=Q(is_active=True), name="release_one_active_per_kind"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model_name} {self.model_version}"
