"""The operator's page says what is known, to those who may see it, whatever people wrote."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Role
from apps.chat.models import Chunk
from apps.dashboard import selectors
from apps.scoring.models import Source
from tests.dashboard.samples import replica, sample, store
from tests.factories import MessageFactory, UserFactory, VerdictFactory

pytestmark = pytest.mark.django_db

OPERATE, FIGURES = "/operate/", "/operate/figures/"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    selectors.forget_cached()


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(UserFactory(role=Role.OPERATOR))
    return client


@pytest.fixture
def moderator(client: Client) -> Client:
    client.force_login(UserFactory(role=Role.MODERATOR))
    return client


def read(client: Client, url: str = OPERATE) -> str:
    selectors.forget_cached()
    response = client.get(url)
    assert response.status_code == 200
    return response.content.decode()


def alive(**changes: Any) -> None:
    store(sample(timezone.now(), replicas=[replica()], **changes))


@pytest.mark.parametrize("name", ["operate", "figures", "feed", "history"])
def test_strangers_are_sent_to_sign_in(client: Client, name: str) -> None:
    url = reverse(f"dashboard:{name}")
    assert client.get(url)["Location"] == f"/sign-in/?next={url}"


@pytest.mark.parametrize(("role", "home"), [(Role.OPERATOR, OPERATE), (Role.ADMIN, OPERATE)])
def test_home_is_where_the_work_is(client: Client, role: Role, home: str) -> None:
    client.force_login(UserFactory(role=role))
    assert client.get("/")["Location"] == home


def test_stopped_workers_are_the_first_thing_said(operator: Client) -> None:
    Chunk.objects.create(id=1, size=1000)
    Chunk.objects.create(id=2, size=204)
    assert "No worker is running. 1,204 messages wait." in read(operator)


def test_triton_away_says_what_it_means_and_that_nothing_is_lost(operator: Client) -> None:
    store(sample(timezone.now(), replicas=[replica(state="down", breaker="open")]))
    page = read(operator)
    assert "Triton is away: rules only. 0 messages wait." in page
    assert "Nothing is lost" in page


def test_one_replica_missing_is_named(operator: Client) -> None:
    down = replica("triton-2", breaker="open", breaker_reason="9 of 12 failed")
    store(sample(timezone.now(), replicas=[replica(), down]))
    page = read(operator)
    assert "triton-2 gets no messages." in page
    assert "9 of 12 failed" in page


def test_a_paused_pipeline_says_why(operator: Client) -> None:
    alive(paused_because="overloaded")
    assert "Judging is paused: Triton is overloaded." in read(operator)


def test_an_old_backlog_is_said_to_be_late(operator: Client) -> None:
    alive()
    Chunk.objects.create(id=1, size=3, created_at=timezone.now() - timedelta(seconds=125))
    assert "The oldest message has waited for 2:0" in read(operator)


def test_no_banner_when_all_is_well(operator: Client) -> None:
    alive()
    assert 'class="banner"' not in read(operator)


def test_fragment_says_the_same_as_the_page(operator: Client) -> None:
    alive(verdicts=50, by_label={"ok": 50}, total_ms=[12.0] * 50)
    page, fragment = operator.get(OPERATE).content, operator.get(FIGURES).content
    row = b'<td class="num strong">12.0</td>'
    assert row in page
    assert row in fragment


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202egnp.exe\u202c",
    "a\u200bb\u2060c\u00adsi\ufeffno",
    "\r\n\t line breaks",
    "Z" + "\u0335\u0321\u0337\u0322\u0334" * 40,
    "{{ settings.SECRET_KEY }}{% load x %}",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_and_names_stay_text(moderator: Client, text: str) -> None:
    verdict = VerdictFactory(message__text=text, message__group__name=text[:200])
    page = read(moderator)
    assert f'data-id="{verdict.message_id}"' in page
    for dangerous in ("<script>alert", "<img src=x", "\u202e", "\u200b", "\u2060", "\ufeff"):
        assert dangerous not in page
    assert "\u0335\u0321\u0337\u0322" not in page


def test_deleted_text_is_not_shown(moderator: Client) -> None:
    VerdictFactory(message__text="my phone number", message__deleted_at=timezone.now())
    assert "my phone number" not in read(moderator)


@pytest.mark.parametrize("url", [OPERATE, "/operate/feed/", "/operate/feed/?label=spam"])
@pytest.mark.parametrize("role", list(Role))
def test_texts_are_for_those_who_may_review(client: Client, role: Role, url: str) -> None:
    client.force_login(UserFactory(role=role))
    verdict = VerdictFactory(message__text="meet me at the harbour", label="spam", action="hold")
    page = read(client, url)
    assert f'data-id="{verdict.message_id}"' in page
    assert ("meet me at the harbour" in page) is (role != Role.OPERATOR)


def test_feed_is_filtered_by_label_and_action(operator: Client) -> None:
    spam = VerdictFactory(label="spam", action="remove")
    ok = VerdictFactory(label="ok", action="allow")
    none = VerdictFactory(label=None, action="hold", source=Source.FALLBACK)

    def shown(query: str) -> set[int]:
        page = read(operator, f"/operate/feed/?{query}")
        return {v.message_id for v in (spam, ok, none) if f'data-id="{v.message_id}"' in page}

    assert shown("") == {spam.message_id, ok.message_id, none.message_id}
    assert shown("label=spam") == {spam.message_id}
    assert shown("label=none") == {none.message_id}
    assert shown("action=allow&label=ok") == {ok.message_id}
    assert shown("action=allow&label=spam") == set()


@pytest.mark.parametrize("query", ["label=x", "action=%00", "label=%ED%A0%BD", "label=ok&label=x"])
def test_an_impossible_filter_shows_all_and_says_so(operator: Client, query: str) -> None:
    verdict = VerdictFactory()
    page = read(operator, f"/operate/feed/?{query}")
    assert f'data-id="{verdict.message_id}"' in page
    assert 'role="alert"' in page


def test_page_needs_no_more_queries_for_more_rows(
    operator: Client, django_assert_max_num_queries: Callable[[int], Any]
) -> None:
    alive()
    for _ in range(40):
        VerdictFactory(message=MessageFactory())
    selectors.forget_cached()
    with django_assert_max_num_queries(22):
        operator.get(OPERATE)


def test_history_is_columns_of_one_length(operator: Client) -> None:
    alive(verdicts=10, total_ms=[5.0])
    columns = operator.get("/operate/history.json").json()
    columns.pop("step_s")
    assert {len(values) for values in columns.values()} == {len(columns["at_s"])}


def test_page_in_chinese_uses_the_products_words(operator: Client) -> None:
    store(sample(timezone.now(), replicas=[replica(breaker="open")], paused_because="no_replica"))
    VerdictFactory(action="hold")
    operator.post(reverse("accounts:language"), {"language": "zh-hans"})
    page = read(operator)
    assert 'lang="zh-Hans"' in page
    for word in ("副本", "判定", "消息", "群组", "标签", "暂扣", "断开", "没有副本接受调用"):
        assert word in page


def test_the_mix_of_verdicts_is_shown_by_label_and_action(operator: Client) -> None:
    by_label = {"ok": 150, "spam": 30, "": 20}
    alive(verdicts=200, by_label=by_label, by_action={"allow": 150, "remove": 30, "hold": 20})
    page = read(operator)
    assert "share of 200 verdicts" in page
    mix = page.partition('id="op-mix"')[2].partition("</section>")[0]
    shares = dict(re.findall(r">([a-z]+)</span> <b[^>]*>([\d.]+)<", mix))
    assert shares == {
        "ok": "75.0",
        "spam": "15.0",
        "toxic": "0.0",
        "ad": "0.0",
        "undetermined": "10.0",
        "allow": "75.0",
        "remove": "15.0",
        "hold": "10.0",
    }


def test_every_percentile_of_a_stage_is_shown(operator: Client) -> None:
    alive(verdicts=100, total_ms=[float(ms) for ms in range(1, 101)])
    stages = read(operator).partition('id="op-stages"')[2].partition("</table>")[0]
    told = [float(ms) for ms in re.findall(r'<td class="num[^"]*">([\d.]+)</td>', stages)]
    assert told == pytest.approx([50, 90, 95, 99], rel=0.03)


def test_models_that_a_replica_has_loaded_are_named(operator: Client) -> None:
    models = [["classifier:1", True], ["classifier:2", False], ["moderation:1", True]]
    store(sample(timezone.now(), replicas=[replica(models=models, checked_at_s=1.0)]))
    page = read(operator)
    assert "classifier:1, moderation:1" in page
    assert "classifier:2" not in page
