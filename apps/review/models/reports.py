"""What users of the chats say about each other's messages."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from apps.chat.models import Message
from apps.policies.models import Label

NOTE_MOST_CHARS = 500


class ReportReason(models.TextChoices):
    SPAM = "spam", _("spam")
    TOXIC = "toxic", _("abuse or hate")
    AD = "ad", _("advertising")
    # Somebody may come to harm: ahead of all other reports.
    DANGER = "danger", _("danger to somebody")
    OTHER = "other", _("something else")

    @property
    def as_label(self) -> Label | None:
        """What the reporter takes the message for; None when no label says it."""
        return Label(self.value) if self.value in Label.values else None


class Report(models.Model):
    """One person's report of one revision. The reporter is known by the backend's own id alone."""

    message = models.ForeignKey(
        Message, on_delete=models.CASCADE, db_constraint=False, related_name="reports"
    )
    reporter = models.CharField(max_length=200)
    reason = models.CharField(max_length=8, choices=ReportReason)
    note = models.CharField(max_length=NOTE_MOST_CHARS, blank=True)
    reported_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            # Each person once, however often the backend sends it.
            models.UniqueConstraint(fields=["message", "reporter"], name="report_once")
        ]
        indexes = [
            # Erasing what one person wrote.
            models.Index(fields=["reporter"], name="report_by_reporter")
        ]
