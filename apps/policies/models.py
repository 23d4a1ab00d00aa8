"""Policies: versioned thresholds. A version is never changed, only succeeded."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class Label(models.TextChoices):
    """What a message is. The order is the order of the model's scores."""

    OK = "ok", _("ok")
    SPAM = "spam", _("spam")
    TOXIC = "toxic", _("toxic")
    AD = "ad", _("ad")


class Action(models.TextChoices):
    ALLOW = "allow", _("allow")
    HOLD = "hold", _("hold")
    REMOVE = "remove", _("remove")


class Policy(models.Model):
    """A named set of thresholds that groups follow; exactly one is the default."""

    name = models.CharField(max_length=100, unique=True)
    is_default = models.BooleanField(default=False)

    class Meta:
        verbose_name_plural = "policies"
        constraints = [
            models.UniqueConstraint(
                fields=["is_default"], condition=Q(is_default=True), name="policy_one_default"
            )
        ]

    def __str__(self) -> str:
        return self.name


class PolicyVersion(models.Model):
    """One state of a policy. The highest number of a policy is in force."""

    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    note = models.CharField(max_length=200, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT
    )
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "number"], name="policy_version_unique")
        ]


class Threshold(models.Model):
    """From `hold` a score goes to people, from `remove` the message is removed. 0 to 1."""

    version = models.ForeignKey(PolicyVersion, on_delete=models.CASCADE, related_name="thresholds")
    label = models.CharField(max_length=8, choices=[c for c in Label.choices if c[0] != Label.OK])
    hold = models.FloatField()
    remove = models.FloatField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["version", "label"], name="threshold_unique"),
            models.CheckConstraint(
                condition=Q(hold__gte=0, hold__lte=F("remove"), remove__lte=1),
                name="threshold_in_order",
            ),
        ]
