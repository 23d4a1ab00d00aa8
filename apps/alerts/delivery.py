"""Sending notices: at least once, later again when it fails, and given up in sight of all."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from apps.alerts import channels
from apps.alerts.models import Notice

log = logging.getLogger(__name__)

MOST_ATTEMPTS = 8
FIRST_PAUSE_S = 10
SENT_AT_ONCE = 20


def deliver_due() -> int:
    """Send what is due. Two at once share the work.

    Returns:
        How many arrived.
    """
    arrived = 0
    for _ in range(SENT_AT_ONCE):
        notice = _take(timezone.now())
        if notice is None:
            break
        arrived += _send(notice)
    return arrived


@transaction.atomic
def _take(now: datetime) -> Notice | None:
    """The next one, its next attempt already set: who dies while sending loses nothing."""
    notice = (
        Notice.objects.select_for_update(skip_locked=True, of=("self",))
        .select_related("alert__rule")
        .filter(due_at__lte=now)
        .order_by("due_at")
        .first()
    )
    if notice is None:
        return None
    pause = timedelta(seconds=FIRST_PAUSE_S * 2**notice.attempts)
    notice.attempts += 1
    notice.due_at = now + pause if notice.attempts < MOST_ATTEMPTS else None
    notice.save(update_fields=["attempts", "due_at"])
    return notice


def _send(notice: Notice) -> bool:
    try:
        channels.send(notice, now=timezone.now())
    except OSError as error:
        notice.failure = type(error).__name__
        notice.save(update_fields=["failure"])
        log.warning("An alert could not be told by %s: %s", notice.channel, notice.failure)
        return False
    notice.sent_at, notice.due_at, notice.failure = timezone.now(), None, ""
    notice.save(update_fields=["sent_at", "due_at", "failure"])
    return True
