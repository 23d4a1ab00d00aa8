"""Periodic work on the review queue."""

from __future__ import annotations

from celery import shared_task

from apps.review.services import tally


@shared_task
def settle_tally() -> None:
    tally.settle()
