"""One choice for many items: a decision, an audit event and an outbox event for each, in bulk.

The callers hold the locks: on the wave if there is one, and on every item by its id.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import F

from apps.accounts.models import User
from apps.audit.services import Actor, record_many
from apps.review.announce import announce
from apps.review.errors import UndoExpiredError
from apps.review.models import Decision, JointDecision, ReviewItem, ReviewState
from apps.review.statements import IS_NEWEST, fetch_rows
from apps.webhooks.models import EventKind
from apps.webhooks.services import enqueue_many, withdraw_many

# What joins by itself is on the record of nobody: no person looked at it.
JOINER = Actor.system("wave")

_CURRENT = f"""
SELECT id FROM chat_message AS message
WHERE id = ANY(%(ids)s) AND deleted_at IS NULL AND {IS_NEWEST}
"""  # noqa: S608 (a constant of ours)


@dataclass(frozen=True, slots=True)
class Undone:
    """What taking a joint decision back did. `lead` is the item that was open when it was made."""

    reopened: Sequence[int]
    withdrawn: Sequence[int]
    lead: ReviewItem | None


def grace() -> timedelta:
    """How long a decision can be taken back."""
    return timedelta(seconds=settings.REVIEW_UNDO_S)


def gone_ids(item_ids: Collection[int]) -> set[int]:
    """Those whose message was deleted or has a newer revision."""
    current = fetch_rows(_CURRENT, {"ids": list(item_ids)})
    return set(item_ids) - {id_ for (id_,) in current}


def decide_all(
    joint: JointDecision,
    item_ids: Collection[int],
    *,
    lead_id: int | None,
    note: str,
    hold: timedelta,
) -> list[Decision]:
    """Close open items with the joint's choice; those whose message is gone are withdrawn.

    Args:
        joint: What was chosen, stored already.
        item_ids: Open items that the caller has locked.
        lead_id: The one that was looked at: its decision answers the repeat of the request.
        note: What the person says about them, on each.
        hold: How long the outside is not told.
    """
    gone = gone_ids(item_ids)
    close_all(gone, ReviewState.WITHDRAWN)
    kept = sorted(set(item_ids) - gone)
    made = write(joint, kept, lead_id=lead_id, now=joint.decided_at, hold=hold, note=note)
    close_all(kept, ReviewState.DECIDED)
    announce("withdrawn", sorted(gone))
    announce("decided", kept)
    return made


def write(
    joint: JointDecision,
    item_ids: Sequence[int],
    *,
    lead_id: int | None = None,
    now: datetime,
    hold: timedelta,
    note: str = "",
    is_joined: bool = False,
) -> list[Decision]:
    """A decision, an audit event and an outbox event for each item. Touches no item."""
    made = Decision.objects.bulk_create(
        Decision(
            item_id=id_,
            moderator_id=joint.moderator_id,
            action=joint.action,
            label=joint.label,
            reason=joint.reason,
            note=note,
            lease_token=joint.token if id_ == lead_id else None,
            joint=joint,
            is_joined=is_joined,
            decided_at=now,
        )
        for id_ in item_ids
    )
    told = [facts(decision) for decision in made]
    enqueue_many(
        kind=EventKind.DECISION_MADE,
        events=[(outbox_key(d), d.item_id, t) for d, t in zip(made, told, strict=True)],
        hold=hold,
    )
    actor = JOINER if is_joined else Actor.of_user(joint.moderator)
    record_many(
        actor=actor,
        action="review.joined" if is_joined else "review.decided",
        target_type="review_item",
        changes=[(t["message"], None, {**t, "joint": joint.pk}) for t in told],
    )
    return made


def join(joining: Mapping[int, JointDecision], *, now: datetime) -> None:
    """Decide new messages like the wave that they belong to, in the transaction of their verdict.

    Their items are stored as decided already. The outside hears of it with the wave's own
    decisions: not before these can't be taken back any more.
    """
    by_joint: dict[int, list[int]] = {}
    joints = {joint.pk: joint for joint in joining.values()}
    for id_, joint in joining.items():
        by_joint.setdefault(joint.pk, []).append(id_)
    for pk, ids in by_joint.items():
        joint = joints[pk]
        hold = max(joint.decided_at + grace() - now, timedelta(0))
        write(joint, sorted(ids), now=now, hold=hold, is_joined=True)
        announce("decided", sorted(ids))


def undo_all(joint: JointDecision, user: User, now: datetime) -> Undone:
    """Take all decisions of a joint back, and open what is still there.

    Raises:
        UndoExpiredError: One of them has been told to the outside, or was reversed.
    """
    made = list(
        Decision.objects.select_for_update(of=("self",)).filter(joint=joint).order_by("item_id")
    )
    keys = [outbox_key(decision) for decision in made]
    is_touched = any(decision.undone_at is not None for decision in made)
    if is_touched or withdraw_many(kind=EventKind.DECISION_MADE, keys=keys) != len(made):
        raise UndoExpiredError
    Decision.objects.filter(joint=joint).update(undone_at=now)
    JointDecision.objects.filter(pk=joint.pk).update(undone_at=now)
    record_many(
        actor=Actor.of_user(user),
        action="review.undone",
        target_type="review_item",
        changes=[(d.item_id, {**facts(d), "joint": joint.pk}, None) for d in made],
    )
    return _reopen_all(made)


def _reopen_all(made: Sequence[Decision]) -> Undone:
    ids = {decision.item_id for decision in made}
    gone = gone_ids(ids)
    close_all(gone, ReviewState.WITHDRAWN)
    kept = sorted(ids - gone)
    ReviewItem.objects.filter(pk__in=kept).update(state=ReviewState.OPEN, version=F("version") + 1)
    announce("withdrawn", sorted(gone))
    announce("reopened", kept)
    lead_id = next((d.item_id for d in made if d.lease_token is not None), None)
    lead = ReviewItem.objects.filter(pk=lead_id, state=ReviewState.OPEN).first()
    return Undone(kept, sorted(gone), lead)


def close_all(item_ids: Collection[int], state: ReviewState) -> None:
    """End items that the caller has locked, in one statement."""
    ReviewItem.objects.filter(pk__in=list(item_ids)).update(
        state=state,
        version=F("version") + 1,
        leased_by=None,
        lease_token=None,
        lease_until=None,
    )


def facts(decision: Decision) -> dict[str, Any]:
    """What the audit log and the outbox are told of a decision."""
    return {
        "decision": decision.pk,
        "message": decision.item_id,
        "action": decision.action,
        "label": decision.label,
        "reason": decision.reason or None,
    }


def outbox_key(decision: Decision) -> str:
    """The same as of a decision that was made alone."""
    return f"decision:{decision.pk}"
