"""Who has which item. A lease is a token and an end; a new token fences the old one out.

Leases are passing state and are not audited: what people do to messages is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import Actor, record
from apps.review.announce import announce
from apps.review.errors import (
    AlreadyDecidedError,
    ItemWithdrawnError,
    LeaseLostError,
    OwnDecisionError,
)
from apps.review.models import Decision, ReviewItem, ReviewState, Skip
from apps.review.queue import Part, QueueFilters, free_part, part_of
from apps.review.services.intake import close
from apps.review.services.joint import gone_ids
from apps.review.services.waves import is_alone, leased_sibling, lock_for_lease

# How long a skipped item stays away from whoever skipped it.
SKIP_REST = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to decide one item, until `until`."""

    item_id: int
    token: UUID
    version: int
    until: datetime


@transaction.atomic
def open_next(
    user: User,
    filters: QueueFilters | None = None,
    *,
    besides: Sequence[int] = (),
    resume: bool = True,
    now: datetime | None = None,
) -> Lease | None:
    """Lease the most urgent free item, or None when there is none.

    An item that the user already has comes first (a page that was loaded again), with a new
    token, so that the older page can no longer write.

    Args:
        user: Who asks.
        filters: The part of the queue to take from.
        besides: Items that the user has open and keeps.
        resume: Whether an item that the user has comes first. A page that fetches ahead must not
            take the token of the card it shows, which an undo may have put there meanwhile.
        now: The present; the clock's if left out.

    Raises:
        PermissionDenied: The user may not review.
    """
    require(user, Permission.REVIEW)
    now = now or timezone.now()
    part = part_of(user, filters or QueueFilters())
    if besides:
        part = part.narrowed(_IS_NOT_BESIDE, besides=list(besides))
    busy_waves: list[int] = []
    while item := _lock_first(part, busy_waves, user, now, resume=resume):
        if is_gone(item):
            close(item, ReviewState.WITHDRAWN)
            announce("withdrawn", [item.pk])
        elif _take_wave(item, user, now, wait=False):
            return _grant(item, user, now)
        elif item.wave_id is not None:
            busy_waves.append(item.wave_id)
    return None


def _take_wave(item: ReviewItem, user: User, now: datetime, *, wait: bool) -> bool:
    """Whether the item's lease can stand for its whole wave, whose other leases then end.

    Locks the wave until the lease is stored; nothing, when the item is alone.
    """
    if is_alone(user, item):
        return True
    if not lock_for_lease(item, wait=wait):
        return False
    sibling = leased_sibling(item, now)
    if sibling is not None and sibling.leased_by_id != user.pk:
        return False
    return _end_other_leases(item, wait=wait)


def _end_other_leases(item: ReviewItem, *, wait: bool) -> bool:
    """End what leases there are on other members, most of which ran out long ago.

    Whoever withdraws items locks them by their ids, without their wave. So does a caller who may
    wait, the item itself included; one who has locked it already waits for none of the others,
    and is told when somebody is at one of them.
    """
    leased = ReviewItem.objects.filter(
        wave=item.wave_id, state=ReviewState.OPEN, leased_by__isnull=False
    )
    if wait:
        both = leased | ReviewItem.objects.filter(pk=item.pk)
        list(both.order_by("pk").select_for_update(of=("self",)).values_list("pk"))
    others = leased.exclude(pk=item.pk)
    there = set(others.values_list("pk", flat=True))
    if not there:
        return True
    free = others.filter(pk__in=there).order_by("pk")
    locked = free.select_for_update(of=("self",), skip_locked=not wait)
    if set(locked.values_list("pk", flat=True)) < there:
        return False
    _release(ReviewItem.objects.filter(pk__in=there))
    return True


_IS_NOT_BESIDE = """
item.message_id <> ALL(%(besides)s)
AND (item.wave_id IS NULL OR item.wave_id NOT IN (
  SELECT wave_id FROM review_reviewitem
  WHERE message_id = ANY(%(besides)s) AND wave_id IS NOT NULL
))
"""
_IS_OWN = "item.leased_by_id = %(user)s AND item.lease_until > %(now)s"
_IS_OF_NO_BUSY_WAVE = "(item.wave_id IS NULL OR item.wave_id <> ALL(%(busy_waves)s))"
_LOCK_FIRST = """
SELECT {columns} FROM review_reviewitem AS item WHERE {part}
ORDER BY item.rank DESC, item.message_id LIMIT 1 FOR UPDATE OF item SKIP LOCKED
"""


def _lock_first(
    part: Part, busy_waves: Sequence[int], user: User, now: datetime, *, resume: bool
) -> ReviewItem | None:
    """The user's own item or the first free one; what others are just taking is passed over."""
    if busy_waves:
        part = part.narrowed(_IS_OF_NO_BUSY_WAVE, busy_waves=list(busy_waves))
    own = _locked(part.narrowed(_IS_OWN, user=user.pk, now=now)) if resume else None
    return own or _locked(free_part(part, user, now))


def _locked(part: Part) -> ReviewItem | None:
    # All but what a search finds it by, which may be thousands of numbers.
    columns = [f.column for f in ReviewItem._meta.concrete_fields if f.name != "grams"]
    sql = _LOCK_FIRST.format(columns=", ".join(f"item.{one}" for one in columns), part=part.sql)
    return next(iter(ReviewItem.objects.raw(sql, part.parameters)), None)


@transaction.atomic
def open_item(user: User, item_id: int, *, now: datetime | None = None) -> Lease:
    """Lease one item by choice, even one that the user skipped, and with it its wave.

    Raises:
        PermissionDenied: The user may not review (or it went up to a lead).
        ReviewItem.DoesNotExist: There is no such item.
        LeaseLostError: Somebody else has it, or another member of its wave.
        AlreadyDecidedError: It is decided.
        ItemWithdrawnError: Its message is gone.
    """
    require(user, Permission.REVIEW)
    now = now or timezone.now()
    shown = ReviewItem.objects.only("pk", "wave_id").get(pk=item_id)
    is_ours = _take_wave(shown, user, now, wait=True)
    item = lock_open(user, item_id)
    if item.leased_by_id not in (None, user.pk) and _is_leased(item, now):
        raise LeaseLostError(item.leased_by)
    if not is_ours:
        sibling = leased_sibling(item, now)
        raise LeaseLostError(sibling.leased_by if sibling else None)
    Skip.objects.filter(item=item, moderator=user).delete()
    return _grant(item, user, now)


def extend_lease(
    user: User, item_id: int, token: UUID, *, now: datetime | None = None
) -> datetime | None:
    """Give the lease its full time again; returns its end, or None if it is not the user's."""
    require(user, Permission.REVIEW)
    until = (now or timezone.now()) + lease_time()
    held = ReviewItem.objects.filter(
        pk=item_id, state=ReviewState.OPEN, leased_by=user, lease_token=token
    )
    return until if held.update(lease_until=until) else None


def lease_end(user: User, item_id: int, token: UUID) -> datetime | None:
    """When the user's lease ends, or ended; None if it is not theirs any more."""
    require(user, Permission.REVIEW)
    held = ReviewItem.objects.filter(
        pk=item_id, state=ReviewState.OPEN, leased_by=user, lease_token=token
    )
    return held.values_list("lease_until", flat=True).first()


@transaction.atomic
def release_lease(user: User, item_id: int, token: UUID) -> bool:
    """Give an item back. False when the lease was not the user's any more."""
    require(user, Permission.REVIEW)
    return _release(ReviewItem.objects.filter(pk=item_id, leased_by=user, lease_token=token)) == 1


@transaction.atomic
def release_all(user: User) -> int:
    """Give back everything the user has open, as at sign-out; returns how much that was."""
    return _release(ReviewItem.objects.filter(state=ReviewState.OPEN, leased_by=user))


def _release(items: QuerySet[ReviewItem]) -> int:
    released = list(items.select_for_update().values_list("pk", flat=True))
    ReviewItem.objects.filter(pk__in=released).update(
        leased_by=None, lease_token=None, lease_until=None
    )
    announce("released", released)
    return len(released)


@transaction.atomic
def skip(user: User, item_id: int, token: UUID, *, now: datetime | None = None) -> None:
    """Give an item back and keep it away from the user for `SKIP_REST`.

    Raises:
        PermissionDenied: The user may not review.
        LeaseLostError: The user doesn't have it.
        AlreadyDecidedError: It is decided.
        ItemWithdrawnError: Its message is gone.
    """
    require(user, Permission.REVIEW)
    now = now or timezone.now()
    item = lock_open(user, item_id)
    if item.lease_token != token:
        raise LeaseLostError(item.leased_by)
    Skip.objects.update_or_create(item=item, moderator=user, defaults={"until": now + SKIP_REST})
    record(
        actor=Actor.of_user(user),
        action="review.skipped",
        target_type="review_item",
        target_id=item.pk,
    )
    _release(ReviewItem.objects.filter(pk=item.pk))


@transaction.atomic
def forget_skips(user: User) -> int:
    """Let the user's skipped items come back; returns how many."""
    require(user, Permission.REVIEW)
    return Skip.objects.filter(moderator=user).delete()[0]


def lease_time() -> timedelta:
    return timedelta(seconds=settings.REVIEW_LEASE_S)


def lock_open(user: User, item_id: int) -> ReviewItem:
    """Lock an item that can still be decided and that `user` may see.

    Raises:
        ReviewItem.DoesNotExist: There is no such item.
        PermissionDenied: It went up to a lead.
        OwnDecisionError: It is an appeal against the user's own decision.
        AlreadyDecidedError: It is decided.
        ItemWithdrawnError: Its message is gone.
    """
    item = ReviewItem.objects.select_for_update(of=("self",)).get(pk=item_id)
    if item.escalated_by_id is not None:
        require(user, Permission.REVIEW_LEAD)
    if item.barred_id == user.pk and item.state == ReviewState.OPEN:
        raise OwnDecisionError
    if item.state == ReviewState.DECIDED:
        raise AlreadyDecidedError(standing_decision(item))
    if item.state == ReviewState.WITHDRAWN or is_gone(item):
        raise ItemWithdrawnError
    return item


def standing_decision(item: ReviewItem) -> Decision:
    return Decision.objects.select_related("moderator").get(item=item, undone_at__isnull=True)


def is_gone(item: ReviewItem) -> bool:
    """Whether the message was deleted or has a newer revision."""
    return bool(gone_ids([item.pk]))


def _grant(item: ReviewItem, user: User, now: datetime) -> Lease:
    item.leased_by = user
    item.lease_token = uuid4()
    item.lease_until = now + lease_time()
    if item.first_leased_at is None or item.first_leased_at < item.opened_at:
        item.first_leased_at = now
    item.save(update_fields=["leased_by", "lease_token", "lease_until", "first_leased_at"])
    announce("leased", [item.pk])
    return Lease(item.pk, item.lease_token, item.version, item.lease_until)


def _is_leased(item: ReviewItem, now: datetime) -> bool:
    return item.lease_until is not None and item.lease_until > now


def regrant(item: ReviewItem, user: User, now: datetime) -> Lease:
    """Lease an item, which the caller has locked, to whoever took its decision back."""
    return _grant(item, user, now)
