"""Where two people disagree, a lead who was neither of them decides."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import Actor, record
from apps.review.announce import announce
from apps.review.errors import NotCheckableError, OwnDecisionError
from apps.review.models import Check, CheckAnswer, CheckKind, CheckOutcome
from apps.review.services.decisions import Choice, grace, reverse_decision


@transaction.atomic
def settle(user: User, check_id: int, choice: Choice, *, now: datetime | None = None) -> Check:
    """Decide a disagreement: the first decision stays, or is reversed to `choice`.

    The same again changes nothing.

    Raises:
        PermissionDenied: The user is no lead.
        Check.DoesNotExist: There is no such check.
        OwnDecisionError: The user is one of the two.
        NotCheckableError: There is nothing to settle, or the answer may still be taken back.
        ReviewError: As for `reverse_decision`.
    """
    require(user, Permission.REVIEW_LEAD)
    now = now or timezone.now()
    check = Check.objects.select_for_update(of=("self",)).get(pk=check_id, kind=CheckKind.SECOND)
    if check.outcome == CheckOutcome.SETTLED and check.settled_by_id == user.pk:
        return check
    given = CheckAnswer.objects.filter(subject=check, undone_at__isnull=True).first()
    first = check.first
    if check.outcome != CheckOutcome.DISAGREED or given is None or first is None:
        raise NotCheckableError
    if now - given.decided_at <= grace():
        raise NotCheckableError
    if user.pk in (first.moderator_id, given.moderator_id):
        raise OwnDecisionError
    if (first.action, first.label) != (choice.action, choice.label):
        reverse_decision(user, first.pk, choice, now=now)
    check.outcome, check.settled_by, check.settled_at = CheckOutcome.SETTLED, user, now
    check.save(update_fields=["outcome", "settled_by", "settled_at"])
    record(
        actor=Actor.of_user(user),
        action="check.settled",
        target_type="check",
        target_id=check.pk,
        after={"message": check.item_id, "action": choice.action, "label": choice.label},
    )
    announce("checked", [check.item_id])
    return check
