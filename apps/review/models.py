"""The review queue: what waits for people, who has it, what they decided."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from apps.chat.models import Group, Message
from apps.policies.models import Action, Label


class Cause(models.TextChoices):
    FLAGGED = "flagged", _("flagged")
    UNDETERMINED = "undetermined", _("undetermined")


class ReviewState(models.TextChoices):
    OPEN = "open", _("open")
    DECIDED = "decided", _("decided")
    # Its message was deleted or replaced before anybody decided.
    WITHDRAWN = "withdrawn", _("withdrawn")


class ReviewItem(models.Model):
    """One message that people shall look at. A write needs the lease's token and the version."""

    message = models.OneToOneField(
        Message, primary_key=True, on_delete=models.CASCADE, db_constraint=False
    )
    group = models.ForeignKey(Group, on_delete=models.PROTECT, db_index=False)
    cause = models.CharField(max_length=16, choices=Cause)
    label = models.CharField(max_length=8, choices=Label, null=True)
    priority = models.FloatField()
    state = models.CharField(max_length=16, choices=ReviewState, default=ReviewState.OPEN)
    version = models.PositiveIntegerField(default=1)
    opened_at = models.DateTimeField(db_default=Now())
    leased_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, db_index=False
    )
    lease_token = models.UUIDField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            # The queue, most urgent first, oldest first among equals.
            models.Index(
                fields=["-priority", "message"], condition=Q(state="open"), name="review_queue"
            ),
            models.Index(
                fields=["label", "-priority", "message"],
                condition=Q(state="open"),
                name="review_queue_by_label",
            ),
        ]


class Decision(models.Model):
    """What a person decided. At most one stands for an item; a reversal names what it reverses."""

    item = models.ForeignKey(ReviewItem, on_delete=models.PROTECT, related_name="decisions")
    moderator = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    action = models.CharField(max_length=8, choices=Action)
    label = models.CharField(max_length=8, choices=Label)
    note = models.CharField(max_length=500, blank=True)
    decided_at = models.DateTimeField(db_default=Now())
    undone_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["item"], condition=Q(undone_at__isnull=True), name="decision_one_stands"
            )
        ]
        indexes = [
            # A moderator's own history, newest first.
            models.Index(fields=["moderator", "-id"], name="decision_by_moderator"),
        ]
