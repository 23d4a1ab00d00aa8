"""The page of actions: who may act, what each asks, and what it says of the effect."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django.fixtures import Settings

from apps.accounts.models import Role
from apps.scoring.models import Control
from apps.scoring.samples import Gauges, Sample
from tests.dashboard.samples import replica, store
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db

PAGE, PROGRESS = "/operate/controls/", "/operate/controls/progress/"
REPLICA, BREAKER = "/operate/controls/replica/", "/operate/controls/breaker/"
CLAIMING, LIMITS = "/operate/controls/claiming/", "/operate/controls/limits/"
MODEL, JUDGING = "/operate/controls/model/", "/operate/controls/judging/"
ACTIONS = {
    REPLICA: {"target": "triton-1", "wish": "draining"},
    BREAKER: {"target": "triton-1", "wish": "forced_open"},
    CLAIMING: {"wish": "paused"},
    JUDGING: {"wish": "by_rules"},
    MODEL: {"target": "moderation", "wish": "loaded"},
    LIMITS: {"largest_batch": "256", "most_in_flight_batches": "3"},
}


@pytest.fixture(autouse=True)
def _one_replica(settings: Settings) -> None:
    settings.TRITON_REPLICAS = ["triton-1=127.0.0.1:8001"]


@pytest.fixture
def models() -> None:
    """A living worker sees two models, one of them ready."""
    seen = [["moderation:1", True], ["explainer:1", False]]
    store(Sample(timezone.now(), "worker-m", "worker", replicas=[replica(models=seen)]))


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(UserFactory(role=Role.OPERATOR, username="olga"))
    return client


def read(client: Client, url: str = PAGE) -> str:
    response = client.get(url)
    assert response.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", response.content.decode()))


def report(process: str = "worker-1", **applied: int) -> None:
    """A living worker says what it has carried out."""
    gauges = Gauges(applied={key.replace("__", ":"): n for key, n in applied.items()})
    store(Sample(timezone.now(), process, "worker", gauges=gauges, replicas=[replica()]))


def buttons(client: Client) -> set[str]:
    return set(re.findall(r'name="wish" value="(\w+)"', client.get(PAGE).content.decode()))


@pytest.mark.parametrize("url", [PAGE, PROGRESS])
def test_strangers_are_sent_to_sign_in(client: Client, url: str) -> None:
    assert client.get(url)["Location"] == f"/sign-in/?next={url}"


@pytest.mark.parametrize("url", ACTIONS)
def test_those_who_only_look_get_no_buttons_and_are_refused(client: Client, url: str) -> None:
    client.force_login(UserFactory(role=Role.MODERATOR))
    assert buttons(client) == set()
    assert client.post(url, ACTIONS[url]).status_code == 403
    assert not Control.objects.exists()


@pytest.mark.parametrize("url", ACTIONS)
def test_action_is_written_down_and_the_page_comes_back(
    operator: Client, models: None, url: str
) -> None:
    assert operator.post(url, ACTIONS[url])["Location"] == PAGE
    control = Control.objects.get()
    wanted: Any = ACTIONS[url].get("wish") or {k: int(v) for k, v in ACTIONS[LIMITS].items()}
    assert (control.value, control.version, control.changed_by) == (wanted, 1, "olga")


def test_a_look_at_the_page_changes_nothing(operator: Client) -> None:
    for url in ACTIONS:
        assert operator.get(url).status_code == 405
    read(operator)
    assert not Control.objects.exists()


def test_effect_is_said_as_far_as_it_has_come(operator: Client) -> None:
    operator.post(REPLICA, ACTIONS[REPLICA])
    report("worker-1")
    assert "ago by olga · applied by 0 of 1 worker " in read(operator)
    report("worker-2", replica__triton_1=1)
    assert "applied by 0 of 2 workers" in read(operator)  # another key
    applied = Gauges(applied={"replica:triton-1": 1})
    store(Sample(timezone.now(), "worker-1", "worker", gauges=applied))
    assert "applied by 1 of 2 workers" in read(operator, PROGRESS)


def test_models_say_where_they_are_ready_and_how_the_order_went(
    operator: Client, models: None
) -> None:
    page = read(operator)
    assert "ready on 1 of 1 replica version 1" in page
    assert "ready on 0 of 1 replica" in page
    operator.post(MODEL, ACTIONS[MODEL])
    assert "at work" in read(operator)
    Control.objects.update(done_version=1, failure="model_not_ready")
    assert "failed (model_not_ready)" in read(operator, PROGRESS)
    Control.objects.update(failure="")
    assert " done " in read(operator, PROGRESS)


def test_workers_that_are_gone_do_not_count(operator: Client) -> None:
    operator.post(CLAIMING, ACTIONS[CLAIMING])
    gone = Sample(timezone.now() - timedelta(seconds=30), "worker-0", "worker", gauges=Gauges())
    store(gone)
    report("worker-1", claiming__=1)
    assert "applied by 1 of 1 worker " in read(operator)


def test_what_is_wanted_already_is_not_offered_again(operator: Client) -> None:
    assert {"draining", "ejected", "serving", "forced_open", "auto", "paused"} <= buttons(operator)
    operator.post(REPLICA, ACTIONS[REPLICA])
    operator.post(CLAIMING, ACTIONS[CLAIMING])
    operator.post(JUDGING, ACTIONS[JUDGING])
    offered = buttons(operator)
    assert "by_rules" not in offered
    assert "lists alone" in read(operator, PROGRESS)
    assert "draining" not in offered
    assert "paused" not in offered
    assert {"serving", "running", "by_model"} <= offered


def test_each_action_says_what_it_does_before_it_is_done(operator: Client) -> None:
    page = read(operator)
    for question in (
        "It finishes what it has and gets nothing new.",
        "It gets nothing more until it is readmitted.",
        "No message goes there until the breaker is reset.",
        "They are stored and wait; what is in flight is judged.",
        "Blocking entries decide; all else waits for the model.",
    ):
        assert question in page


@pytest.mark.parametrize(
    "sent",
    [
        {"largest_batch": "0", "most_in_flight_batches": "2"},
        {"largest_batch": "256", "most_in_flight_batches": "99"},
        {"largest_batch": "", "most_in_flight_batches": "2"},
        {"largest_batch": "1e9", "most_in_flight_batches": "2"},
    ],
)
def test_limits_out_of_bounds_are_refused_beside_the_field(
    operator: Client, sent: dict[str, str]
) -> None:
    response = operator.post(LIMITS, sent)
    assert response.status_code == 422
    assert b'aria-invalid="true"' in response.content
    assert not Control.objects.exists()


def test_replica_that_nobody_knows_is_refused_in_words(operator: Client) -> None:
    response = operator.post(REPLICA, {"target": "<b>x", "wish": "draining"}, follow=True)
    assert b"There is nothing of that name." in response.content
    assert not Control.objects.exists()


@pytest.mark.parametrize("sent", [{}, {"target": "triton-1", "wish": "burning"}])
def test_forged_forms_are_refused(operator: Client, sent: dict[str, str]) -> None:
    assert operator.post(REPLICA, sent).status_code == 400


def test_a_replica_s_hostile_name_stays_text(operator: Client) -> None:
    store(Sample(timezone.now(), "w", "worker", replicas=[replica("<img src=x>\u202e")]))
    html = operator.get(PAGE).content.decode()
    assert "<img src=x" not in html


def test_page_in_chinese(operator: Client) -> None:
    operator.post(REPLICA, ACTIONS[REPLICA])
    report()
    operator.post(reverse("accounts:language"), {"language": "zh-hans"})
    page = read(operator)
    for word in ("排空", "摘除", "恢复服务", "熔断器", "暂停认领"):
        assert word in page
