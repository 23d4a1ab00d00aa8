"""Celery's part: tasks that say "look now". Each may run twice, late, or never."""

from __future__ import annotations

import logging
from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutting_down
from django.db import Error as DatabaseError

from apps.scoring.claims import has_due_chunks
from apps.scoring.hints import hint_scoring
from apps.scoring.model_orders import carry_out_orders
from apps.scoring.worker import stop_worker, this_worker

log = logging.getLogger(__name__)


@shared_task(ignore_result=True)
def drain_pending() -> None:
    """Judge what is due, for some seconds at most; asks for another look when there is more."""
    try:
        if this_worker().on_task() and has_due_chunks():
            hint_scoring()
    except DatabaseError as error:
        # Claims are left to their leases; the next hint or the watching thread goes on.
        log.warning("Scoring stopped: %s", type(error).__name__)


@shared_task(ignore_result=True, expires=1.0)
def hint_if_due() -> None:
    """Every second: a lost hint costs no more than that."""
    try:
        if has_due_chunks():
            hint_scoring()
    except DatabaseError as error:
        log.warning("The backlog could not be looked at: %s", type(error).__name__)


@shared_task(ignore_result=True, expires=1.0)
def carry_out_model_orders() -> None:
    """Every second: load and unload what operators want."""
    carry_out_orders(this_worker().client)


# Not `worker_process_init`: with threads there is one process, and it must not fork any more.
@worker_ready.connect
def begin(**_: Any) -> None:
    """Be seen from the start, not from the first message on."""
    this_worker()


@worker_shutting_down.connect
def end(**_: Any) -> None:
    """Claim nothing more; Celery waits for the drain that is running."""
    stop_worker()
