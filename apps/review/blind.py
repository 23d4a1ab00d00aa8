"""Cards and queue as somebody sees them who has a blind check: as if the message had just come.

What was decided, by whom, when, and that anything was, is taken out; nothing is put in its place
that isn't so but for the times, which are moved together.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from django.db.models import Q
from django.db.models.functions import Left
from django.utils import timezone

from apps.accounts.models import User
from apps.chat.models import Message
from apps.policies.models import Action
from apps.review import selectors
from apps.review.models import Cause, Check, CheckOutcome, ReviewItem, ReviewState
from apps.review.queue import QueueFilters
from apps.review.ranking import level, rank
from apps.review.selectors import ROW_CHARS, Card, Conversation, QueuePage, QueueRow, SeenMessage
from apps.review.services import checks
from apps.review.services.decisions import grace
from apps.scoring.models import Verdict

# How long a checked message seems to have waited when it was first shown.
SEEMING_WAIT = timedelta(seconds=90)


def card(user: User, item_id: int, *, now: datetime) -> Card:
    """The card, blinded if the user has a check of it, or may still take the answer back.

    Raises:
        ReviewItem.DoesNotExist: There is no such item.
    """
    shown = selectors.card(user, item_id, now=now)
    if shown.item.state != ReviewState.DECIDED:
        return shown
    check = _check_of(user, item_id, now)
    return shown if check is None else _blinded(shown, check, now)


def conversation(user: User, item_id: int, each: int) -> Conversation:
    """More of what was said around a message, blinded likewise.

    Raises:
        ReviewItem.DoesNotExist: There is no such item.
    """
    shown = selectors.conversation(item_id, each)
    check = _check_of(user, item_id, timezone.now())
    if check is None:
        return shown
    judged = next(seen.message for seen in shown.rows if seen.is_judged)
    shift = _shift(check, judged)
    for seen in shown.rows:
        seen.message.received_at += shift
    return replace(shown, rows=[_unjudged(seen) for seen in shown.rows])


def _check_of(user: User, item_id: int, now: datetime) -> Check | None:
    fresh = Q(answers__undone_at=None, answers__decided_at__gt=now - grace())
    own = Check.objects.filter(item_id=item_id, moderator=user, shown_at__isnull=False)
    return own.filter(Q(outcome=CheckOutcome.WAITING) | fresh).first()


def _blinded(shown: Card, check: Check, now: datetime) -> Card:
    item, message = shown.item, shown.message
    was_removed = shown.decision is not None and shown.decision.action == Action.REMOVE
    shift = _shift(check, message)
    _move(shown, shift)
    item.state = ReviewState.OPEN
    _unappeal(item, shown.verdict)
    return replace(
        shown,
        decision=None,
        appeal=None,
        holder=None,
        suggestion=selectors.suggestion(item, shown.verdict),
        level=level(rank(item.priority, item.opened_at), now),
        context=[_unjudged(seen) for seen in shown.context],
        sender=replace(shown.sender, removed=max(shown.sender.removed - was_removed, 0)),
    )


def _unappeal(item: ReviewItem, verdict: Verdict | None) -> None:
    """Cause and label as before anybody appealed; those of an appeal are of a decision."""
    if item.cause != Cause.APPEALED:
        return
    item.cause = Cause.REPORTED if item.reports else Cause.FLAGGED
    item.label = None if verdict is None else verdict.acting_label or verdict.label


def _unjudged(seen: SeenMessage) -> SeenMessage:
    return replace(seen, decision=None) if seen.is_judged else seen


def _shift(check: Check, message: Message) -> timedelta:
    seeming = (check.shown_at or timezone.now()) - SEEMING_WAIT
    return max(seeming - message.received_at, timedelta(0))


def _move(shown: Card, shift: timedelta) -> None:
    around = [seen.message for seen in [*shown.context, *shown.history]]
    messages = {id(m): m for m in [shown.message, *around, *shown.earlier]}
    for message in messages.values():
        message.received_at += shift
    for report in shown.reports:
        report.reported_at += shift
    shown.item.opened_at += shift


def queue_page(user: User, filters: QueueFilters, *, now: datetime | None = None) -> QueuePage:
    """The queue with the user's own check as a row that they have; counts are the queue's."""
    now = now or timezone.now()
    page = selectors.queue_page(user, filters, now=now)
    check = checks.leased_to(user, now)
    if check is None or not page.rows or not checks.is_in(check, filters):
        return page
    item = (
        ReviewItem.objects.select_related("group")
        .annotate(line=Left("message__text", ROW_CHARS))
        .get(pk=check.item_id)
    )
    if item.cause == Cause.APPEALED:
        _unappeal(item, Verdict.objects.filter(message=item.pk).order_by("created_at").last())
    item.opened_at = max(item.opened_at, (check.shown_at or now) - SEEMING_WAIT)
    item.rank = rank(item.priority, item.opened_at)
    row = QueueRow(item=item, text=item.line, level=level(item.rank, now), holder=user)
    place = sum(other.item.rank > item.rank for other in page.rows)
    rows = [*page.rows[:place], row, *page.rows[place:]]
    return replace(page, rows=rows, leased=page.leased + 1)
