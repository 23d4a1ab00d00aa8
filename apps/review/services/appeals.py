"""Opening and deciding appeals. Who decided first never decides the appeal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import Actor, record
from apps.chat.models import Message
from apps.policies.models import Action, Label
from apps.review.announce import announce
from apps.review.errors import (
    AlreadyDecidedError,
    LeaseLostError,
    NoReasonError,
    NothingToAppealError,
    StaleItemError,
)
from apps.review.grams import indexed
from apps.review.language import guess
from apps.review.models import Appeal, AppealState, Cause, Decision, ReviewItem, ReviewState
from apps.review.ranking import APPEALED_PRIORITY, rank
from apps.review.services.decisions import Choice, grace, overturn, write_decision
from apps.review.services.intake import close
from apps.review.services.leases import lock_open, standing_decision
from apps.review.services.subjects import Subject, newest_revision
from apps.scoring.models import Verdict
from apps.webhooks.models import EventKind
from apps.webhooks.services import enqueue


@dataclass(frozen=True, slots=True)
class Opened:
    """An appeal as it stands. `is_new` is False when it had been opened before."""

    appeal: Appeal
    is_new: bool


@dataclass(frozen=True, slots=True)
class _Appealed:
    """What stands now and can be appealed: a person's decision, or the policy's removal."""

    action: Action
    label: Label
    decision: Decision | None


@transaction.atomic
def open_appeal(
    subject: Subject,
    *,
    appellant: str,
    text: str,
    actor: Actor,
    entered_by: User | None = None,
    now: datetime | None = None,
) -> Opened:
    """Appeal what a person decided, or the policy removed; it comes before another person.

    A decision is appealed once, and each appellant appeals a message once: again, the first
    appeal is answered with, decided or not. The decision stands until the appeal is decided.

    Args:
        subject: The message.
        appellant: The backend's id of who appeals; may be empty when a moderator enters it.
        text: Their words.
        actor: Who passes it on, for the audit record.
        entered_by: The moderator who enters it by hand.
        now: The present; the clock's if left out.

    Raises:
        PermissionDenied: `entered_by` may not review.
        NoSuchMessageError: There is no such message, or it was deleted.
        NothingToAppealError: Nothing stands, or it waits for a person anyway.
    """
    if entered_by is not None:
        require(entered_by, Permission.REVIEW)
    now = now or timezone.now()
    message = newest_revision(subject)
    verdict = Verdict.objects.filter(message=message).order_by("created_at").last()
    item = _lock_item(message, verdict, now)
    earlier = _earlier_appeal(item, appellant)
    if earlier is not None:
        return Opened(earlier, is_new=False)
    appealed = _what_stands(item, verdict, now)
    appeal = Appeal.objects.create(
        item=item,
        decision=appealed.decision,
        action=appealed.action,
        label=appealed.label,
        policy_version_id=verdict.policy_version_id if verdict else None,
        release_id=verdict.release_id if verdict else None,
        appellant=appellant,
        entered_by=entered_by,
        text=text,
        opened_at=now,
    )
    _queue(item, appealed, now)
    record(
        actor=actor,
        action="appeal.opened",
        target_type="appeal",
        target_id=appeal.pk,
        after={"message": item.pk, "decision": appealed.decision and appealed.decision.pk},
    )
    return Opened(appeal, is_new=True)


def _lock_item(message: Message, verdict: Verdict | None, now: datetime) -> ReviewItem:
    """The message's item; a removal by the policy has none before somebody appeals."""
    items = ReviewItem.objects.select_for_update(of=("self",))
    item = items.filter(pk=message.pk).first()
    if item is not None:
        return item
    if verdict is None or verdict.action != Action.REMOVE:
        raise NothingToAppealError
    ReviewItem.objects.get_or_create(
        pk=message.pk,
        defaults={
            "group_id": message.group_id,
            "cause": Cause.APPEALED,
            "label": verdict.acting_label or verdict.label,
            "priority": APPEALED_PRIORITY,
            "rank": rank(APPEALED_PRIORITY, now),
            "state": ReviewState.WITHDRAWN,
            "opened_at": now,
            "grams": indexed(message.text),
            "language": guess(message.text),
        },
    )
    return items.get(pk=message.pk)


def _earlier_appeal(item: ReviewItem, appellant: str) -> Appeal | None:
    """The appeal that this one repeats, if it does."""
    same = Q(state=AppealState.OPEN) | Q(decision__undone_at=None, decision__isnull=False)
    same |= Q(result__undone_at=None, state=AppealState.UPHELD)
    if appellant:
        same |= Q(appellant=appellant)
    return Appeal.objects.filter(same, item=item).order_by("-pk").first()


def _what_stands(item: ReviewItem, verdict: Verdict | None, now: datetime) -> _Appealed:
    if item.state == ReviewState.OPEN:
        raise NothingToAppealError
    if item.state == ReviewState.DECIDED:
        decision = standing_decision(item)
        if now - decision.decided_at <= grace():
            # It may still be taken back, and nobody outside has been told.
            raise NothingToAppealError
        return _Appealed(Action(decision.action), Label(decision.label), decision)
    if verdict is None or verdict.action != Action.REMOVE or verdict.label is None:
        raise NothingToAppealError
    return _Appealed(Action.REMOVE, Label(verdict.acting_label or verdict.label), None)


def _queue(item: ReviewItem, appealed: _Appealed, now: datetime) -> None:
    item.state, item.cause, item.label = ReviewState.OPEN, Cause.APPEALED, appealed.label
    item.barred_id = appealed.decision.moderator_id if appealed.decision else None
    item.priority, item.rank = APPEALED_PRIORITY, rank(APPEALED_PRIORITY, now)
    item.opened_at, item.escalated_by = now, None
    item.wave = None  # an appeal is about one message, and decided with its reason
    item.version += 1
    item.save()
    announce("opened", [item.pk])


@transaction.atomic
def decide_appeal(
    user: User,
    item_id: int,
    *,
    token: UUID,
    version: int,
    choice: Choice,
    now: datetime | None = None,
) -> Appeal:
    """Uphold what was appealed, by choosing the same action, or overturn it by another.

    `choice.note` is the reason that goes back. The same request again returns the same appeal.

    Raises:
        PermissionDenied: The user may not review.
        ReviewItem.DoesNotExist: There is no such item.
        OwnDecisionError: The appeal is against the user's own decision.
        NoReasonError: No reason is given.
        NothingToAppealError: The item is no appeal.
        AlreadyDecidedError, ItemWithdrawnError, LeaseLostError, StaleItemError: As for `decide`.
    """
    require(user, Permission.REVIEW)
    now = now or timezone.now()
    try:
        item = lock_open(user, item_id)
    except AlreadyDecidedError:
        repeated = Appeal.objects.filter(item=item_id, lease_token=token, decided_by=user).first()
        if repeated is not None:
            return repeated
        raise
    if item.lease_token != token or item.leased_by_id != user.pk:
        raise LeaseLostError(item.leased_by)
    if item.version != version:
        raise StaleItemError(item.version)
    appeal = Appeal.objects.filter(item=item, state=AppealState.OPEN).first()
    if appeal is None:
        raise NothingToAppealError
    if not choice.note.strip():
        raise NoReasonError
    _settle(appeal, item, user, choice, now)
    item.barred = None
    item.save(update_fields=["barred"])
    close(item, ReviewState.DECIDED)
    announce("decided", [item.pk])
    return appeal


def _settle(appeal: Appeal, item: ReviewItem, user: User, choice: Choice, now: datetime) -> None:
    is_upheld = choice.action == appeal.action
    if appeal.decision is None:
        # Now a person stands for it, so that the next appeal is against them.
        appeal.result = write_decision(item, user, choice, now)
    elif not is_upheld:
        appeal.result = overturn(appeal.decision, user, choice, now)
    appeal.state = AppealState.UPHELD if is_upheld else AppealState.OVERTURNED
    appeal.decided_by, appeal.decided_at = user, now
    appeal.reason, appeal.lease_token = choice.note.strip(), item.lease_token
    appeal.save()
    _tell(appeal, user)


def outbox_key(appeal_id: int) -> str:
    return f"appeal:{appeal_id}"


def _tell(appeal: Appeal, user: User) -> None:
    stands = appeal.result or appeal
    told = {
        "appeal": appeal.pk,
        "message": appeal.item_id,
        "outcome": str(appeal.state),
        "action": str(stands.action),
        "label": str(stands.label),
    }
    enqueue(
        kind=EventKind.APPEAL_DECIDED,
        key=outbox_key(appeal.pk),
        message_ids=[appeal.item_id],
        payload={**told, "reason": appeal.reason},
        hold=grace(),
    )
    record(
        actor=Actor.of_user(user),
        action="appeal.decided",
        target_type="appeal",
        target_id=appeal.pk,
        after=told,
    )
