"""Alerts begin, end, are silenced and kept; rules are changed by those who may."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.utils import timezone
from pytest_django.fixtures import Settings

from apps.accounts.models import Role, User
from apps.alerts.clocks import measure_ahead_s, worst_skew_s, write_reading
from apps.alerts.figures import DEFAULTS, Figure
from apps.alerts.models import Alert, AlertRule, Channel, Notice
from apps.alerts.selectors import read_figures
from apps.alerts.services import (
    RuleError,
    change_rule,
    drop_old_alerts,
    ensure_rules,
    evaluate,
    silence,
)
from apps.alerts.tasks import look_at_figures
from apps.audit.models import AuditEvent
from apps.dashboard import selectors
from tests.dashboard.samples import replica, sample, store
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db

FIGURE = Figure.OLDEST_PENDING
RULE = {"is_on": True, "limit": 60.0, "clear_at": 30.0, "for_s": 5, "clear_for_s": 15}


@pytest.fixture(autouse=True)
def _told_by_webhook(settings: Settings) -> None:
    selectors.forget_cached()
    settings.ALERT_WEBHOOK_URL = "https://alerts.example/hook"
    settings.ALERT_EMAIL_TO = []


@pytest.fixture
def operator() -> User:
    return UserFactory(role=Role.OPERATOR)


@pytest.fixture
def watch() -> Callable[..., list[Alert]]:
    """Looks every 5 s at these values of one figure; answers what began or ended at the last."""
    at = [timezone.now()]

    def look(*values: float | None, figure: Figure = FIGURE) -> list[Alert]:
        changed: list[Alert] = []
        for value in values:
            at[0] += timedelta(seconds=5)
            changed = evaluate({figure: value, Figure.WORKERS: 1}, now=at[0])
        return changed

    return look


def notices() -> list[tuple[str, bool]]:
    return list(Notice.objects.order_by("is_resolved").values_list("channel", "is_resolved"))


def test_alert_begins_and_ends_once_and_is_told_twice(watch: Callable[..., list[Alert]]) -> None:
    (fired,) = watch(61, 90)
    assert (fired.value, fired.limit, fired.resolved_at) == (90, 60, None)
    assert watch(90, 95, 45) == []
    (over,) = watch(3, 3, 3, 3)
    assert over.pk == fired.pk
    assert over.resolved_at is not None
    assert notices() == [(Channel.WEBHOOK, False), (Channel.WEBHOOK, True)]
    assert watch(3, 3) == []


def test_looking_twice_at_one_instant_is_looking_once(operator: User) -> None:
    now = timezone.now()
    change_rule(operator, FIGURE, **{**RULE, "for_s": 0})
    assert len(evaluate({FIGURE: 61}, now=now)) == 1
    assert evaluate({FIGURE: 61}, now=now) == []
    assert evaluate({FIGURE: 61}, now=now - timedelta(seconds=3)) == []


@pytest.mark.django_db(transaction=True)
def test_two_that_look_at_once_make_one_alert(operator: User) -> None:
    change_rule(operator, FIGURE, **{**RULE, "for_s": 0})
    now = timezone.now()

    def look(at: datetime) -> None:
        try:
            evaluate({FIGURE: 61, Figure.WORKERS: 1}, now=at)
        finally:
            connection.close()

    threads = [
        threading.Thread(target=look, args=(now + timedelta(milliseconds=n),)) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Alert.objects.count() == 1
    assert Notice.objects.count() == 1


def test_silenced_alert_is_listed_but_told_to_nobody(
    operator: User, watch: Callable[..., list[Alert]]
) -> None:
    silence(operator, FIGURE, minutes=60)
    watch(61, 61, 61)
    assert Alert.objects.get().is_told is False
    watch(3, 3, 3, 3, 3)
    assert Alert.objects.get().resolved_at is not None
    assert notices() == []


def test_alert_that_outlasts_its_silence_is_told_then(
    operator: User, watch: Callable[..., list[Alert]]
) -> None:
    silence(operator, FIGURE, minutes=60)
    watch(61, 61, 61)
    silence(operator, FIGURE, minutes=0)
    watch(61)
    watch(61)
    assert notices() == [(Channel.WEBHOOK, False)]


def test_rule_that_is_off_is_not_looked_at(watch: Callable[..., list[Alert]]) -> None:
    assert DEFAULTS[Figure.TRAFFIC].is_on is False
    for _ in range(100):
        assert watch(0.0, figure=Figure.TRAFFIC) == []


def test_turning_a_rule_off_ends_its_alert(
    operator: User, watch: Callable[..., list[Alert]]
) -> None:
    watch(61, 61, 61)
    change_rule(operator, FIGURE, **{**RULE, "is_on": False})
    assert Alert.objects.get().resolved_at is not None


def test_changed_rules_survive_the_next_start(operator: User) -> None:
    change_rule(operator, FIGURE, **{**RULE, "limit": 120.0})
    ensure_rules()
    assert AlertRule.objects.get(figure=FIGURE).limit == 120
    assert AlertRule.objects.count() == len(Figure)


@pytest.mark.parametrize(
    "wrong",
    [
        {"clear_at": 61.0},
        {"limit": -1.0},
        {"limit": float("nan")},
        {"limit": 1e10},
        {"for_s": -1},
        {"clear_for_s": 86_401},
    ],
)
def test_senseless_rules_are_refused(operator: User, wrong: dict[str, Any]) -> None:
    with pytest.raises(RuleError):
        change_rule(operator, FIGURE, **{**RULE, **wrong})
    assert not AuditEvent.objects.exists()


def test_only_operators_and_admins_change_rules() -> None:
    for role in (Role.MODERATOR, Role.LEAD):
        with pytest.raises(PermissionDenied):
            change_rule(UserFactory(role=role), FIGURE, **RULE)
        with pytest.raises(PermissionDenied):
            silence(UserFactory(role=role), FIGURE, minutes=10)


def test_changes_are_audited_and_no_change_is_not(operator: User) -> None:
    change_rule(operator, FIGURE, **RULE)
    assert not AuditEvent.objects.exists()
    change_rule(operator, FIGURE, **{**RULE, "limit": 90.0})
    silence(operator, FIGURE, minutes=10)
    changed, silenced = AuditEvent.objects.order_by("id")
    assert (changed.action, changed.target_id) == ("alert_rule.changed", FIGURE)
    assert (changed.before["limit"], changed.after["limit"]) == (60, 90)
    assert silenced.action == "alert_rule.silenced"


def test_old_alerts_are_dropped_but_those_that_go_on_stay(
    watch: Callable[..., list[Alert]],
) -> None:
    watch(61, 61, 61)
    later = timezone.now() + timedelta(days=400)
    assert drop_old_alerts(now=later) == 0
    watch(3, 3, 3, 3, 3)
    assert drop_old_alerts(now=later) > 0
    assert not Alert.objects.exists()


def test_figures_are_those_of_the_page() -> None:
    now = timezone.now()
    views = [replica(breaker="open"), replica("b", breaker="forced_open")]
    counts = {"verdicts": 10, "by_label": {"": 1, "ok": 9}, "by_source": {"model": 10}}
    store(sample(now, replicas=views, total_ms=[40.0] * 9, **counts))
    write_reading("web-1", 0.5)
    found = read_figures(now=now)
    assert found.keys() == set(Figure)
    assert found[Figure.OPEN_BREAKERS] == 1  # the other is an operator's
    assert found[Figure.UNDECIDED] == pytest.approx(10)
    assert found[Figure.P99] == pytest.approx(40, rel=0.02)
    assert found[Figure.WORKERS] == 1
    assert found[Figure.OLDEST_PENDING] is None
    assert found[Figure.CLOCK_SKEW] == 0.5


def test_task_looks_at_every_rule_and_at_its_own_clock() -> None:
    look_at_figures()
    looked_at = AlertRule.objects.filter(is_on=True).values_list("looked_at", flat=True)
    assert looked_at
    assert all(looked_at)
    assert worst_skew_s() is not None


def test_skew_is_the_worst_of_those_seen_lately() -> None:
    write_reading("web-1", -4.0)
    write_reading("worker-1", 1.5)
    assert worst_skew_s() == 4.0


def test_clock_is_measured_against_the_database() -> None:
    assert abs(measure_ahead_s()) < 60  # the same machine's clock, however slow it is
