"""What the desk calls: an item of the queue or a blind check, whichever a lease turns out to be on.

A check is handed out only while there is work anyway, so that an empty queue gives none away; and
all that can be done with a card can be done with a check, by the same addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.review.errors import LeaseLostError
from apps.review.models import CheckAnswer, Decision, Skip, Strike
from apps.review.queue import QueueFilters, free_part, part_of
from apps.review.services import checks, decisions, leases, strikes
from apps.review.services.decisions import Choice
from apps.review.services.leases import Lease


def open_next(
    user: User,
    filters: QueueFilters | None = None,
    *,
    besides: Sequence[int] = (),
    resume: bool = True,
    now: datetime | None = None,
) -> Lease | None:
    """As `leases.open_next`, now and then with a check in between."""
    require(user, Permission.REVIEW)
    now, filters = now or timezone.now(), filters or QueueFilters()
    own = checks.leased_to(user, now)
    if own is not None and resume and checks.is_in(own, filters):
        return checks.grant(own, user, now)
    kind = checks.is_turn_of(user, now) if own is None else None
    if kind is not None and not free_part(part_of(user, filters), user, now).is_empty():
        lease = checks.take(user, kind, filters, now)
        if lease is not None:
            return lease
    return leases.open_next(user, filters, besides=besides, resume=resume, now=now)


def open_item(user: User, item_id: int, *, now: datetime | None = None) -> Lease:
    """As `leases.open_item`; the user's own check is opened again."""
    require(user, Permission.REVIEW)
    now = now or timezone.now()
    own = checks.leased_to(user, now)
    if own is not None and own.item_id == item_id:
        return checks.grant(own, user, now)
    return leases.open_item(user, item_id, now=now)


@transaction.atomic
def decide(
    user: User, item_id: int, *, token: UUID, version: int, choice: Choice, strike: bool = False
) -> Decision | CheckAnswer:
    """As `decisions.decide`, with a draw for a second review; a check's answer is kept as that.

    Args:
        strike: Whether the sender is struck as well, which a check's answer never does.

    Raises:
        As `decisions.decide`; and ValueError when a strike comes without a removal.
    """
    require(user, Permission.REVIEW)
    if checks.is_check(user, item_id, token):
        return checks.answer(user, item_id, token=token, choice=choice)
    decision = decisions.decide(user, item_id, token=token, version=version, choice=choice)
    checks.sample(decision)
    if strike and timezone.now() - decision.decided_at <= decisions.grace():
        strikes.give(user, decision, now=decision.decided_at, hold=decisions.grace())
    return decision


@transaction.atomic
def undo(user: User, decision_id: int) -> tuple[Lease | None, int]:
    """As `decisions.undo_decision`, also for the answer to a check; and which item it is about.

    Raises:
        Decision.DoesNotExist: Neither there is.
    """
    require(user, Permission.REVIEW)
    answers = CheckAnswer.objects.filter(pk=decision_id).values_list("item_id", flat=True)
    item_id = answers.first()
    if item_id is not None:
        return checks.undo_answer(user, decision_id), item_id
    lease = decisions.undo_decision(user, decision_id)
    _withdraw_strikes(user)
    return lease, Decision.objects.values_list("item_id", flat=True).get(pk=decision_id)


def _withdraw_strikes(user: User) -> None:
    """Of all that the user just took back: one key may have made many decisions."""
    now = timezone.now()
    fresh = Strike.objects.filter(
        moderator=user, withdrawn_at=None, given_at__gt=now - 2 * decisions.grace()
    )
    ids = list(fresh.values_list("decision_id", flat=True))
    strikes.withdraw_undone(user, ids, now=now, hold=decisions.grace())


@transaction.atomic
def recall(user: User, item_id: int, token: UUID) -> Lease | None:
    """As `decisions.recall`, also for an answer that may have arrived."""
    require(user, Permission.REVIEW)
    if checks.is_check(user, item_id, token):
        return checks.recall(user, item_id, token)
    lease = decisions.recall(user, item_id, token)
    _withdraw_strikes(user)
    return lease


@transaction.atomic
def skip(user: User, item_id: int, token: UUID, *, now: datetime | None = None) -> None:
    """As `leases.skip`; a skipped check goes to somebody else."""
    require(user, Permission.REVIEW)
    now = now or timezone.now()
    if not checks.is_check(user, item_id, token):
        leases.skip(user, item_id, token, now=now)
        return
    if not checks.release(user, item_id, token):
        raise LeaseLostError(None)
    until = now + leases.SKIP_REST
    Skip.objects.update_or_create(item_id=item_id, moderator=user, defaults={"until": until})


def escalate(user: User, item_id: int, *, token: UUID, version: int) -> None:
    """As `decisions.escalate`; a check that somebody hands up is passed by."""
    require(user, Permission.REVIEW)
    if checks.is_check(user, item_id, token):
        skip(user, item_id, token)
    else:
        decisions.escalate(user, item_id, token=token, version=version)


def extend_lease(user: User, item_id: int, token: UUID) -> datetime | None:
    until = leases.extend_lease(user, item_id, token)
    return until or checks.extend(user, item_id, token, timezone.now())


def lease_end(user: User, item_id: int, token: UUID) -> datetime | None:
    return leases.lease_end(user, item_id, token) or checks.lease_end(user, item_id, token)


def release_lease(user: User, item_id: int, token: UUID) -> bool:
    return leases.release_lease(user, item_id, token) or checks.release(user, item_id, token)


def release_all(user: User) -> int:
    return leases.release_all(user) + checks.release_all(user)
