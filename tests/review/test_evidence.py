"""The spans that carry a verdict, edits and the conversation: right, bounded, not in the way."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from apps.core.marks import pieces
from apps.policies.models import Label
from apps.review import selectors
from apps.review.diffing import COMPARED_WORDS, Fate, changes
from apps.review.models import Cause
from apps.review.presenting import highlighted
from apps.review.reading import read
from apps.review.spans import Span, carried_over, find_spans
from apps.scoring import explaining
from tests.factories import (
    GroupFactory,
    MessageFactory,
    ReviewItemFactory,
    UserFactory,
    VerdictFactory,
)

SPAM = "hello all, free coins at tgm.example/drop today"


@pytest.fixture
def console(client: Client) -> Client:
    client.force_login(UserFactory(username="ann"))
    return client


@pytest.fixture
def fresh_client() -> Iterator[None]:
    """The explainer's client is made with the settings of this test, and closed after it."""
    explaining._client.cache_clear()
    yield
    explaining._client().close()
    explaining._client.cache_clear()


def read_page(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200
    return response.content.decode()


# ---------- spans ----------


def test_words_that_weigh_most_are_spans_and_neighbours_are_joined() -> None:
    text = "see you, free coins!"
    shares = [0.0] * 9 + [0.3] * 4 + [0.0] + [0.2] * 5 + [0.0]
    (span,) = find_spans(text, shares)
    assert text[span.start : span.end] == "free coins"
    assert span.weight == pytest.approx(2.2)
    assert span.level == 3


def test_text_in_which_nothing_speaks_for_the_label_has_no_spans() -> None:
    assert find_spans("see you", [0.0] * 7) == []
    assert find_spans("see you", [-0.5] * 7) == []
    assert find_spans("", []) == []


def test_chinese_is_weighed_by_characters() -> None:
    text = "周六见加薇信"
    spans = find_spans(text, [0.0, 0.0, 0.0, 0.9, 0.9, 0.9])
    assert [text[s.start : s.end] for s in spans] == ["加薇信"]


@given(st.text(max_size=60), st.data())
def test_spans_are_in_order_apart_and_within_the_text(text: str, data: st.DataObject) -> None:
    weights = st.floats(-3, 3, width=32)
    shares = data.draw(st.lists(weights, min_size=len(text), max_size=len(text)))
    spans = find_spans(text, shares)
    assert all(0 <= s.start < s.end <= len(text) and 1 <= s.level <= 3 for s in spans)
    assert all(a.end < b.start for a, b in pairwise(spans))


def test_span_is_found_again_in_the_text_as_read() -> None:
    text = "hi, fr\u0435\u0435 m\u200boney here"
    reading = read(text)
    assert reading is not None
    (span,) = carried_over([Span(4, 15, 1.0, 3)], reading.offsets)
    assert reading.text[span.start : span.end] == "free money"
    assert carried_over([Span(0, 0, 1.0, 3)], reading.offsets) == []


@given(st.text(max_size=40), st.data())
def test_highlighting_changes_no_character(text: str, data: st.DataObject) -> None:
    edges = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    spans = [Span(a, b, 1.0, 1) for a, b in list(pairwise(edges))[::2]]
    html = str(highlighted(text, spans))
    assert html.count("<mark") == len(spans)
    assert "<script" not in html.lower()
    assert "".join(piece.text for piece in pieces(text)) == text


# ---------- from the model ----------


@pytest.mark.django_db
@pytest.mark.usefixtures("triton", "fresh_client")
def test_spans_come_from_the_default_model(console: Client) -> None:
    shares = explaining.contributions(SPAM, Label.SPAM)
    assert shares.shape == (len(SPAM),)
    coins = SPAM.index("free coins")
    assert shares[coins : coins + 10].sum() > shares[:9].sum()
    item = ReviewItemFactory(verdict__message__text=SPAM)
    html = read_page(console, f"/review/items/{item.pk}/spans/")
    assert 'data-state="shown"' in html
    assert '<template data-for="sent">' in html
    assert "coins" in html.partition("<mark")[2]


@pytest.mark.django_db
@pytest.mark.usefixtures("triton", "fresh_client")
@pytest.mark.parametrize(
    "text",
    ["", "\ufeff", "z" + "\u0300" * 60, "a" * 15_000, "\U0001f468\u200d\U0001f469", "<script>"],
)
def test_any_text_can_be_explained(console: Client, text: str) -> None:
    item = ReviewItemFactory(verdict__message__text=text)
    html = read_page(console, f"/review/items/{item.pk}/spans/")
    assert 'data-state="away"' not in html
    assert "<script>" not in html


@pytest.mark.django_db
@pytest.mark.usefixtures("fresh_client")
def test_card_says_when_the_model_server_is_away(console: Client, settings: Any) -> None:
    settings.TRITON_REPLICAS = ["gone=127.0.0.1:9"]
    item = ReviewItemFactory(verdict__message__text=SPAM)
    assert 'data-state="away"' in read_page(console, f"/review/items/{item.pk}/spans/")
    assert 'data-state="leased"' in read_page(console, "/review/")


@pytest.mark.django_db
def test_what_has_no_verdict_is_not_explained(console: Client, settings: Any) -> None:
    settings.TRITON_REPLICAS = ["gone=127.0.0.1:9"]  # not asked
    item = ReviewItemFactory(label=None)
    item.message.verdict_set.all().delete()
    assert 'data-state="none"' in read_page(console, f"/review/items/{item.pk}/spans/")


# ---------- edits ----------


def test_edit_shows_what_was_taken_and_added() -> None:
    found = changes("see you at the park", "see you in the park, 加V")
    assert [(c.fate, c.text) for c in found if c.fate != Fate.KEPT] == [
        (Fate.TAKEN, "at"),
        (Fate.ADDED, "in"),
        (Fate.ADDED, ", 加V"),
    ]


@given(st.text(max_size=80), st.text(max_size=80))
def test_both_revisions_can_be_read_from_the_changes(old: str, new: str) -> None:
    found = changes(old, new)
    assert "".join(c.text for c in found if c.fate != Fate.TAKEN) == new
    assert "".join(c.text for c in found if c.fate != Fate.ADDED) == old


def test_walls_of_text_are_shown_without_comparing() -> None:
    old, new = "a " * COMPARED_WORDS, "b " * COMPARED_WORDS
    assert [c.fate for c in changes(old, new)] == [Fate.TAKEN, Fate.ADDED]


@pytest.mark.django_db
def test_card_shows_each_edit(console: Client) -> None:
    first = MessageFactory(text="see you at the park")
    same = {"group": first.group, "sender": first.sender, "external_id": first.external_id}
    MessageFactory(text="see you in <b>the</b> park", revision=2, **same)
    third = MessageFactory(text="see you in the park, free coins", revision=3, **same)
    ReviewItemFactory(verdict=VerdictFactory(message=third))
    html = read_page(console, "/review/")
    assert "<del>at</del><ins>in</ins>" in html
    assert "<ins>, free coins</ins>" in html
    assert "<b>the" not in html
    assert html.index("revision 3") < html.index("revision 2")


# ---------- conversation ----------


@pytest.mark.django_db
def test_five_messages_before_and_after_and_more_on_demand(console: Client) -> None:
    group = GroupFactory()
    said = MessageFactory.create_batch(41, group=group)
    item = ReviewItemFactory(verdict=VerdictFactory(message=said[20]))
    html = read_page(console, "/review/")
    assert html.count('class="talk"') == 11
    more = f"/review/items/{item.pk}/conversation/?each=15"
    assert f'data-more="{more}"' in html
    assert read_page(console, more).count('class="talk"') == 31
    everything = read_page(console, more.replace("15", "45"))
    assert everything.count('class="talk"') == 41
    assert "data-more" not in everything


@pytest.mark.django_db
@pytest.mark.parametrize("each", ["", "0", "46", "x", "\u00b2"])
def test_nonsense_around_leads_back_to_the_item(console: Client, each: str) -> None:
    item = ReviewItemFactory()
    response = console.get(f"/review/items/{item.pk}/conversation/", {"each": each})
    assert response["Location"] == f"/review/items/{item.pk}/"


@pytest.mark.django_db
@pytest.mark.parametrize(("each", "queries"), [(5, 6), (45, 6)])
def test_conversation_takes_a_fixed_number_of_queries(
    console: Client, each: int, queries: int
) -> None:
    group = GroupFactory()
    said = MessageFactory.create_batch(30, group=group)
    item = ReviewItemFactory(verdict=VerdictFactory(message=said[15]))
    with CaptureQueriesContext(connection) as captured:
        console.get(f"/review/items/{item.pk}/conversation/", {"each": each})
    assert len(captured) == queries


@pytest.mark.django_db
def test_verdicts_own_label_is_explained_and_not_what_somebody_decided() -> None:
    appealed = ReviewItemFactory(label=Label.AD, cause=Cause.APPEALED)
    assert selectors.evidence(appealed.pk).label == Label.SPAM
    reported = ReviewItemFactory(label=Label.TOXIC, cause=Cause.REPORTED)
    reported.message.verdict_set.update(label="ok", acting_label=None, action="allow")
    assert selectors.evidence(reported.pk).label == Label.TOXIC
    unclear = ReviewItemFactory(label=None)
    unclear.message.verdict_set.update(label="ok", acting_label=None, score_ad=0.3, score_spam=0.1)
    assert selectors.evidence(unclear.pk).label == Label.AD
