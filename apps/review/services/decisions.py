"""Deciding, taking back, handing up. Exactly one decision stands for an item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import Actor, record, record_many
from apps.policies.models import Action, Label
from apps.review.announce import announce
from apps.review.errors import (
    AlreadyDecidedError,
    ItemWithdrawnError,
    LeaseLostError,
    OwnDecisionError,
    StaleItemError,
    UnderAppealError,
    UndoExpiredError,
)
from apps.review.models import (
    Appeal,
    Cause,
    Decision,
    JointDecision,
    JointKind,
    Reason,
    ReviewItem,
    ReviewState,
    Wave,
)
from apps.review.services import strikes
from apps.review.services.intake import close
from apps.review.services.joint import close_all, decide_all, facts, outbox_key, undo_all
from apps.review.services.joint import grace as grace  # also for the rest of the room
from apps.review.services.leases import Lease, is_gone, lock_open, open_item, regrant
from apps.review.services.waves import join_time, leased_sibling, lock_for_all, lock_wave
from apps.webhooks.models import EventKind
from apps.webhooks.services import enqueue, withdraw


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person makes of a message."""

    action: Action
    label: Label
    note: str = ""
    reason: Reason | None = None

    @property
    def columns(self) -> dict[str, str]:
        """As a `Decision` or a `CheckAnswer` keeps it."""
        return {
            "action": self.action,
            "label": self.label,
            "reason": self.reason or "",
            "note": self.note,
        }


@transaction.atomic
def decide(
    user: User,
    item_id: int,
    *,
    token: UUID,
    version: int,
    choice: Choice,
    now: datetime | None = None,
) -> Decision:
    """Decide an item under its lease; the same request again returns the same decision.

    With it, all other open items of its wave: each gets a decision of its own, and what comes later
    joins for a time. The version is of the item that is shown; it also changes when the verdict of
    another member does.

    A lease that ran out still counts as long as nobody else took the item: its token is the
    newest, so no other person can be deciding.

    Raises:
        PermissionDenied: The user may not review.
        ReviewItem.DoesNotExist: There is no such item.
        AlreadyDecidedError: Somebody was first (or the user, otherwise).
        ItemWithdrawnError: The message was deleted or replaced.
        LeaseLostError: Somebody else took the item.
        StaleItemError: The item changed since it was shown.
        UnderAppealError: It is an appeal (see `appeals.decide_appeal`).
    """
    require(user, Permission.REVIEW)
    now = now or timezone.now()
    others = lock_for_all(user, item_id, now)
    try:
        item = lock_open(user, item_id)
    except AlreadyDecidedError as error:
        standing = error.decision
        if isinstance(standing, Decision) and _is_repeat(standing, user, token, choice):
            return standing
        raise
    _check_lease(item, user, token, now)
    if item.version != version:
        raise StaleItemError(item.version)
    if item.cause == Cause.APPEALED:
        raise UnderAppealError
    if others:
        return _decide_wave(item, others, user, token, choice, now)
    decision = _write(item, user, token, choice, now)
    close(item, ReviewState.DECIDED)
    announce("decided", [item.pk])
    return decision


def _check_lease(item: ReviewItem, user: User, token: UUID, now: datetime) -> None:
    if item.lease_token != token or item.leased_by_id != user.pk:
        sibling = leased_sibling(item, now)
        raise LeaseLostError(item.leased_by or (sibling.leased_by if sibling else None))


def _decide_wave(
    item: ReviewItem,
    others: Sequence[int],
    user: User,
    token: UUID,
    choice: Choice,
    now: datetime,
) -> Decision:
    joint = JointDecision.objects.create(
        kind=JointKind.WAVE,
        moderator=user,
        action=choice.action,
        label=choice.label,
        reason=choice.reason or "",
        token=token,
        decided_at=now,
        joins_until=now + join_time(),
    )
    Wave.objects.filter(pk=item.wave_id or 0).update(joint=joint)
    made = decide_all(joint, [item.pk, *others], lead_id=item.pk, note=choice.note, hold=grace())
    mine = next((decision for decision in made if decision.item_id == item.pk), None)
    if mine is None:
        raise ItemWithdrawnError  # an edit came in this very moment: nothing is decided
    return mine


def _is_repeat(decision: Decision, user: User, token: UUID, choice: Choice) -> bool:
    same_request = decision.moderator_id == user.pk and decision.lease_token == token
    return same_request and (decision.action, decision.label) == (choice.action, choice.label)


def _write(
    item: ReviewItem, user: User, token: UUID | None, choice: Choice, now: datetime
) -> Decision:
    decision = Decision.objects.create(
        item=item,
        moderator=user,
        **choice.columns,
        lease_token=token,
        decided_at=now,
    )
    told = facts(decision)
    enqueue(
        kind=EventKind.DECISION_MADE,
        key=outbox_key(decision),
        message_ids=[item.pk],
        payload=told,
        hold=grace(),
    )
    _audit("review.decided", decision, user, after=told)
    return decision


def write_decision(item: ReviewItem, user: User, choice: Choice, now: datetime) -> Decision:
    """Decide an item whose lease the caller has checked, for an appeal."""
    return _write(item, user, None, choice, now)


def overturn(old: Decision, user: User, choice: Choice, now: datetime) -> Decision:
    """Put another decision in the place of an appealed one. The caller has locked the item."""
    old.undone_at = now
    old.save(update_fields=["undone_at"])
    decision = _replace(old, user, choice, now)
    strikes.follow(old, decision)
    strikes.withdraw_undone(user, [old.pk], now=now, hold=grace())
    return decision


@transaction.atomic
def undo_decision(user: User, decision_id: int, *, now: datetime | None = None) -> Lease | None:
    """Take one's own decision back within the grace time, before the outside hears of it.

    One of many that were made with one key is taken back with all of them.

    Returns:
        A lease on the item, which is open again; None when its message is gone meanwhile, or
        when the decision had been taken back before.

    Raises:
        PermissionDenied: It is somebody else's.
        Decision.DoesNotExist: There is no such decision.
        UndoExpiredError: The grace time is over.
    """
    require(user, Permission.REVIEW)
    now = now or timezone.now()
    made = Decision.objects.only("item_id", "joint_id").get(pk=decision_id)
    item_id = made.item_id
    if made.joint_id is not None:
        return _undo_joint(user, made.joint_id, now)
    # The item first, then the decision: the order in which `decide` locks them.
    item = ReviewItem.objects.select_for_update(of=("self",)).get(pk=item_id)
    decision = Decision.objects.select_for_update(of=("self",)).get(pk=decision_id)
    if decision.moderator_id != user.pk:
        raise PermissionDenied(str(Permission.REVIEW))
    if decision.undone_at is not None:
        return None
    if Appeal.objects.filter(result=decision).exists():
        # It closed an appeal, with a reason that was given to somebody.
        raise UndoExpiredError
    is_late = now - decision.decided_at > grace()
    if is_late or not withdraw(kind=EventKind.DECISION_MADE, key=outbox_key(decision)):
        raise UndoExpiredError
    decision.undone_at = now
    decision.save(update_fields=["undone_at"])
    _audit("review.undone", decision, user, before=facts(decision))
    return _reopen(item, user, now)


@transaction.atomic
def recall(user: User, item_id: int, token: UUID, *, now: datetime | None = None) -> Lease | None:
    """Take back whatever was done under a lease, if it arrived, and have the item again.

    For a line that broke before the answer came: nobody knows whether the decision stands. The new
    lease has a new token, so the old request changes nothing if it comes later still.

    Returns:
        A lease; None when the message is gone meanwhile.

    Raises:
        The same as `undo_decision` and `open_item`.
    """
    require(user, Permission.REVIEW)
    # Locked first: the decision that is on its way must come before or after, never between.
    lock_wave(ReviewItem.objects.values_list("wave_id", flat=True).get(pk=item_id))
    ReviewItem.objects.select_for_update(of=("self",)).get(pk=item_id)
    made = Decision.objects.filter(item_id=item_id, lease_token=token, moderator=user).first()
    if made is not None and made.undone_at is None:
        return undo_decision(user, made.pk, now=now)
    return open_item(user, item_id, now=now)


def _undo_joint(user: User, joint_id: int, now: datetime) -> Lease | None:
    # The order of `lock_for_all`: waves, items by their ids, then decisions.
    list(Wave.objects.select_for_update(of=("self",)).filter(joint=joint_id).order_by("pk"))
    decided = ReviewItem.objects.filter(decisions__joint=joint_id).order_by("pk")
    list(decided.select_for_update(of=("self",)).values_list("pk"))
    joint = JointDecision.objects.select_for_update(of=("self",)).get(pk=joint_id)
    if joint.moderator_id != user.pk:
        raise PermissionDenied(str(Permission.REVIEW))
    if joint.undone_at is not None:
        return None
    if now - joint.decided_at > grace():
        raise UndoExpiredError
    lead = undo_all(joint, user, now).lead
    return None if lead is None else regrant(lead, user, now)


def _reopen(item: ReviewItem, user: User, now: datetime) -> Lease | None:
    if is_gone(item):
        close(item, ReviewState.WITHDRAWN)
        announce("withdrawn", [item.pk])
        return None
    item.state = ReviewState.OPEN
    item.version += 1
    item.save(update_fields=["state", "version"])
    announce("reopened", [item.pk])
    return regrant(item, user, now)


@transaction.atomic
def reverse_decision(
    user: User, decision_id: int, choice: Choice, *, now: datetime | None = None
) -> Decision:
    """Put another decision in the place of one that the outside knows already.

    One's own, or anybody's for leads. The same request again returns the same decision.

    Raises:
        PermissionDenied: It is somebody else's and the user is no lead.
        Decision.DoesNotExist: There is no such decision.
        AlreadyDecidedError: It does not stand any more, or it says the same.
        ItemWithdrawnError: It was taken back and its message is gone.
        UnderAppealError: It is appealed.
        OwnDecisionError: It came of an appeal against the user's own decision.
    """
    require(user, Permission.REVIEW)
    item_id = Decision.objects.values_list("item_id", flat=True).get(pk=decision_id)
    item = ReviewItem.objects.select_for_update(of=("self",)).get(pk=item_id)
    old = Decision.objects.select_for_update(of=("self",)).get(pk=decision_id)
    if old.moderator_id != user.pk:
        require(user, Permission.REVIEW_LEAD)
    if old.undone_at is not None:
        return _reversal_of(old, user, choice)
    if item.state == ReviewState.OPEN:
        raise UnderAppealError
    if Appeal.objects.filter(result=old, decision__moderator=user).exists():
        raise OwnDecisionError
    if (old.action, old.label) == (choice.action, choice.label):
        raise AlreadyDecidedError(old)
    decision = overturn(old, user, choice, now or timezone.now())
    item.version += 1
    item.save(update_fields=["version"])
    announce("decided", [item.pk])
    return decision


def _reversal_of(old: Decision, user: User, choice: Choice) -> Decision:
    """What stands instead of `old`: the answer to a repeat, else the reason to refuse."""
    standing = (
        Decision.objects.filter(item_id=old.item_id, undone_at__isnull=True)
        .select_related("moderator")
        .first()
    )
    if standing is None:
        raise ItemWithdrawnError
    same = (standing.reverses_id, standing.moderator_id) == (old.pk, user.pk)
    if same and (standing.action, standing.label) == (choice.action, choice.label):
        return standing
    raise AlreadyDecidedError(standing)


def _replace(old: Decision, user: User, choice: Choice, now: datetime) -> Decision:
    decision = Decision.objects.create(
        item_id=old.item_id,
        moderator=user,
        **choice.columns,
        reverses=old,
        decided_at=now,
    )
    told = {**facts(decision), "reverses": old.pk}
    # The first may still wait in the outbox: then both leave, in order.
    enqueue(
        kind=EventKind.DECISION_REVERSED,
        key=outbox_key(decision),
        message_ids=[old.item_id],
        payload=told,
        hold=grace(),
    )
    _audit("review.reversed", decision, user, before=facts(old), after=told)
    return decision


@transaction.atomic
def escalate(user: User, item_id: int, *, token: UUID, version: int) -> None:
    """Hand an item up, with its wave: from now on only leads and admins get it.

    Raises:
        The same as `decide`.
    """
    require(user, Permission.REVIEW)
    now = timezone.now()
    others = lock_for_all(user, item_id, now)
    item = lock_open(user, item_id)
    _check_lease(item, user, token, now)
    if item.version != version:
        raise StaleItemError(item.version)
    everything = [item.pk, *others]
    ReviewItem.objects.filter(pk__in=everything).update(escalated_by=user)
    close_all(everything, ReviewState.OPEN)
    record_many(
        actor=Actor.of_user(user),
        action="review.escalated",
        target_type="review_item",
        changes=[(id_, None, None) for id_ in everything],
    )
    announce("escalated", everything)


def _audit(action: str, decision: Decision, user: User, **state: dict[str, Any]) -> None:
    record(
        actor=Actor.of_user(user),
        action=action,
        target_type="review_item",
        target_id=decision.item_id,
        **state,
    )
