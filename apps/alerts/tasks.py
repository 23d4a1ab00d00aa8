from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from apps.alerts.clocks import read_clock
from apps.alerts.delivery import deliver_due
from apps.alerts.selectors import read_figures
from apps.alerts.services import drop_old_alerts, evaluate


@shared_task(ignore_result=True, expires=5)
def look_at_figures() -> None:
    """Every few seconds, from beat."""
    read_clock("worker")
    now = timezone.now()
    evaluate(read_figures(now=now), now=now)


@shared_task(ignore_result=True, expires=5)
def tell_alerts() -> None:
    """Every few seconds, from beat: apart from the look, so that a slow receiver delays none."""
    deliver_due()


@shared_task(ignore_result=True)
def forget_old_alerts() -> None:
    drop_old_alerts(now=timezone.now())
