"""Taking away what people wrote about a message, or what one person wrote.

What was decided stays on record, as ids, labels and actions; words and names of people go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from django.db import transaction

from apps.audit.services import Actor, record
from apps.review.models import Decision, Report


@dataclass(frozen=True, slots=True)
class Erased:
    """How many rows were taken away (reports) or emptied (notes)."""

    reports: int
    notes: int


@transaction.atomic
def erase_about_messages(message_ids: Sequence[int], *, actor: Actor) -> Erased:
    """Erase what was said about these messages: reports whole, moderators' notes emptied."""
    reports, _ = Report.objects.filter(message_id__in=message_ids).delete()
    notes = Decision.objects.filter(item_id__in=message_ids).exclude(note="").update(note="")
    return _on_record(Erased(reports, notes), actor)


@transaction.atomic
def erase_by_person(external_id: str, *, actor: Actor) -> Erased:
    """Erase what one person, known by the backend's id, said about others' messages."""
    reports, _ = Report.objects.filter(reporter=external_id).delete()
    return _on_record(Erased(reports, 0), actor)


def _on_record(erased: Erased, actor: Actor) -> Erased:
    record(
        actor=actor,
        action="review.erased",
        target_type="review",
        target_id="words",
        after=asdict(erased),
    )
    return erased
