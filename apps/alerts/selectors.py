"""What the console shows of alerts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Prefetch
from django.utils import timezone
from django.utils.functional import Promise

from apps.alerts.clocks import worst_skew_s
from apps.alerts.figures import DEFAULTS, Figure, readings
from apps.alerts.forms import RuleForm
from apps.alerts.judging import Phase
from apps.alerts.models import Alert, AlertRule, Notice
from apps.dashboard.figures import STAGE_WINDOW_S, make_figures
from apps.dashboard.selectors import read_backlog, read_inflow
from apps.scoring.samples import read_samples

HISTORY_ROWS = 50


def read_figures(*, now: datetime) -> dict[Figure, float | None]:
    """All that rules may watch, read now: what the operator's page shows, without its history."""
    samples = read_samples(now - timedelta(seconds=STAGE_WINDOW_S))
    return readings(
        make_figures(samples, now=now),
        read_backlog(now=now),
        read_inflow(now=now),
        worst_skew_s(),
    )


@dataclass(frozen=True, slots=True)
class RuleView:
    """One rule. `shape` is the state mark beside its word."""

    rule: AlertRule
    form: RuleForm
    meaning: Promise
    is_silenced: bool

    @property
    def shape(self) -> str:
        if not self.rule.is_on:
            return "idle"
        return _SHAPES[Phase(self.rule.phase)]


_SHAPES = {
    Phase.CALM: "healthy",
    Phase.PENDING: "half-open",
    Phase.FIRING: "down",
    Phase.CLEARING: "half-open",
}


def rule_views(sent: RuleForm | None = None, figure: str = "") -> list[RuleView]:
    """All rules; the one of `figure` with the form as it was sent."""
    now = timezone.now()
    return [
        RuleView(
            rule=rule,
            form=sent if sent is not None and rule.figure == figure else RuleForm(rule),
            meaning=DEFAULTS[Figure(rule.figure)].meaning,
            is_silenced=rule.silenced_until is not None and now < rule.silenced_until,
        )
        for rule in AlertRule.objects.order_by("pk")
    ]


def firing() -> list[Alert]:
    """Alerts that go on and are not silenced, the oldest first."""
    now = timezone.now()
    open_alerts = Alert.objects.filter(resolved_at__isnull=True).select_related("rule")
    return [
        alert
        for alert in open_alerts.order_by("fired_at")
        if alert.rule.silenced_until is None or alert.rule.silenced_until <= now
    ]


def history() -> Sequence[Alert]:
    """The newest alerts with their notices."""
    notices = Prefetch("notices", Notice.objects.order_by("channel", "is_resolved"))
    return list(
        Alert.objects.select_related("rule")
        .prefetch_related(notices)
        .order_by("-fired_at")[:HISTORY_ROWS]
    )
