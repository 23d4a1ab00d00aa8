"""Blind checks: sampling decisions, handing checks out, answering.

None of it touches the queue: items keep their state and version, counts stay, and nothing of an
answer is told to the outside. Only what a lead settles can change a decision. Browsers hear the
same events as of an item of the queue: their frames must not tell a check from one.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID, uuid4

from django.core.exceptions import PermissionDenied
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.crypto import salted_hmac

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may, require
from apps.audit.services import Actor, record
from apps.review.announce import announce
from apps.review.errors import (
    AlreadyDecidedError,
    LeaseLostError,
    UndoExpiredError,
)
from apps.review.models import (
    Check,
    CheckAnswer,
    CheckKind,
    CheckOutcome,
    CheckSettings,
    Decision,
    Gold,
    ReviewItem,
    ReviewState,
    Skip,
)
from apps.review.queue import QueueFilters
from apps.review.services.decisions import Choice, grace
from apps.review.services.leases import Lease, is_gone, lease_time
from apps.review.statements import fetch_rows

# Second reviews are handed out faster than they arise, so that none waits for long.
CATCH_UP = 3
MOST_SECOND_TURNS = 0.5


@dataclass(frozen=True, slots=True)
class Shares:
    """Of decisions that are reviewed again, and of cards that have a known answer; 0 to 1."""

    second: float
    gold: float


def shares() -> Shares:
    found = fetch_rows("SELECT second_share, gold_share FROM review_checksettings WHERE id = 1", {})
    return Shares(*found[0]) if found else Shares(0.0, 0.0)


@transaction.atomic
def set_shares(user: User, wanted: Shares) -> None:
    """Change how much is checked.

    Raises:
        PermissionDenied: The user is no lead.
    """
    require(user, Permission.REVIEW_LEAD)
    before = shares()
    if before == wanted:
        return
    CheckSettings.objects.update_or_create(
        pk=1, defaults={"second_share": wanted.second, "gold_share": wanted.gold}
    )
    record(
        actor=Actor.of_user(user),
        action="checks.shares_set",
        target_type="checks",
        target_id="shares",
        before=asdict(before),
        after=asdict(wanted),
    )


def sample(decision: Decision) -> None:
    """Put a decision down for a second review, by the share that is set.

    Each decision has its own draw, the same each time, so that a repeated request gets no second
    one. Nobody can tell it beforehand.
    """
    if _draw(decision.pk) < shares().second:
        Check.objects.get_or_create(
            first=decision,
            defaults={
                "kind": CheckKind.SECOND,
                "item_id": decision.item_id,
                "due_at": decision.decided_at + grace(),
            },
        )


def _draw(decision_id: int) -> float:
    """A number from 0 to 1, known to whoever has the site's secret."""
    digest = salted_hmac("review.checks", str(decision_id)).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


# ---------- handing out ----------


def leased_to(user: User, now: datetime) -> Check | None:
    """The check that the user has open."""
    found = fetch_rows(_LEASED_TO, {"user": user.pk, "now": now})
    return Check.objects.select_related("item").get(pk=found[0][0]) if found else None


_LEASED_TO = """
SELECT id FROM review_check
WHERE moderator_id = %(user)s AND outcome = 'waiting' AND lease_until > %(now)s
ORDER BY id LIMIT 1
"""


def is_turn_of(user: User, now: datetime, *, chance: float | None = None) -> CheckKind | None:
    """Whether the next card shall be a check, and of which kind."""
    wanted = shares()
    if not wanted.second and not wanted.gold:
        return None
    drawn = random.random() if chance is None else chance  # noqa: S311
    if drawn < wanted.gold:
        return CheckKind.GOLD
    second_turns = min(wanted.second * CATCH_UP, MOST_SECOND_TURNS)
    return CheckKind.SECOND if drawn < wanted.gold + second_turns else None


@transaction.atomic
def take(user: User, kind: CheckKind, filters: QueueFilters, now: datetime) -> Lease | None:
    """Lease a check of this kind that the user may get, if there is one.

    Only one that the part of the queue could hold: anything else would give it away.
    """
    require(user, Permission.REVIEW)
    if _shows_none(filters):
        return None
    items = _unknown_to(user, filters)
    check = _second(user, items, now) if kind is CheckKind.SECOND else _gold(user, items, now)
    if check is None:
        return None
    if check.item.state != ReviewState.DECIDED or is_gone(check.item):
        check.outcome = CheckOutcome.VOID
        check.save(update_fields=["outcome"])
        return None
    return grant(check, user, now)


def _shows_none(filters: QueueFilters) -> bool:
    return filters.cause is not None or bool(filters.text)


def is_in(check: Check, filters: QueueFilters) -> bool:
    """Whether this part of the queue could hold the check."""
    item = check.item
    asked = (filters.label, filters.group_id, filters.language)
    pairs = zip(asked, (item.label, item.group_id, item.language), strict=True)
    return not _shows_none(filters) and all(want in (None, has) for want, has in pairs)


def _unknown_to(user: User, filters: QueueFilters) -> QuerySet[ReviewItem]:
    """Decided items that the user has neither decided nor just skipped."""
    own = Decision.objects.filter(item=OuterRef("pk"), moderator=user)
    skipped = Skip.objects.filter(item=OuterRef("pk"), moderator=user, until__gt=timezone.now())
    items = ReviewItem.objects.filter(~Exists(own), ~Exists(skipped), state=ReviewState.DECIDED)
    if not may(user, Permission.REVIEW_LEAD):
        items = items.filter(escalated_by__isnull=True)
    if filters.label is not None:
        items = items.filter(label=filters.label)
    if filters.group_id is not None:
        items = items.filter(group_id=filters.group_id)
    if filters.language is not None:
        items = items.filter(language=filters.language)
    return items


def _second(user: User, items: QuerySet[ReviewItem], now: datetime) -> Check | None:
    waiting = Check.objects.filter(
        Q(lease_until__isnull=True) | Q(lease_until__lte=now),
        kind=CheckKind.SECOND,
        outcome=CheckOutcome.WAITING,
        due_at__lte=now,
        first__undone_at__isnull=True,
        item__in=items,
    ).exclude(first__moderator=user)
    locked = waiting.select_for_update(skip_locked=True, of=("self",)).select_related("item")
    return locked.order_by("due_at").first()


def _gold(user: User, items: QuerySet[ReviewItem], now: datetime) -> Check | None:
    mine = Check.objects.filter(gold=OuterRef("pk"), moderator=user)
    answered = mine.exclude(outcome=CheckOutcome.WAITING)
    known = Gold.objects.filter(
        ~Exists(answered),
        item__in=items,
        item__message__deleted_at__isnull=True,
        retired_at__isnull=True,
    )
    chosen = known.exclude(made_by=user).order_by("?").first()
    if chosen is None:
        return None
    check, _ = Check.objects.get_or_create(
        gold=chosen,
        moderator=user,
        defaults={"kind": CheckKind.GOLD, "item_id": chosen.item_id, "due_at": now},
    )
    return check


def grant(check: Check, user: User, now: datetime) -> Lease:
    """Lease a check, again or for the first time.

    The lease's version is what it would be of an item of the queue: new, or open again after an
    answer was taken back. So it doesn't tell that the message has been decided.
    """
    check.moderator = user
    check.lease_token = uuid4()
    check.lease_until = now + lease_time()
    check.shown_at = check.shown_at or now
    check.save(update_fields=["moderator", "lease_token", "lease_until", "shown_at"])
    announce("leased", [check.item_id])
    taken_back = CheckAnswer.objects.filter(subject=check, moderator=user).count()
    return Lease(check.item_id, check.lease_token, 1 + 2 * taken_back, check.lease_until)


def extend(user: User, item_id: int, token: UUID, now: datetime) -> datetime | None:
    until = now + lease_time()
    held = _held(user, item_id, token)
    return until if held.update(lease_until=until) else None


def lease_end(user: User, item_id: int, token: UUID) -> datetime | None:
    return _held(user, item_id, token).values_list("lease_until", flat=True).first()


def release(user: User, item_id: int, token: UUID) -> bool:
    is_released = _held(user, item_id, token).update(lease_until=None, lease_token=None) == 1
    announce("released", [item_id] if is_released else [])
    return is_released


def release_all(user: User) -> int:
    open_ones = Check.objects.filter(moderator=user, outcome=CheckOutcome.WAITING)
    leased = list(open_ones.exclude(lease_token=None).values_list("pk", "item_id"))
    held = Check.objects.filter(pk__in=[pk for pk, _ in leased])
    held.update(lease_until=None, lease_token=None)
    announce("released", [item_id for _, item_id in leased])
    return len(leased)


def _held(user: User, item_id: int, token: UUID) -> QuerySet[Check]:
    return Check.objects.filter(
        item_id=item_id, moderator=user, lease_token=token, outcome=CheckOutcome.WAITING
    )


# ---------- answering ----------


def is_check(user: User, item_id: int, token: UUID) -> bool:
    """Whether a lease is (or was) on a check."""
    return (
        _held(user, item_id, token).exists()
        or CheckAnswer.objects.filter(moderator=user, lease_token=token).exists()
    )


@transaction.atomic
def answer(
    user: User, item_id: int, *, token: UUID, choice: Choice, now: datetime | None = None
) -> CheckAnswer:
    """Answer a check under its lease; the same request again returns the same answer.

    Raises:
        PermissionDenied: The user may not review.
        AlreadyDecidedError: The user answered it otherwise under this lease.
        LeaseLostError: Somebody else has it.
    """
    require(user, Permission.REVIEW)
    now = now or timezone.now()
    check = _held(user, item_id, token).select_for_update(of=("self",)).first()
    if check is None:
        return _repeated(user, token, choice)
    given = CheckAnswer.objects.create(
        id=_next_id(),
        subject=check,
        item_id=item_id,
        moderator=user,
        **choice.columns,
        lease_token=token,
        decided_at=now,
    )
    right = check.first or check.gold
    assert right is not None
    agrees = (right.action, right.label) == (given.action, given.label)
    check.outcome = CheckOutcome.AGREED if agrees else CheckOutcome.DISAGREED
    check.lease_token = check.lease_until = None
    check.save(update_fields=["outcome", "lease_token", "lease_until"])
    _audit("check.answered", check, user, given)
    announce("decided", [item_id])
    return given


def _repeated(user: User, token: UUID, choice: Choice) -> CheckAnswer:
    given = CheckAnswer.objects.filter(moderator=user, lease_token=token).first()
    if given is None:
        raise LeaseLostError(None)
    if (given.action, given.label) != (choice.action, choice.label):
        raise AlreadyDecidedError(given)
    return given


def _next_id() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval(pg_get_serial_sequence('review_decision', 'id'))")
        number: int = cursor.fetchone()[0]
    return number


@transaction.atomic
def undo_answer(user: User, answer_id: int, *, now: datetime | None = None) -> Lease | None:
    """Take one's own answer back within the grace time, as a decision is taken back.

    Raises:
        PermissionDenied: It is somebody else's.
        CheckAnswer.DoesNotExist: There is no such answer.
        UndoExpiredError: The grace time is over.
    """
    require(user, Permission.REVIEW)
    now = now or timezone.now()
    given = CheckAnswer.objects.select_for_update(of=("self",)).get(pk=answer_id)
    if given.moderator_id != user.pk:
        raise PermissionDenied(str(Permission.REVIEW))
    if given.undone_at is not None:
        return None
    if now - given.decided_at > grace():
        raise UndoExpiredError
    given.undone_at = now
    given.save(update_fields=["undone_at"])
    check = Check.objects.select_for_update(of=("self",)).get(pk=given.subject_id)
    check.outcome = CheckOutcome.WAITING
    check.save(update_fields=["outcome"])
    _audit("check.undone", check, user, given)
    announce("reopened", [check.item_id])
    return grant(check, user, now)


@transaction.atomic
def recall(user: User, item_id: int, token: UUID, *, now: datetime | None = None) -> Lease | None:
    """Take back the answer that was given under a lease, if it arrived, and have the check again.

    Raises:
        LeaseLostError: Somebody else has it meanwhile.
        UndoExpiredError: The grace time of the answer is over.
    """
    require(user, Permission.REVIEW)
    now = now or timezone.now()
    held = _held(user, item_id, token).select_for_update(of=("self",)).select_related("item")
    check = held.first()
    if check is not None:
        return grant(check, user, now)
    given = CheckAnswer.objects.filter(moderator=user, lease_token=token).first()
    if given is None or given.undone_at is not None:
        raise LeaseLostError(None)
    return undo_answer(user, given.pk, now=now)


def _audit(action: str, check: Check, user: User, given: CheckAnswer) -> None:
    record(
        actor=Actor.of_user(user),
        action=action,
        target_type="check",
        target_id=check.pk,
        after={
            "kind": check.kind,
            "message": check.item_id,
            "action": given.action,
            "label": given.label,
        },
    )
