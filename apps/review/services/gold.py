"""Known answers: decisions that a lead vouches for, so that their messages can test others."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import Actor, record
from apps.review.errors import NotCheckableError
from apps.review.models import Decision, Gold, ReviewState
from apps.review.services.decisions import grace
from apps.review.services.leases import is_gone


@transaction.atomic
def make_gold(user: User, decision_id: int, *, now: datetime | None = None) -> Gold:
    """Vouch for a decision that stands, so that its message can test others.

    Raises:
        PermissionDenied: The user is no lead.
        Decision.DoesNotExist: There is no such decision.
        NotCheckableError: It does not stand, may still be taken back, or its message is gone.
    """
    require(user, Permission.REVIEW_LEAD)
    now = now or timezone.now()
    decision = Decision.objects.select_related("item").get(pk=decision_id)
    is_final = decision.undone_at is None and now - decision.decided_at > grace()
    if not is_final or decision.item.state != ReviewState.DECIDED or is_gone(decision.item):
        raise NotCheckableError
    gold, is_new = Gold.objects.get_or_create(
        item_id=decision.item_id,
        defaults={"action": decision.action, "label": decision.label, "made_by": user},
    )
    is_same = (gold.action, gold.label) == (decision.action, decision.label)
    if is_new or gold.retired_at is not None or not is_same:
        gold.action, gold.label, gold.retired_at = decision.action, decision.label, None
        gold.save(update_fields=["action", "label", "retired_at"])
        _audit_gold("gold.made", gold, user)
    return gold


@transaction.atomic
def retire_gold(user: User, gold_id: int) -> None:
    """Serve an item no more. What was answered stays.

    Raises:
        PermissionDenied: The user is no lead.
        Gold.DoesNotExist: There is no such item.
    """
    require(user, Permission.REVIEW_LEAD)
    gold = Gold.objects.select_for_update().get(pk=gold_id)
    if gold.retired_at is None:
        gold.retired_at = timezone.now()
        gold.save(update_fields=["retired_at"])
        _audit_gold("gold.retired", gold, user)


def _audit_gold(action: str, gold: Gold, user: User) -> None:
    record(
        actor=Actor.of_user(user),
        action=action,
        target_type="review_item",
        target_id=gold.item_id,
        after={"action": gold.action, "label": gold.label},
    )
