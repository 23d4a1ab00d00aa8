"""What an erasure of a sender would take, how far one has come, and what it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from apps.chat.models import Erasure, Message, Sender
from apps.review.statements import fetch_row

ERASURES_PAGE = 50


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows that go (reports, strikes) or are emptied; `messages` counts each revision."""

    messages: int
    quotations: int
    reports: int
    appeals: int
    notes: int
    strikes: int

    @property
    def is_nothing(self) -> bool:
        return not any(getattr(self, one.name) for one in fields(self))


@dataclass(frozen=True, slots=True)
class Preview:
    """What goes. Open items are withdrawn besides; decisions stay on record."""

    counts: Counts
    groups: int
    open_items: int
    decisions: int


# A message goes with all its revisions, whoever sent them: so by their keys.
_PREVIEW = """
WITH keys AS MATERIALIZED (
  SELECT DISTINCT group_id, external_id FROM chat_message WHERE sender_id = %(sender)s
), said AS MATERIALIZED (
  SELECT message.id FROM keys JOIN chat_message AS message USING (group_id, external_id)
), reports AS (
  SELECT report.id FROM said JOIN review_report AS report ON report.message_id = said.id
  UNION SELECT id FROM review_report WHERE reporter = %(name)s AND %(name)s <> ''
), appeals AS (
  SELECT appeal.id FROM said JOIN review_appeal AS appeal ON appeal.item_id = said.id
  UNION SELECT id FROM review_appeal WHERE appellant = %(name)s AND %(name)s <> ''
)
SELECT
  (SELECT count(*) FROM said),
  (SELECT count(*) FROM keys JOIN chat_message AS quoting
     ON quoting.group_id = keys.group_id AND quoting.reply_to = keys.external_id
   WHERE quoting.reply_to <> '' AND quoting.quoted_text <> ''
     AND quoting.id NOT IN (SELECT id FROM said)),
  (SELECT count(*) FROM reports), (SELECT count(*) FROM appeals),
  (SELECT count(*) FROM said JOIN review_decision AS made ON made.item_id = said.id
   WHERE made.note <> '')
  + (SELECT count(*) FROM said JOIN review_checkanswer AS made ON made.item_id = said.id
     WHERE made.note <> ''),
  (SELECT count(*) FROM review_strike WHERE sender_id = %(sender)s),
  (SELECT count(DISTINCT group_id) FROM keys),
  (SELECT count(*) FROM said JOIN review_reviewitem AS item ON item.message_id = said.id
   WHERE item.state = 'open'),
  (SELECT count(*) FROM said JOIN review_decision AS made ON made.item_id = said.id)
"""


def preview(external_id: str, sender: Sender | None) -> Preview:
    """What erasing a person takes, as it stands now.

    Args:
        external_id: The backend's id of the person, for what they said about others' messages.
        sender: Who wrote under that id; None for somebody who never did.
    """
    sender_id = None if sender is None else sender.pk
    row = fetch_row(_PREVIEW, {"sender": sender_id, "name": external_id})
    *counts, groups, open_items, decisions = row
    return Preview(Counts(*counts), groups, open_items, decisions)


@dataclass(frozen=True, slots=True)
class Progress:
    """`left` messages still name the sender; `taken` is what the record says was taken so far.

    `last_at` is when the record last heard of it.
    """

    erasure: Erasure
    taken: Counts
    left: int
    last_at: datetime

    @property
    def share(self) -> float:
        total = self.taken.messages + self.left
        return self.taken.messages / total if total else 0.0


_TAKEN = """
SELECT coalesce(sum((after ->> 'messages')::bigint) FILTER (WHERE action = 'messages.erased'), 0),
  coalesce(sum((after ->> 'quoting')::bigint), 0),
  coalesce(sum((after ->> 'reports')::bigint), 0),
  coalesce(sum((after ->> 'appeals')::bigint), 0),
  coalesce(sum((after ->> 'notes')::bigint), 0),
  coalesce(sum((after ->> 'strikes')::bigint), 0),
  max(at)
FROM audit_auditevent WHERE target_type = 'erasure' AND target_id = %(erasure)s
"""


def progress(erasure_id: int) -> Progress:
    """How far an erasure has come, from the audit record.

    Raises:
        Erasure.DoesNotExist: There is no such erasure.
    """
    erasure = Erasure.objects.get(pk=erasure_id)
    *taken, last_at = fetch_row(_TAKEN, {"erasure": str(erasure_id)})
    left = 0
    if erasure.sender_id is not None:
        left = Message.objects.filter(sender=erasure.sender_id).count()
    return Progress(erasure, Counts(*map(int, taken)), left, last_at or erasure.requested_at)


def erasures(*, before_id: int | None = None) -> Sequence[Erasure]:
    """The newest erasures of senders, or those before one; one more than ERASURES_PAGE."""
    found = Erasure.objects.order_by("-pk")
    if before_id is not None:
        found = found.filter(pk__lt=before_id)
    return list(found[: ERASURES_PAGE + 1])


def under_way(sender_id: int) -> Erasure | None:
    """The erasure of a sender whose name is gone already."""
    return Erasure.objects.filter(sender=sender_id, finished_at=None).first()
