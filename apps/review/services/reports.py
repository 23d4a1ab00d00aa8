"""Reports by users of the chats: each person once a message, all of them one item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.db import connection, transaction
from django.utils import timezone

from apps.audit.services import Actor, record
from apps.chat.models import Message
from apps.policies.models import Action, Label
from apps.review.announce import announce
from apps.review.grams import indexed
from apps.review.language import guess
from apps.review.models import Cause, Report, ReportReason, ReviewItem, ReviewState
from apps.review.ranking import (
    DANGER_PRIORITY,
    REPORTED_PRIORITY,
    base_priority,
    rank,
    reported_priority,
)
from apps.review.services.subjects import Subject, newest_revision
from apps.scoring.models import Verdict

# `waiting` for a person, `reviewed` by one, or `closed`: the message was removed without one.
ReportStatus = Literal["waiting", "reviewed", "closed"]


@dataclass(frozen=True, slots=True)
class Reported:
    """A report as it stands. `is_new` is False when the same person had reported before."""

    report: Report
    is_new: bool
    status: ReportStatus


@transaction.atomic
def report_message(
    subject: Subject,
    *,
    reporter: str,
    reason: ReportReason,
    note: str,
    actor: Actor,
    now: datetime | None = None,
) -> Reported:
    """Store a report and bring its message before a person.

    It goes to the newest revision: that is what stands in the chat. The verdict stays as it is.
    A message that a person decided on, or that the policy removed, does not come back: reports
    of it are kept, and end there until an edit.

    Args:
        subject: The message.
        reporter: The backend's id of who reports.
        reason: What they take it for.
        note: What they say about it.
        actor: Who passes it on, for the audit record.
        now: The present; the clock's if left out.

    Raises:
        NoSuchMessageError: There is no such message, or it was deleted.
    """
    message = newest_revision(subject)
    report, is_new = Report.objects.get_or_create(
        message=message, reporter=reporter, defaults={"reason": reason, "note": note}
    )
    if is_new:
        _bring_up(message, reason, now or timezone.now())
        # Neither the note nor the reporter: the record can't be erased, and they may have to be.
        record(
            actor=actor,
            action="message.reported",
            target_type="message",
            target_id=message.pk,
            after={"report": report.pk, "reason": reason.value},
        )
    return Reported(report, is_new, _status(message))


def _status(message: Message) -> ReportStatus:
    state = ReviewItem.objects.filter(pk=message.pk).values_list("state", flat=True).first()
    if state == ReviewState.DECIDED:
        return "reviewed"
    return "waiting" if state == ReviewState.OPEN else "closed"


def _bring_up(message: Message, reason: ReportReason, now: datetime) -> None:
    item = ReviewItem.objects.select_for_update(of=("self",)).filter(pk=message.pk).first()
    if item is not None and item.state == ReviewState.DECIDED:
        return
    if item is not None and item.state == ReviewState.OPEN:
        _raise(item, reason)
        return
    verdict = Verdict.objects.filter(message=message).order_by("created_at").last()
    if verdict is not None and verdict.action == Action.REMOVE:
        return
    _open(message, reason, verdict, now)


def _raise(item: ReviewItem, reason: ReportReason) -> None:
    """One more report of an open item. Its version stays: whoever has it open may go on."""
    base = max(item.priority, _base(reason, None))
    item.priority = reported_priority(base)
    item.rank = rank(item.priority, item.opened_at)
    item.reports += 1
    item.save(update_fields=["priority", "rank", "reports"])
    announce("reported", [item.pk])


def _open(message: Message, reason: ReportReason, verdict: Verdict | None, now: datetime) -> None:
    priority = reported_priority(_base(reason, verdict))
    item, is_new = ReviewItem.objects.get_or_create(
        pk=message.pk,
        defaults={
            "group_id": message.group_id,
            "cause": Cause.REPORTED,
            "label": _label(reason, verdict),
            "priority": priority,
            "rank": rank(priority, now),
            "reports": 1,
            "opened_at": now,
            "grams": indexed(message.text),
            "language": guess(message.text),
        },
    )
    if is_new:
        announce("opened", [item.pk])
    else:
        _open_again(item.pk, reason, verdict, now)


def _open_again(item_id: int, reason: ReportReason, verdict: Verdict | None, now: datetime) -> None:
    """The item was withdrawn (judged anew), or another report has opened it just now."""
    item = ReviewItem.objects.select_for_update(of=("self",)).get(pk=item_id)
    if item.state == ReviewState.DECIDED:
        return
    if item.state == ReviewState.WITHDRAWN:
        item.state, item.cause, item.opened_at = ReviewState.OPEN, Cause.REPORTED, now
        item.label = _label(reason, verdict)
        item.priority = _base(reason, verdict)
        item.version += 1
        item.save(update_fields=["state", "cause", "opened_at", "label", "version"])
    _raise(item, reason)
    announce("opened", [item.pk])


def _label(reason: ReportReason, verdict: Verdict | None) -> Label | None:
    """What the item asks about: what the reporter says, else what the verdict says but `ok`."""
    if reason.as_label is not None:
        return reason.as_label
    label = verdict.acting_label or verdict.label if verdict is not None else None
    return None if label in (None, Label.OK) else Label(label)


def _base(reason: ReportReason, verdict: Verdict | None) -> float:
    least = DANGER_PRIORITY if reason is ReportReason.DANGER else REPORTED_PRIORITY
    label = _label(reason, verdict)
    score = getattr(verdict, f"score_{label}", None) if label is not None else None
    return least if score is None else max(least, base_priority(label, score))


_CARRIED = """
SELECT newer.id, max(report.id), count(DISTINCT report.reporter)
FROM chat_message newer
JOIN chat_message older USING (group_id, external_id)
JOIN review_report report ON report.message_id = older.id
JOIN review_reviewitem item ON item.message_id = older.id AND item.state <> 'decided'
WHERE newer.id = ANY(%s) AND older.revision < newer.revision
GROUP BY newer.id
"""


def carry_over(message_ids: Sequence[int]) -> None:
    """Bring up edits whose earlier revisions were reported and never reviewed.

    Otherwise a sender would be rid of a report by editing. Runs where their verdicts are stored.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CARRIED, [list(message_ids)])
        rows = cursor.fetchall()
    for message_id, report_id, reporters in rows:
        if ReviewItem.objects.filter(pk=message_id, reports__gte=reporters).exists():
            continue  # a second verdict of the same message
        report = Report.objects.get(pk=report_id)
        reason = ReportReason(report.reason)
        _bring_up(Message.objects.get(pk=message_id), reason, timezone.now())
        ReviewItem.objects.filter(pk=message_id, state=ReviewState.OPEN).update(reports=reporters)
