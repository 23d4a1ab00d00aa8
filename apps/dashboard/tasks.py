from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from apps.dashboard.events import record_events
from apps.dashboard.rollups import roll_up
from apps.dashboard.selectors import database_now
from apps.dashboard.services import record_inflow
from apps.dashboard.totals import fold_totals


@shared_task(ignore_result=True, expires=5)
def sample_inflow() -> None:
    """Every second, from beat. A lost run is filled in by the next."""
    record_inflow(now=timezone.now())


@shared_task(ignore_result=True, expires=10)
def fold_metric_totals() -> None:
    """Every ten seconds, from beat: keeps what a scrape has to add up short."""
    fold_totals(now=database_now())


@shared_task(ignore_result=True, expires=10)
def roll_up_history() -> None:
    """Every ten seconds, from beat. A lost run is made good by the next."""
    roll_up(now=database_now())


@shared_task(ignore_result=True, expires=5)
def record_operational_events() -> None:
    """Every second, from beat. After a lost run the next writes what still differs."""
    record_events(now=database_now())
