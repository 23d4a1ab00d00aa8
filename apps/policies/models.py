"""Policies: versioned thresholds and lists. A version is never changed, only succeeded."""

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


class RuleList(models.Model):
    """The entries that a version decides by itself. Never changed: versions that leave the entries
    as they are share one.
    """

    created_at = models.DateTimeField(db_default=Now())


class PolicyVersion(models.Model):
    """One state of a policy. The highest number of a policy is in force."""

    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    note = models.CharField(max_length=200, blank=True)
    # Null: no entries.
    rule_list = models.ForeignKey(
        RuleList, null=True, blank=True, on_delete=models.PROTECT, related_name="versions"
    )
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


class RuleKind(models.TextChoices):
    """Where an entry is looked for: among the words, or among the link domains."""

    TERM = "term", _("term")
    DOMAIN = "domain", _("domain")


class Rule(models.Model):
    """One entry of a list: a text that holds `pattern` is `label`, and `action` is what happens.

    `pattern` stands as it was typed, `key` is what is compared.
    """

    rule_list = models.ForeignKey(RuleList, on_delete=models.CASCADE, related_name="rules")
    kind = models.CharField(max_length=8, choices=RuleKind)
    pattern = models.CharField(max_length=200)
    key = models.CharField(max_length=200)
    label = models.CharField(max_length=8, choices=Label)
    action = models.CharField(max_length=8, choices=Action)
    # Decides only while the model is away; otherwise the model judges alone.
    only_away = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["rule_list", "kind", "key"], name="rule_unique"),
            models.CheckConstraint(
                condition=Q(only_away=False) | ~Q(action=Action.ALLOW),
                name="rule_allows_only_beside_the_model",
            ),
            models.CheckConstraint(
                condition=Q(label=Label.OK, action=Action.ALLOW)
                | (~Q(label=Label.OK) & ~Q(action=Action.ALLOW)),
                name="rule_only_ok_is_allowed",
            ),
        ]
