"""The review queue: what waits for people, who has it, what they decided."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from apps.chat.models import Group, Message
from apps.policies.models import Action, Label
from apps.review.models.waves import JointDecision, Wave


class Cause(models.TextChoices):
    FLAGGED = "flagged", _("flagged")
    UNDETERMINED = "undetermined", _("undetermined")
    # By a user of the chat. What waits already keeps its cause and counts its reports.
    REPORTED = "reported", _("reported")
    # What stands is disputed, and goes on standing until somebody else has looked.
    APPEALED = "appealed", _("appealed")


class ReviewState(models.TextChoices):
    OPEN = "open", _("open")
    DECIDED = "decided", _("decided")
    # Its message was deleted, replaced or judged anew before anybody decided.
    WITHDRAWN = "withdrawn", _("withdrawn")


class Language(models.TextChoices):
    """What a text seems to be written in (see `language.py`)."""

    EN = "en", _("English")
    ZH = "zh", _("Chinese")
    OTHER = "other", _("other languages")


class Reason(models.TextChoices):
    """Why somebody decided so: a key each, never needed."""

    FRAUD = "fraud", _("scam or phishing")
    FLOOD = "flood", _("mass posting")
    INSULT = "insult", _("insult")
    HATE = "hate", _("hate or threat")
    UNWANTED_AD = "unwanted_ad", _("unwanted advertising")
    HARMLESS = "harmless", _("harmless in context")


class ReviewItem(models.Model):
    """One message that people shall look at. A write needs the lease's token and the version."""

    message = models.OneToOneField(
        Message, primary_key=True, on_delete=models.CASCADE, db_constraint=False
    )
    group = models.ForeignKey(Group, on_delete=models.PROTECT, db_index=False)
    cause = models.CharField(max_length=16, choices=Cause)
    label = models.CharField(max_length=8, choices=Label, null=True)
    language = models.CharField(
        max_length=5, choices=Language, default=Language.OTHER, db_default=Language.OTHER
    )
    # Severity times confidence, 0 to 1; and the same with its age in it (see `ranking.py`).
    priority = models.FloatField()
    rank = models.FloatField()
    # Users of the chat who reported the message, each once (rows of `Report`).
    reports = models.PositiveIntegerField(default=0, db_default=0)
    state = models.CharField(max_length=16, choices=ReviewState, default=ReviewState.OPEN)
    version = models.PositiveIntegerField(default=1)
    opened_at = models.DateTimeField(db_default=Now())
    # When somebody first had it before them.
    first_leased_at = models.DateTimeField(null=True, blank=True)
    leased_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="+",
    )
    lease_token = models.UUIDField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    # Handed to a lead, by whom; moderators don't get it any more.
    escalated_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        db_index=False,
        related_name="+",
    )
    # Whoever decided first does not get it when it is appealed.
    barred = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        db_index=False,
        related_name="+",
    )

    # What a search finds it by (see `grams.py`).
    grams = ArrayField(models.IntegerField(), default=list, db_default=[])
    # Its near-duplicates share it; None for a text that says too little, or was taken out. No
    # constraint: waves are forgotten when nobody waits in them any more.
    wave = models.ForeignKey(
        Wave,
        null=True,
        blank=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="items",
    )
    # Of `label`, as it was when the item was opened.
    score = models.FloatField(null=True, blank=True)

    class Meta:
        indexes = [
            # Search within the queue.
            GinIndex(fields=["grams"], condition=Q(state="open"), name="review_search"),
            # The queue, most urgent first, oldest first among equals.
            models.Index(
                fields=["-rank", "message"], condition=Q(state="open"), name="review_queue"
            ),
            models.Index(
                fields=["label", "-rank", "message"],
                condition=Q(state="open"),
                name="review_queue_by_label",
            ),
            models.Index(
                fields=["group", "-rank", "message"],
                condition=Q(state="open"),
                name="review_queue_by_group",
            ),
            models.Index(
                fields=["language", "-rank", "message"],
                condition=Q(state="open"),
                name="review_queue_by_language",
            ),
            # The open members of a wave.
            models.Index(
                fields=["wave", "message"],
                condition=Q(state="open", wave__isnull=False),
                name="review_by_wave",
            ),
            # Open items by score: the chart, and a range of it.
            models.Index(
                fields=["label", "score"], condition=Q(state="open"), name="review_by_score"
            ),
            # The oldest that waits.
            models.Index(fields=["opened_at"], condition=Q(state="open"), name="review_oldest"),
            # What one moderator has open: resumed on the next visit, released at sign-out.
            models.Index(
                fields=["leased_by"],
                condition=Q(state="open", leased_by__isnull=False),
                name="review_leased",
            ),
            # What doesn't count for one moderator: appeals against their own decisions.
            models.Index(
                fields=["barred"],
                condition=Q(state="open", barred__isnull=False),
                name="review_barred",
            ),
        ]


class QueueTally(models.Model):
    """How many items are open, as changes to be added up: always equal to COUNT(*).

    A trigger writes a row in the transaction of the change itself, so the sum is right in every
    snapshot and nothing can drift; `settle_tally` adds rows up now and then. Counting a million
    open items takes half a second, adding up these a few milliseconds.
    """

    group_id = models.BigIntegerField()
    label = models.CharField(max_length=8, null=True)
    language = models.CharField(max_length=5, db_default=Language.OTHER)
    is_escalated = models.BooleanField()
    change = models.BigIntegerField()


class Skip(models.Model):
    """A moderator passed an item by; it doesn't come back to them before `until`."""

    item = models.ForeignKey(ReviewItem, on_delete=models.CASCADE)
    moderator = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    until = models.DateTimeField()

    class Meta:
        constraints = [
            # Also what leaves a moderator's skipped items out of their next one.
            models.UniqueConstraint(fields=["moderator", "item"], name="skip_once")
        ]


class Decision(models.Model):
    """What a person decided. At most one stands for an item; a reversal names what it reverses."""

    item = models.ForeignKey(ReviewItem, on_delete=models.PROTECT, related_name="decisions")
    moderator = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    action = models.CharField(max_length=8, choices=Action)
    label = models.CharField(max_length=8, choices=Label)
    reason = models.CharField(max_length=16, choices=Reason, blank=True, db_default="")
    note = models.CharField(max_length=500, blank=True)
    # The lease it was made under: a repeat of the same request finds its own decision.
    lease_token = models.UUIDField(null=True, unique=True)
    reverses = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="reversed_by"
    )
    # One of many that were made with one key; joined, when its message came after that.
    joint = models.ForeignKey(
        JointDecision,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        db_index=False,
        related_name="decisions",
    )
    is_joined = models.BooleanField(default=False, db_default=False)
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
            # The figures of the last days.
            models.Index(fields=["decided_at"], name="decision_by_time"),
            # All that one key decided, to take back.
            models.Index(
                fields=["joint"], condition=Q(joint__isnull=False), name="decision_by_joint"
            ),
        ]
