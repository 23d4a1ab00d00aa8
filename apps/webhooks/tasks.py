"""Periodic work on the outbox. Delivery to endpoints starts where an event is released."""

from __future__ import annotations

from celery import shared_task

from apps.webhooks.services import RELEASE_BATCH, drop_released, release_due


@shared_task
def release_outbox() -> None:
    """Release until nothing is due."""
    while len(release_due()) == RELEASE_BATCH:
        continue


@shared_task
def drop_old_events() -> None:
    drop_released()
