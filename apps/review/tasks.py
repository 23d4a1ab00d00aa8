"""Periodic work on the review queue."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from apps.review.services import erasure, retention, tally, waves, wellbeing

# Shorter than the half minute between two of these tasks, and than a warm shutdown waits.
RETENTION_FOR_S = 4.0
ERASURE_FOR_S = 4.0


@shared_task
def settle_tally() -> None:
    tally.settle()


@shared_task(ignore_result=True, expires=30)
def expire_messages() -> None:
    """Nothing without RETENTION_DAYS."""
    before = retention.cutoff(timezone.now())
    if before is not None:
        retention.expire(before=before, for_s=RETENTION_FOR_S)


@shared_task(ignore_result=True, expires=5)
def erase_senders() -> None:
    """Some of what is still to be erased; the rest next time."""
    erasure.carry_on(for_s=ERASURE_FOR_S)


@shared_task(ignore_result=True, expires=3600)
def forget_absent() -> None:
    """Senders and deletions whose messages are all gone. Likewise."""
    before = retention.cutoff(timezone.now())
    if before is not None:
        retention.forget_absent(before=before)


@shared_task
def sample_queue() -> None:
    tally.sample()


@shared_task
def forget_old_waves() -> None:
    """Until no old wave is left in which nobody waits."""
    while waves.forget_old() == waves.FORGET_BATCH:
        continue


@shared_task(ignore_result=True, expires=3600)
def forget_old_exposures() -> None:
    wellbeing.forget_old_exposures()
