"""Near-duplicates, and one choice for many items at once."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from apps.policies.models import Action, Label


class JointKind(models.TextChoices):
    WAVE = "wave", _("wave")
    RANGE = "range", _("range of scores")


class JointDecision(models.Model):
    """One choice for many items. Each item has a `Decision` of its own that names this one."""

    kind = models.CharField(max_length=8, choices=JointKind)
    moderator = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    action = models.CharField(max_length=8, choices=Action)
    label = models.CharField(max_length=8, choices=Label)
    reason = models.CharField(max_length=16, blank=True)
    # Of the request, so that its repeat finds what it did.
    token = models.UUIDField(unique=True)
    decided_at = models.DateTimeField(db_default=Now())
    # How long arriving near-duplicates join; never, for a range.
    joins_until = models.DateTimeField(null=True, blank=True)
    undone_at = models.DateTimeField(null=True, blank=True)


class Wave(models.Model):
    """What near-duplicates have in common: the print of the first of them (see `near.py`).

    Every item whose text says enough belongs to one, nearly always alone: a later near-duplicate
    only has to name it. All are compared with the first, so a wave can't drift. The row is also the
    lock of whoever deals with the wave as a whole: this row first, then its items by their ids.
    """

    signature = models.BinaryField(max_length=64)
    # Where its `WaveBand` rows are, for when it is forgotten: an index for that cost more.
    bands = ArrayField(models.IntegerField())
    opened_at = models.DateTimeField(db_default=Now())
    # What arriving near-duplicates join, while it stands and its time lasts.
    joint = models.ForeignKey(
        JointDecision,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        db_index=False,
        related_name="waves",
    )

    class Meta:
        indexes = [
            # Which wave a decision was for, when it is taken back.
            models.Index(fields=["joint"], condition=Q(joint__isnull=False), name="wave_by_joint"),
            # Those that are old enough to be forgotten.
            models.Index(fields=["opened_at"], name="wave_by_age"),
        ]


class WaveBand(models.Model):
    """Where a wave is found: an arriving message that shares one of its bands may belong to it.

    A table, not an array in the wave with an index of its own: a batch asks for thousands of bands
    at once, for which PostgreSQL reads all waves rather than that index, and writing its entries
    costs four times as much.
    """

    pk = models.CompositePrimaryKey("band", "wave_id")
    band = models.IntegerField()
    wave_id = models.BigIntegerField()
