"""The alerts page and the banner say what fires, to those who may see it."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation

from apps.accounts.models import Role
from apps.alerts.figures import Figure
from apps.alerts.models import Alert, AlertRule
from apps.alerts.services import ensure_rules, evaluate
from apps.alerts.templatetags.alerts import plain_number
from apps.dashboard import selectors
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db

PAGE, OPERATE, FIGURES = "/operate/alerts/", "/operate/", "/operate/figures/"
RULE = f"{PAGE}oldest_pending_s/"
SENT = {"is_on": "on", "limit": "90", "clear_at": "45.5", "for_s": "10", "clear_for_s": "20"}


@pytest.fixture(autouse=True)
def _rules() -> None:
    selectors.forget_cached()
    ensure_rules()


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(UserFactory(role=Role.OPERATOR))
    return client


def rule() -> AlertRule:
    return AlertRule.objects.get(figure=Figure.OLDEST_PENDING)


def fire() -> None:
    now = timezone.now() - timedelta(minutes=1)
    for seconds in (0, 6):
        evaluate(
            {Figure.OLDEST_PENDING: 75.0, Figure.WORKERS: 1}, now=now + timedelta(seconds=seconds)
        )


def read(client: Client, url: str = PAGE) -> str:
    selectors.forget_cached()
    response = client.get(url)
    assert response.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", response.content.decode()))


def test_strangers_are_sent_to_sign_in(client: Client) -> None:
    assert client.get(PAGE)["Location"] == f"/sign-in/?next={PAGE}"


def test_those_who_only_look_change_nothing(client: Client) -> None:
    client.force_login(UserFactory(role=Role.MODERATOR))
    assert "Put in force" not in read(client)
    assert client.post(RULE, SENT).status_code == 403
    assert client.post(f"{RULE}silence/", {"minutes": "10"}).status_code == 403
    assert rule().limit == 60


def test_rule_is_changed(operator: Client) -> None:
    assert operator.post(RULE, SENT)["Location"] == PAGE
    changed = rule()
    assert (changed.limit, changed.clear_at, changed.for_s) == (90, 45.5, 10)
    assert "above 90 for 10 s, over at 45.50" in read(operator)


@pytest.mark.parametrize(
    "wrong", [{"limit": "-1"}, {"limit": "nan"}, {"clear_at": "91"}, {"for_s": "1.5"}]
)
def test_senseless_rule_is_refused_beside_its_field(
    operator: Client, wrong: dict[str, str]
) -> None:
    response = operator.post(RULE, {**SENT, **wrong})
    assert response.status_code == 422
    assert b'aria-invalid="true"' in response.content
    assert rule().limit == 60


def test_unknown_figure_is_not_found(operator: Client) -> None:
    assert operator.post(f"{PAGE}phlogiston/", SENT).status_code == 404


def test_what_fires_stands_on_the_operator_s_page_and_in_its_fragment(operator: Client) -> None:
    assert "1 alert " not in read(operator, OPERATE)
    fire()
    for url in (OPERATE, FIGURES):
        assert "1 alert Oldest pending message, s 75" in read(operator, url)


def test_silence_takes_it_off_the_banner_and_leaves_it_in_the_list(operator: Client) -> None:
    fire()
    assert operator.post(f"{RULE}silence/", {"minutes": "10"})["Location"] == PAGE
    assert "1 alert " not in read(operator, OPERATE)
    page = read(operator)
    assert "silent until" in page
    assert "firing" in page
    operator.post(f"{RULE}silence/", {"minutes": "0"})
    assert "1 alert " in read(operator, OPERATE)


def test_silence_of_another_length_is_refused(operator: Client) -> None:
    assert operator.post(f"{RULE}silence/", {"minutes": "525600"}).status_code == 400
    assert rule().silenced_until is None


def test_history_keeps_what_is_over(operator: Client) -> None:
    fire()
    Alert.objects.update(resolved_at=timezone.now())
    page = read(operator)
    assert "Oldest pending message, s over 75 60" in page


def test_page_in_chinese(operator: Client) -> None:
    fire()
    operator.post(reverse("accounts:language"), {"language": "zh-hans"})
    page = read(operator)
    for word in ("告警", "规则", "正在告警", "静默", "最久待判消息（秒）"):
        assert word in page


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (60.0, "60"), (143.7, "144"), (0.034, "0.03"), (45.5, "45.50"), (1e5, "100,000")],
)
def test_figures_are_rounded_and_never_longer_than_they_say(
    value: float | None, shown: str
) -> None:
    with translation.override("en"):
        assert plain_number(value) == shown
