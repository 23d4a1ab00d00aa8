"""Groups, senders and what they wrote.

A message row is one revision and, but for deletion and erasure, is never updated: the verdict is
a row of its own, so the hot path only inserts. Ids come in blocks of `IDS_PER_CHUNK`, one block a
chunk, so a chunk of waiting messages is the id range of its block and its row is all that a
worker claims.
"""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext

from apps.policies.models import Policy

CHUNK_ID_BITS = 10
IDS_PER_CHUNK = 1 << CHUNK_ID_BITS

# Whose the messages of erased senders are, and what comes under an erased message's key. No
# backend's id is empty.
NOBODY = ""

# Ids of one era are stored about the same time: a million messages at most.
_ERA = F("id").bitrightshift(CHUNK_ID_BITS + 12)
# The order of a sender's messages, newest first, as `message_by_sender` has it.
NEWEST_OF_SENDER = (_ERA.desc(), F("id").desc())


class Group(models.Model):
    """A community whose backend sends us its messages; made when first seen."""

    external_id = models.CharField(max_length=200, unique=True)
    name = models.CharField(max_length=200, blank=True)
    policy = models.ForeignKey(
        Policy, null=True, blank=True, on_delete=models.PROTECT, related_name="groups"
    )
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.name or self.external_id


class Sender(models.Model):
    external_id = models.CharField(max_length=200, unique=True)
    name = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    # Nobody any more: one whose erasure is under way, or NOBODY.
    erased_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return gettext("(erased)") if self.erased_at else self.name or self.external_id


class Message(models.Model):
    """One revision of a message. `id >> CHUNK_ID_BITS` is its chunk.

    Group and sender carry no database constraint: it costs two lookups and a row lock an insert,
    and the insert joins both rows anyway.
    """

    id = models.BigIntegerField(primary_key=True)
    group = models.ForeignKey(Group, on_delete=models.PROTECT, db_index=False, db_constraint=False)
    external_id = models.CharField(max_length=200)
    revision = models.PositiveIntegerField(default=1)
    sender = models.ForeignKey(
        Sender, on_delete=models.PROTECT, db_index=False, db_constraint=False
    )
    text = models.TextField()
    quoted_text = models.TextField(blank=True, default="")
    reply_to = models.CharField(max_length=200, blank=True, default="")
    metadata = models.JSONField(null=True)
    sent_at = models.DateTimeField(null=True)
    received_at = models.DateTimeField(db_default=Now())
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            # The key of a repeat; also finds the revisions of one message.
            models.UniqueConstraint(
                fields=["group", "external_id", "revision"], name="message_key"
            ),
            models.CheckConstraint(condition=Q(revision__gte=1), name="message_revision_positive"),
        ]
        indexes = [
            # The conversation around a message, on the review card.
            models.Index(fields=["group", "id"], name="message_by_group"),
            # A sender's last messages, on the review card. By era first, or every message would be
            # written to a place of its own all over the index: 2,500 to 5,000 bytes of log a
            # message after each checkpoint, 1,000 like this. PostgreSQL skips from era to era.
            models.Index(_ERA, F("sender"), F("id"), name="message_by_sender"),
            # Which of a batch were deleted while it was judged: nearly always none.
            models.Index(
                fields=["id"], condition=Q(deleted_at__isnull=False), name="message_deleted"
            ),
            # Which of a batch are edits: their older revisions leave the review queue.
            models.Index(fields=["id"], condition=Q(revision__gt=1), name="message_revised"),
            # Who quotes a message that is erased.
            models.Index(
                fields=["group", "reply_to"],
                condition=~Q(reply_to="") & ~Q(quoted_text=""),
                name="message_quoting",
            ),
        ]

    @property
    def is_erased(self) -> bool:
        """No message comes without a text, so one that has none had it taken away."""
        return not self.text


class Deletion(models.Model):
    """A message that is deleted for good, also for revisions that come later or first.

    With `erased_at` nothing of what it says is kept, now or when it comes.
    """

    group = models.ForeignKey(Group, on_delete=models.PROTECT, db_index=False)
    external_id = models.CharField(max_length=200)
    deleted_at = models.DateTimeField(db_default=Now())
    erased_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            # Ingest looks each arriving message up by it.
            models.UniqueConstraint(fields=["group", "external_id"], name="deletion_key")
        ]


class Chunk(models.Model):
    """Messages that wait for a verdict: `size` of the ids of one block, from `first_id` on.

    A worker claims whole chunks (`claim_id`, `lease_until`); the row goes in the transaction that
    stores the verdicts. So the backlog is this table, and a message without verdict whose chunk is
    gone can't exist. To change whether a message may get a verdict (deletion), lock this row
    first: whoever stores verdicts holds it.

    `start_tag` is the chunk's turn, `lane` whose turn it is: see `backlog.py`. A chunk that has
    killed its workers is judged message by message; `suspect_id` is the one being tried.
    `ruled_version` is the newest policy version with which the lists alone have looked at it.
    """

    id = models.BigIntegerField(primary_key=True)
    size = models.PositiveSmallIntegerField()
    created_at = models.DateTimeField(db_default=Now())
    attempts = models.PositiveSmallIntegerField(db_default=0)
    claim_id = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    lane = models.BigIntegerField(db_default=0)
    start_tag = models.BigIntegerField(db_default=0)
    finish_tag = models.BigIntegerField(db_default=0)
    suspect_id = models.BigIntegerField(null=True)
    suspect_attempts = models.PositiveSmallIntegerField(db_default=0)
    ruled_version = models.BigIntegerField(db_default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(size__gte=1, size__lte=IDS_PER_CHUNK), name="chunk_size"
            )
        ]
        indexes = [
            # Whose turn it is: the claim.
            models.Index(fields=["start_tag", "id"], name="chunk_in_turn"),
            # How far a group has queued up already: the next chunk's start.
            models.Index(fields=["lane", "-finish_tag"], name="chunk_by_lane"),
        ]

    @property
    def first_id(self) -> int:
        return self.id << CHUNK_ID_BITS


class Erasure(models.Model):
    """The erasure of one sender: asked for, under way, or done (`finished_at`).

    How far it has come needs no mark: what is left are the messages that still name `sender`.
    """

    sender = models.ForeignKey(Sender, null=True, on_delete=models.SET_NULL, db_index=False)
    # The backend's id of the person, for what names them by it; emptied when it is done.
    external_id = models.CharField(max_length=200, blank=True)
    # Messages erased so far, each revision by itself.
    messages = models.PositiveBigIntegerField(default=0)
    # Who asked, for the audit record.
    actor_kind = models.CharField(max_length=8)
    actor_id = models.BigIntegerField(null=True)
    actor_name = models.CharField(max_length=150)
    requested_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            # What is still to be done.
            models.Index(
                fields=["id"], condition=Q(finished_at__isnull=True), name="erasure_under_way"
            )
        ]
