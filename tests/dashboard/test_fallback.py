"""The list of what the lists decided alone, beside what was found since."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from apps.accounts.models import Role
from apps.chat.models import Message
from apps.dashboard import fallbacks
from apps.dashboard.fallbacks import Fate, fallback_page
from apps.scoring.models import Source
from tests.factories import (
    MessageFactory,
    ReviewItemFactory,
    UserFactory,
    VerdictFactory,
    rules_release,
)

pytestmark = pytest.mark.django_db


def decided(text: str = "coins", **model: str | None) -> Message:
    """By the lists as an ad to remove, and since then by the model, if it says something."""
    message = MessageFactory(text=text)
    VerdictFactory(
        message=message,
        release=rules_release(),
        source=Source.FALLBACK,
        label="ad",
        action="remove",
        reasons=["rule:7"],
    )
    if model:
        VerdictFactory(message=message, **model)
    return message


@pytest.fixture
def console(client: Client) -> Client:
    client.force_login(UserFactory(role=Role.MODERATOR))
    return client


def test_each_is_counted_by_what_became_of_it() -> None:
    changed = decided(label="ok", action="allow")
    milder = decided(label="ad", action="hold")
    unsure = decided(label=None, action="hold")
    same = decided(label="ad", action="remove")
    waiting = decided()
    VerdictFactory()  # no fallback
    page = fallback_page(Fate.CHANGED, with_text=True)
    assert page.counts == {Fate.CHANGED: 3, Fate.SAME: 1, Fate.WAITING: 1}
    assert [row.message_id for row in page.rows] == [unsure.pk, milder.pk, changed.pk]
    assert sorted(page.moves, key=str) == [
        ("ad", "remove", "ad", "hold", 1),
        ("ad", "remove", "ok", "allow", 1),
        ("ad", "remove", None, "hold", 1),
    ]
    assert [row.message_id for row in fallback_page(Fate.SAME, with_text=True).rows] == [same.pk]
    waiting_rows = fallback_page(Fate.WAITING, with_text=True).rows
    assert [row.message_id for row in waiting_rows] == [waiting.pk]


def test_pages_follow_each_other_without_gap_or_repeat() -> None:
    ids = [decided(label="ok", action="allow").pk for _ in range(5)]
    seen: list[int] = []
    before = None
    while True:
        page = fallback_page(Fate.CHANGED, with_text=True, before=before, shown=2)
        seen += [row.message_id for row in page.rows]
        if (before := page.next_before) is None:
            break
    assert seen == ids[::-1]


def test_counts_are_of_the_newest_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallbacks, "COUNTED", 2)
    for _ in range(3):
        decided()
    page = fallback_page(Fate.WAITING, with_text=True)
    assert (page.total, page.is_capped) == (2, True)


def test_page_shows_what_changed_and_where_to_open_it(console: Client) -> None:
    message = decided("free coins", label="ok", action="allow")
    html = console.get("/operate/fallback/").content.decode()
    assert "free coins" in html
    assert f"/review/items/{message.pk}/" not in html
    ReviewItemFactory(verdict=message.verdict_set.first())
    html = console.get("/operate/fallback/").content.decode()
    assert f"/review/items/{message.pk}/" in html


def test_operators_see_what_changed_and_no_texts(client: Client) -> None:
    client.force_login(UserFactory(role=Role.OPERATOR))
    message = decided("free coins", label="ok", action="allow")
    ReviewItemFactory(verdict=message.verdict_set.first())
    for url in ("/operate/fallback/", "/operate/fallback.json"):
        shown = client.get(url).content.decode()
        assert str(message.pk) in shown
        assert "free coins" not in shown
    assert "/review/items/" not in client.get("/operate/fallback/").content.decode()
    (row,) = fallback_page(Fate.CHANGED, with_text=False).rows
    assert row.text is None


def test_json_says_the_same(console: Client) -> None:
    message = decided(label="ok", action="allow")
    found = console.get("/operate/fallback.json?limit=1").json()
    assert found["counts"] == {"changed": 1, "same": 0, "waiting": 0}
    (row,) = found["verdicts"]
    assert row["message_id"] == str(message.pk)
    assert (row["fallback"]["label"], row["fallback"]["reasons"]) == ("ad", ["rule:7"])
    assert (row["since"]["action"], row["since"]["source"]) == ("allow", "model")
    assert row["message_url"] == f"/api/v1/messages/{message.pk}"
    waiting = decided()
    found = console.get("/operate/fallback.json?fate=waiting").json()
    assert (found["verdicts"][0]["message_id"], found["verdicts"][0]["since"]) == (
        str(waiting.pk),
        None,
    )


@pytest.mark.parametrize(
    "query", ["fate=none", "before=0", "before=x", "limit=100000", "before=1e9"]
)
def test_query_that_our_page_cannot_ask_is_refused(console: Client, query: str) -> None:
    assert console.get(f"/operate/fallback/?{query}").status_code == 400
    assert console.get(f"/operate/fallback.json?{query}").status_code == 400


def test_deleted_and_hostile_texts_are_not_shown_as_they_are(console: Client) -> None:
    decided("<script>alert(1)</script> \u202e", label="ok", action="allow")
    gone = decided("secret words", label="ok", action="allow")
    Message.objects.filter(pk=gone.pk).update(deleted_at="2026-01-01T00:00:00Z")
    html = console.get("/operate/fallback/").content.decode()
    assert "<script>alert" not in html
    assert "\u202e" not in html
    assert "secret words" not in html


def test_nobody_else_sees_it(client: Client) -> None:
    assert client.get("/operate/fallback/").status_code in {302, 403}


def test_number_of_queries_does_not_grow(
    console: Client, django_assert_num_queries: Callable[..., object]
) -> None:
    decided(label="ok", action="allow")
    with django_assert_num_queries(4):
        console.get("/operate/fallback/")
    for _ in range(5):
        decided(label="ok", action="allow")
    with django_assert_num_queries(4):
        console.get("/operate/fallback/")
