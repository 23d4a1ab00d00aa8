"""Appeals against what a person decided, or against what the policy removed by itself."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from apps.policies.models import Action, Label, PolicyVersion
from apps.releases.models import Release
from apps.review.models.queue import Decision, ReviewItem

APPEAL_MOST_CHARS = 2_000


class AppealState(models.TextChoices):
    OPEN = "open", _("open")
    UPHELD = "upheld", _("upheld")
    OVERTURNED = "overturned", _("overturned")


class Appeal(models.Model):
    """One appeal; its item waits in the queue meanwhile, and the decision goes on standing.

    Without `decision` it is against a removal by the policy. What was appealed, and under which
    policy version and release, is kept here, so that figures need nothing that may change.
    """

    item = models.ForeignKey(ReviewItem, on_delete=models.PROTECT, related_name="appeals")
    decision = models.OneToOneField(
        Decision, null=True, blank=True, on_delete=models.PROTECT, related_name="appeal"
    )
    action = models.CharField(max_length=8, choices=Action)
    label = models.CharField(max_length=8, choices=Label)
    policy_version = models.ForeignKey(
        PolicyVersion, null=True, on_delete=models.PROTECT, db_index=False
    )
    release = models.ForeignKey(Release, null=True, on_delete=models.PROTECT, db_index=False)
    # Who appeals, by the backend's id; empty when entered by hand without one.
    appellant = models.CharField(max_length=200, blank=True)
    entered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        db_index=False,
        related_name="+",
    )
    text = models.CharField(max_length=APPEAL_MOST_CHARS, blank=True)
    opened_at = models.DateTimeField(db_default=Now())
    state = models.CharField(max_length=12, choices=AppealState, default=AppealState.OPEN)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        db_index=False,
        related_name="+",
    )
    decided_at = models.DateTimeField(null=True)
    # Goes back to who appealed.
    reason = models.CharField(max_length=500, blank=True)
    # The decision that came of it: none when a person's was upheld.
    result = models.OneToOneField(
        Decision, null=True, on_delete=models.PROTECT, related_name="result_of_appeal"
    )
    # The lease it was decided under: a repeat of the same request finds its own answer.
    lease_token = models.UUIDField(null=True, unique=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["item"], condition=Q(state="open"), name="appeal_one_open"
            )
        ]
        indexes = [
            # The rates of overturning, and the newest on the page.
            models.Index(fields=["-decided_at"], name="appeal_by_time"),
            # Erasing what one person wrote.
            models.Index(fields=["appellant"], name="appeal_by_appellant"),
        ]
