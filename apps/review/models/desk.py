"""What each moderator arranges for themselves: saved parts of the queue, keys of their own."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class SavedView(models.Model):
    """A part of the queue under a name of its owner's. `query` is what stands in the address."""

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    name = models.CharField(max_length=40)
    # A search of 200 characters, each as up to four bytes in per cent, and the rest.
    query = models.CharField(max_length=3_000)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            # Also lists a person's views.
            models.UniqueConstraint(fields=["person", "name"], name="saved_view_name")
        ]


class KeyMap(models.Model):
    """The keys that somebody changed, by command; all others are as `apps.review.keys` has them."""

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE, related_name="+"
    )
    keys = models.JSONField(default=dict)
