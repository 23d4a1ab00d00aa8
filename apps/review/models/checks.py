"""Blind checks of decisions: second reviews by somebody else, and items with known answers.

A check is no queue item: it has a lease of its own, and neither counts nor states of the queue
change with it.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.policies.models import Action, Label
from apps.review.models.queue import Decision, Reason, ReviewItem


class CheckSettings(models.Model):
    """How much is checked; one row. Shares are 0 to 1."""

    # Of decisions, how many get a second review.
    second_share = models.FloatField(default=0.0)
    # Of the cards that are served, how many have a known answer.
    gold_share = models.FloatField(default=0.0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(second_share__gte=0, second_share__lte=1)
                & Q(gold_share__gte=0, gold_share__lte=1),
                name="check_shares_are_shares",
            )
        ]


class Gold(models.Model):
    """An item whose right answer a lead has vouched for."""

    item = models.OneToOneField(ReviewItem, on_delete=models.PROTECT, related_name="gold")
    action = models.CharField(max_length=8, choices=Action)
    label = models.CharField(max_length=8, choices=Label)
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    made_at = models.DateTimeField(db_default=Now())
    retired_at = models.DateTimeField(null=True)


class CheckKind(models.TextChoices):
    SECOND = "second"
    GOLD = "gold"


class CheckOutcome(models.TextChoices):
    WAITING = "waiting"
    AGREED = "agreed"
    # For a lead, if it is a second review; a wrong answer, if it is gold.
    DISAGREED = "disagreed"
    SETTLED = "settled"
    # Its message is gone.
    VOID = "void"


class Check(models.Model):
    """One blind look: at a decision (`first`), or at an item with a known answer (`gold`)."""

    kind = models.CharField(max_length=8, choices=CheckKind)
    item = models.ForeignKey(ReviewItem, on_delete=models.PROTECT, related_name="checks")
    first = models.OneToOneField(
        Decision, null=True, on_delete=models.PROTECT, related_name="second_review"
    )
    gold = models.ForeignKey(
        Gold, null=True, on_delete=models.PROTECT, db_index=False, related_name="checks"
    )
    # Who has it, or answered it.
    moderator = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        db_index=False,
        related_name="+",
    )
    lease_token = models.UUIDField(null=True, unique=True)
    lease_until = models.DateTimeField(null=True)
    # When it was first on somebody's desk; the card's times are told as if it had just come.
    shown_at = models.DateTimeField(null=True)
    # Not before the first decision can't be taken back any more.
    due_at = models.DateTimeField()
    outcome = models.CharField(max_length=10, choices=CheckOutcome, default=CheckOutcome.WAITING)
    settled_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        db_index=False,
        related_name="+",
    )
    settled_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind="second", first__isnull=False, gold__isnull=True)
                | Q(kind="gold", first__isnull=True, gold__isnull=False),
                name="check_is_of_one_kind",
            ),
            # Nobody gets the same known answer twice.
            models.UniqueConstraint(
                fields=["gold", "moderator"],
                condition=Q(gold__isnull=False),
                name="check_gold_once",
            ),
        ]
        indexes = [
            # The next second review.
            models.Index(fields=["due_at"], condition=Q(outcome="waiting"), name="check_waiting"),
            # What one moderator has open.
            models.Index(
                fields=["moderator", "lease_until"],
                condition=Q(outcome="waiting"),
                name="check_leased",
            ),
            # What leads have to settle.
            models.Index(
                fields=["id"],
                condition=Q(outcome="disagreed", kind="second"),
                name="check_to_settle",
            ),
        ]


class CheckAnswer(models.Model):
    """What somebody made of a checked message. Its id is from the sequence of decisions.

    So neither an id nor an address tells a check from a decision; nobody outside hears of it.
    """

    id = models.BigIntegerField(primary_key=True)
    subject = models.ForeignKey(Check, on_delete=models.PROTECT, related_name="answers")
    item = models.ForeignKey(ReviewItem, on_delete=models.PROTECT, related_name="check_answers")
    moderator = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    action = models.CharField(max_length=8, choices=Action)
    label = models.CharField(max_length=8, choices=Label)
    reason = models.CharField(max_length=16, choices=Reason, blank=True)
    note = models.CharField(max_length=500, blank=True)
    lease_token = models.UUIDField(unique=True)
    decided_at = models.DateTimeField(db_default=Now())
    undone_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["subject"], condition=Q(undone_at__isnull=True), name="check_one_answer"
            )
        ]
        indexes = [
            # A moderator's own history, newest first.
            models.Index(fields=["moderator", "-id"], name="check_answer_by_moderator")
        ]
