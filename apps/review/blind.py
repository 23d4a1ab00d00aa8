"""Cards and queue as somebody sees them who has a blind check: as if the message had just come.

What was decided, by whom, when, and that anything was, is taken out; nothing is put in its place
that isn't so but for the times, which are moved together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from apps.accounts.models import User
from apps.core.cutting import cut_whole
from apps.policies.models import Action, Label
from apps.review import selectors
from apps.review.conversation import Conversation, SeenMessage
from apps.review.models import Cause, Check, CheckOutcome, ReviewItem, ReviewState
from apps.review.queue import QueueFilters
from apps.review.queue_page import ROW_CHARS, Holder, QueuePage, QueueRow
from apps.review.queue_page import queue_page as queue_page_of
from apps.review.ranking import level, rank
from apps.review.selectors import Card
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
    judged = next(seen for seen in shown.rows if seen.is_judged)
    return replace(shown, rows=_moved(shown.rows, _shift(check, judged.received_at)))


def _check_of(user: User, item_id: int, now: datetime) -> Check | None:
    fresh = Q(answers__undone_at=None, answers__decided_at__gt=now - grace())
    own = Check.objects.filter(item_id=item_id, moderator=user, shown_at__isnull=False)
    return own.filter(Q(outcome=CheckOutcome.WAITING) | fresh).first()


def _blinded(shown: Card, check: Check, now: datetime) -> Card:
    item, message = shown.item, shown.message
    was_removed = shown.decision is not None and shown.decision.action == Action.REMOVE
    shift = _shift(check, message.received_at)
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
        context=_moved(shown.context, shift),
        history=_moved(shown.history, shift),
        sender=replace(shown.sender, removed=max(shown.sender.removed - was_removed, 0)),
    )


def _unappeal(item: ReviewItem, verdict: Verdict | None) -> None:
    """Cause and label as before anybody appealed; those of an appeal are of a decision."""
    if item.cause != Cause.APPEALED:
        return
    item.cause = Cause.REPORTED if item.reports else Cause.FLAGGED
    item.label = None if verdict is None else verdict.acting_label or verdict.label


def _moved(rows: Sequence[SeenMessage], shift: timedelta) -> list[SeenMessage]:
    """At other times, and without what was decided of the message that is judged."""
    return [
        replace(
            seen,
            received_at=seen.received_at + shift,
            decision=None if seen.is_judged else seen.decision,
        )
        for seen in rows
    ]


def _shift(check: Check, received_at: datetime) -> timedelta:
    seeming = (check.shown_at or timezone.now()) - SEEMING_WAIT
    return max(seeming - received_at, timedelta(0))


def _move(shown: Card, shift: timedelta) -> None:
    for message in (shown.message, *shown.earlier):
        message.received_at += shift
    for report in shown.reports:
        report.reported_at += shift
    shown.item.opened_at += shift


def queue_page(user: User, filters: QueueFilters, *, now: datetime | None = None) -> QueuePage:
    """The queue with the user's own check as a row that they have; counts are the queue's."""
    now = now or timezone.now()
    page = queue_page_of(user, filters, now=now)
    check = checks.leased_to(user, now)
    if check is None or not page.rows or not checks.is_in(check, filters):
        return page
    row = _row(check, user, now)
    place = sum(other.rank > row.rank for other in page.rows)
    rows = [*page.rows[:place], row, *page.rows[place:]]
    return replace(page, rows=rows, leased=page.leased + 1)


def _row(check: Check, user: User, now: datetime) -> QueueRow:
    found = ReviewItem.objects.select_related("group", "message").defer("grams")
    item = found.get(pk=check.item_id)
    if item.cause == Cause.APPEALED:
        _unappeal(item, Verdict.objects.filter(message=item.pk).order_by("created_at").last())
    opened_at = max(item.opened_at, (check.shown_at or now) - SEEMING_WAIT)
    seeming_rank = rank(item.priority, opened_at)
    return QueueRow(
        item_id=item.pk,
        label=Label(item.label) if item.label else None,
        group=str(item.group),
        text=cut_whole(item.message.text, ROW_CHARS),
        rank=seeming_rank,
        level=level(seeming_rank, now),
        opened_at=opened_at,
        reports=item.reports,
        is_escalated=item.escalated_by_id is not None,
        holder=Holder(user.pk, user.get_username()),
    )
