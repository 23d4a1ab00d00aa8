"""Strikes: a moderator's act against a sender, together with a removal."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.chat.models import Sender
from apps.review.models.queue import Decision


class Strike(models.Model):
    """One strike. It counts until it expires, as long as its decision is not taken back."""

    decision = models.OneToOneField(Decision, on_delete=models.PROTECT, related_name="strike")
    sender = models.ForeignKey(Sender, on_delete=models.PROTECT, db_index=False)
    moderator = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    given_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            # A sender's strikes, on the review card.
            models.Index(
                fields=["sender", "-given_at"],
                condition=Q(withdrawn_at__isnull=True),
                name="strike_by_sender",
            )
        ]
