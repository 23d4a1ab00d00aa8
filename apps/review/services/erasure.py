"""Taking away what people wrote about a message, or what one person wrote.

What was decided stays on record, as ids, labels and actions; words and names of people go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from django.db import transaction
from django.db.models import QuerySet

from apps.audit.services import Actor, record
from apps.review.models import Appeal, CheckAnswer, Decision, Report
from apps.review.services.appeals import outbox_key
from apps.webhooks.models import EventKind, OutboxEvent


@dataclass(frozen=True, slots=True)
class Erased:
    """How many rows were taken away (reports) or emptied (appeals, notes)."""

    reports: int
    appeals: int
    notes: int


@transaction.atomic
def erase_about_messages(message_ids: Sequence[int], *, actor: Actor) -> Erased:
    """Erase what was said about these messages.

    Reports go whole; appeals lose their words and whose they are, moderators' notes their words.
    """
    reports, _ = Report.objects.filter(message_id__in=message_ids).delete()
    notes = sum(
        made.objects.filter(item_id__in=message_ids).exclude(note="").update(note="")
        for made in (Decision, CheckAnswer)
    )
    appeals = _empty(Appeal.objects.filter(item_id__in=message_ids))
    return _on_record(Erased(reports, appeals, notes), actor)


@transaction.atomic
def erase_by_person(external_id: str, *, actor: Actor) -> Erased:
    """Erase what one person, known by the backend's id, said about others' messages."""
    reports, _ = Report.objects.filter(reporter=external_id).delete()
    appeals = _empty(Appeal.objects.filter(appellant=external_id))
    return _on_record(Erased(reports, appeals, 0), actor)


def _empty(appeals: QuerySet[Appeal]) -> int:
    """Take the words out of appeals, and out of the events that answer them."""
    keys = [outbox_key(pk) for pk in appeals.values_list("pk", flat=True)]
    for event in OutboxEvent.objects.filter(kind=EventKind.APPEAL_DECIDED, key__in=keys):
        event.payload["reason"] = ""
        event.save(update_fields=["payload"])
    return appeals.update(text="", reason="", appellant="")


def _on_record(erased: Erased, actor: Actor) -> Erased:
    record(
        actor=actor,
        action="review.erased",
        target_type="review",
        target_id="words",
        after=asdict(erased),
    )
    return erased
