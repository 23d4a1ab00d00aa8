"""Giving strikes and taking them back with their decisions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import Actor, record
from apps.policies.models import Action
from apps.review.models import Decision, Strike
from apps.review.sender_facts import strikes_of
from apps.webhooks.models import EventKind
from apps.webhooks.services import enqueue, withdraw


def lasting() -> timedelta:
    return timedelta(days=settings.STRIKE_DAYS)


@transaction.atomic
def give(user: User, decision: Decision, *, now: datetime, hold: timedelta) -> Strike:
    """Strike the sender of the message that `decision` removes; once a decision.

    Args:
        user: Who decided it.
        decision: A removal that stands, in the caller's transaction.
        now: The present.
        hold: How long the outside is told nothing, so that it can be taken back.

    Raises:
        PermissionDenied: The user may not review.
        ValueError: The decision removes nothing.
    """
    require(user, Permission.REVIEW)
    if decision.action != Action.REMOVE:
        raise ValueError("A strike goes with a removal.")
    sender = decision.item.message.sender
    strike, is_new = Strike.objects.get_or_create(
        decision=decision,
        defaults={
            "sender": sender,
            "moderator": user,
            "given_at": now,
            "expires_at": now + lasting(),
        },
    )
    if is_new:
        told = {**_told(strike), "expires_at": strike.expires_at.isoformat()}
        told["active"] = strikes_of(sender.pk, now=now).count()
        enqueue(
            kind=EventKind.SENDER_STRUCK,
            key=_key(strike),
            message_ids=[decision.item_id],
            payload={**told, "sender": sender.external_id},
            hold=hold,
        )
        _audit("sender.struck", strike, user, told)
    return strike


@transaction.atomic
def withdraw_undone(
    user: User, decision_ids: Sequence[int], *, now: datetime, hold: timedelta
) -> int:
    """Take back the strikes of decisions that do not stand any more; returns how many.

    What the outside has not heard of, it never hears of; else it is told.
    """
    undone = Strike.objects.select_for_update(of=("self",)).filter(
        decision__in=decision_ids, decision__undone_at__isnull=False, withdrawn_at__isnull=True
    )
    found = list(undone.select_related("decision", "sender"))
    for strike in found:
        strike.withdrawn_at = now
        strike.save(update_fields=["withdrawn_at"])
        if not withdraw(kind=EventKind.SENDER_STRUCK, key=_key(strike)):
            enqueue(
                kind=EventKind.STRIKE_WITHDRAWN,
                key=_key(strike),
                message_ids=[strike.decision.item_id],
                payload={**_told(strike), "sender": strike.sender.external_id},
                hold=hold,
            )
        _audit("sender.strike_withdrawn", strike, user, _told(strike))
    return len(found)


def follow(old: Decision, new: Decision) -> None:
    """Let a strike go with the decision that replaces its own, if that removes as well."""
    if new.action == Action.REMOVE:
        Strike.objects.filter(decision=old).update(decision=new)


def _key(strike: Strike) -> str:
    return f"strike:{strike.pk}"


def _told(strike: Strike) -> dict[str, Any]:
    return {
        "strike": strike.pk,
        "decision": strike.decision_id,
        "message": strike.decision.item_id,
    }


def _audit(action: str, strike: Strike, user: User, told: dict[str, Any]) -> None:
    record(
        actor=Actor.of_user(user),
        action=action,
        target_type="sender",
        target_id=strike.sender_id,
        after=told,
    )
