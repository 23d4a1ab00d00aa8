"""Looking at the figures, and what people may change: rules and silence."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.alerts.channels import open_channels
from apps.alerts.figures import DEFAULTS, Figure
from apps.alerts.judging import Phase, judge
from apps.alerts.models import LARGEST, LONGEST_S, Alert, AlertRule, Notice
from apps.audit.services import Actor, record
from apps.core import realtime

SILENCES_MIN = (10, 60, 480)
HISTORY_KEPT_FOR = timedelta(days=90)


class RuleError(Exception):
    """Limits out of bounds or on the wrong sides of each other; nothing was written."""


def ensure_rules() -> None:
    """Write the rule that each figure starts with, where it has none: a new version may bring
    figures."""
    AlertRule.objects.bulk_create(
        [
            AlertRule(
                figure=figure,
                is_on=each.is_on,
                limit=each.limit,
                clear_at=each.clear_at,
                for_s=each.for_s,
                clear_for_s=each.clear_for_s,
            )
            for figure, each in DEFAULTS.items()
        ],
        ignore_conflicts=True,
    )


@transaction.atomic
def evaluate(readings: Mapping[Figure, float | None], *, now: datetime) -> list[Alert]:
    """Look at every rule that is on. Two at once do no harm: the second waits, then looks too.

    Args:
        readings: Every figure's value, None where it can't be told.
        now: When they were read.

    Returns:
        The alerts that began or ended.
    """
    ensure_rules()
    changed = []
    for rule in AlertRule.objects.select_for_update().filter(is_on=True).order_by("pk"):
        if rule.looked_at is not None and now <= rule.looked_at:
            continue
        alert = _look(rule, readings.get(Figure(rule.figure)), now)
        if alert is not None:
            changed.append(alert)
    if changed:
        realtime.publish(realtime.OPERATE, "alerts", ids=[alert.pk for alert in changed])
    return changed


def _look(rule: AlertRule, value: float | None, now: datetime) -> Alert | None:
    before = Phase(rule.phase)
    course = judge(rule.condition, rule.course, value, now)
    rule.phase, rule.phase_since = course.phase, course.since
    rule.looked_at, rule.value = now, value
    rule.save()
    if course.phase.is_alert and not before.is_alert:
        alert = Alert.objects.create(rule=rule, fired_at=now, value=value, limit=rule.limit)
        _tell(rule, alert, now)
        return alert
    if before.is_alert and not course.phase.is_alert:
        return _resolve(rule, now)
    if course.phase.is_alert:
        # Silence may have ended since it fired.
        _tell(rule, _open_alert(rule), now)
    return None


def _open_alert(rule: AlertRule) -> Alert:
    return rule.alerts.get(resolved_at__isnull=True)


def _tell(rule: AlertRule, alert: Alert, now: datetime) -> None:
    is_silenced = rule.silenced_until is not None and now < rule.silenced_until
    if alert.is_told or is_silenced:
        return
    alert.is_told = True
    alert.save(update_fields=["is_told"])
    _notify(alert, is_resolved=False)


def _resolve(rule: AlertRule, now: datetime) -> Alert:
    alert = _open_alert(rule)
    alert.resolved_at = now
    alert.save(update_fields=["resolved_at"])
    # Who was not told that it began need not hear that it is over.
    if alert.is_told:
        _notify(alert, is_resolved=True)
    return alert


def _notify(alert: Alert, *, is_resolved: bool) -> None:
    Notice.objects.bulk_create(
        Notice(alert=alert, channel=channel, is_resolved=is_resolved) for channel in open_channels()
    )


def drop_old_alerts(*, now: datetime) -> int:
    """Delete alerts that ended long ago; returns how many rows went."""
    return Alert.objects.filter(resolved_at__lt=now - HISTORY_KEPT_FOR).delete()[0]


# ---------- what people change ----------


@transaction.atomic
def change_rule(
    user: User,
    figure: Figure,
    *,
    is_on: bool,
    limit: float,
    clear_at: float,
    for_s: int,
    clear_for_s: int,
) -> AlertRule:
    """Change one rule. It starts afresh: what fires by the old rule is over.

    Args:
        user: Who changes it.
        figure: Whose rule.
        is_on: Whether it is looked at.
        limit: Past which it fires, in the figure's unit.
        clear_at: Past which it is over: on the other side of `limit`, or the same.
        for_s: How long it must be past the limit, seconds, up to `LONGEST_S`.
        clear_for_s: How long it must be back, seconds, up to `LONGEST_S`.

    Raises:
        PermissionDenied: The user may not act on the machinery.
        RuleError: A value is out of bounds, or the two limits cross.
    """
    require(user, Permission.OPERATE_ACT)
    _check(DEFAULTS[figure].is_below, limit, clear_at, for_s, clear_for_s)
    ensure_rules()
    rule = AlertRule.objects.select_for_update().get(figure=figure)
    before = _shown(rule)
    rule.is_on, rule.limit, rule.clear_at = is_on, limit, clear_at
    rule.for_s, rule.clear_for_s = for_s, clear_for_s
    if _shown(rule) == before:
        return rule
    if Phase(rule.phase).is_alert:
        _resolve(rule, timezone.now())
    rule.phase, rule.phase_since = Phase.CALM, None
    rule.save()
    _audit(user, "alert_rule.changed", rule, before)
    return rule


@transaction.atomic
def silence(user: User, figure: Figure, *, minutes: int) -> AlertRule:
    """Tell nobody of this rule's alerts for so long; 0 ends the silence. It is looked at as ever.

    Raises:
        PermissionDenied: The user may not act on the machinery.
        RuleError: `minutes` is neither 0 nor one of `SILENCES_MIN`.
    """
    require(user, Permission.OPERATE_ACT)
    if minutes not in {0, *SILENCES_MIN}:
        raise RuleError(minutes)
    ensure_rules()
    rule = AlertRule.objects.select_for_update().get(figure=figure)
    before = _shown(rule)
    rule.silenced_until = timezone.now() + timedelta(minutes=minutes) if minutes else None
    rule.save(update_fields=["silenced_until"])
    _audit(user, "alert_rule.silenced", rule, before)
    return rule


def _check(is_below: bool, limit: float, clear_at: float, for_s: int, clear_for_s: int) -> None:
    # A NaN fails every comparison, so this refuses it too.
    is_bounded = all(0 <= value <= LARGEST for value in (limit, clear_at))
    is_apart = limit <= clear_at if is_below else clear_at <= limit
    if not (is_bounded and is_apart and 0 <= for_s <= LONGEST_S and 0 <= clear_for_s <= LONGEST_S):
        raise RuleError


def _shown(rule: AlertRule) -> dict[str, object]:
    until = rule.silenced_until
    return {
        "is_on": rule.is_on,
        "limit": rule.limit,
        "clear_at": rule.clear_at,
        "for_s": rule.for_s,
        "clear_for_s": rule.clear_for_s,
        "silenced_until": None if until is None else until.isoformat(timespec="seconds"),
    }


def _audit(user: User, action: str, rule: AlertRule, before: dict[str, object]) -> None:
    record(
        actor=Actor.of_user(user),
        action=action,
        target_type="alert_rule",
        target_id=rule.figure,
        before=before,
        after=_shown(rule),
    )
    realtime.publish(realtime.OPERATE, "alerts")
