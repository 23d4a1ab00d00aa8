"""Alerts on the operator's time line."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Q

from apps.alerts.figures import Figure
from apps.alerts.models import Alert
from apps.dashboard.events import MOST_EVENTS, Shown


def alert_events(since: datetime, until: datetime) -> Iterable[Shown]:
    """Those that fired in the window, and those that still held in it."""
    held = Q(resolved_at=None) | Q(resolved_at__gte=since)
    found = Alert.objects.filter(held, fired_at__lt=until).select_related("rule")
    return [
        Shown(
            lane="alert",
            at_s=alert.fired_at.timestamp(),
            until_s=None if alert.resolved_at is None else alert.resolved_at.timestamp(),
            words=str(Figure(alert.rule.figure).label),
            look="down",
            reason="" if alert.value is None else f"{alert.value:g}",
        )
        for alert in found.order_by("-fired_at")[:MOST_EVENTS]
    ]
