"""Search finds messages in any language, whatever people write into the box."""

from __future__ import annotations

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from apps.review.grams import asked, indexed
from apps.review.models import ReviewItem
from apps.review.queue import QueueFilters, part_of
from apps.review.services.intake import take_in
from apps.review.services.leases import open_next
from tests.factories import MessageFactory, ReviewItemFactory, UserFactory
from tests.review.test_intake import judged

TEXTS = [
    "Free coins for everyone, join today",
    "兼职日结，在家可做，加薇信领资料",
    "这都不会？别拖大家后腿了",
    "Привет, заходи на канал",
    "무료 코인을 받으세요",
    "B**p and Co(de for $x",
]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("coins", [0]),
        ("COIN", [0]),
        ("ｃｏｉｎ", [0]),
        ("free today", [0]),
        ("today free", [0]),
        ("coinage", []),
        ("薇", [1]),
        ("日结", [1]),
        ("结日", []),
        ("大家", [2]),
        ("家可做 领资料", [1]),
        ("заходи", [3]),
        ("코인", [4]),
        ("b**p", [0, 1, 2, 3, 4, 5]),  # nothing to go by: all
        ("co(de", [5]),
        ("$x", [0, 1, 2, 3, 4, 5]),
    ],
)
@pytest.mark.django_db
def test_query_finds_what_holds_all_its_words(query: str, found: list[int]) -> None:
    items = [ReviewItemFactory(verdict__message__text=text) for text in TEXTS]
    part = part_of(UserFactory(), QueueFilters(text=query))
    matching = part.rows("item.message_id", "ORDER BY item.message_id")
    assert matching == [(items[n].pk,) for n in found]


@pytest.mark.django_db
def test_message_is_found_as_soon_as_it_is_held() -> None:
    message = MessageFactory(text="cheap f\u200bollowers")
    take_in([judged(message)])
    filters = QueueFilters(text="followers")
    assert open_next(UserFactory(), filters).item_id == message.pk


@pytest.mark.django_db
def test_page_shows_what_was_found_and_keeps_the_search(client: Client) -> None:
    client.force_login(UserFactory())
    ReviewItemFactory(verdict__message__text="Free coins")
    ReviewItemFactory(verdict__message__text="Something else")
    html = client.get("/review/?q=coins&label=spam").content.decode()
    assert html.count('class="queue-row"') == 1
    assert 'value="coins"' in html
    assert "?q=coins&amp;label=toxic" in html


@pytest.mark.parametrize("query", ["(", "%", "a\x00b", "\ud83d", "x" * 500, "\u202e", "'; --"])
@pytest.mark.django_db
def test_nonsense_in_the_box_breaks_nothing(client: Client, query: str) -> None:
    client.force_login(UserFactory())
    ReviewItemFactory()
    encoded = query.encode("utf-8", "surrogatepass")
    assert client.get("/review/", {"q": encoded}).status_code == 200


@given(st.text(), st.text())
def test_a_text_holds_whatever_is_asked_of_its_parts(before: str, after: str) -> None:
    text = f"{before} needle 针眼 {after}"
    if len(text) < 500:
        assert set(asked("needle 针眼")) <= set(indexed(text))


def test_numbers_fit_the_column() -> None:
    every = indexed("".join(TEXTS) * 20)
    assert all(-(2**31) <= number < 2**31 for number in every)
    assert ReviewItem._meta.get_field("grams").base_field.get_internal_type() == "IntegerField"
