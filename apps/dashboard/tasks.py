from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from apps.dashboard.services import record_inflow


@shared_task(ignore_result=True, expires=5)
def sample_inflow() -> None:
    """Every second, from beat. A lost run is filled in by the next."""
    record_inflow(now=timezone.now())
