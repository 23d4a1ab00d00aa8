"""The guess at a text's language is right for plain messages and never fails."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.review.language import guess
from apps.review.models import Language
from apps.review.queue import QueueFilters, part_of
from apps.review.services.intake import take_in
from tests.factories import MessageFactory, UserFactory
from tests.review.test_intake import judged


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("anyone know if the Saturday ferry runs in fog?", "en"),
        ("FREE COINS!!!", "en"),
        ("Fr\u0435\u0435 c\u043eins f\u043er everyone, join t\u200bgm.example", "en"),
        ("ｆｒｅｅ ｍｏｎｅｙ", "en"),
        ("café at noon?", "en"),
        ("有雾一般会停，早上看公告", "zh"),
        ("加V信 abc12345 领资料", "zh"),
        ("AirPods 九块九包邮", "zh"),
        ("桜の花が咲きました", "other"),
        ("무료 코인을 받으세요", "other"),
        ("Привет, заходи на канал", "other"),
        ("شلونك اليوم", "other"),
        ("¿Quién tiene las entradas para el sábado?", "other"),
        ("ich habe das nicht gesehen", "other"),
        ("çok güzel olmuş", "other"),
        ("12345 :-) 👍", "other"),
        ("\u200b\ufeff", "other"),
        ("", "other"),
    ],
)
def test_plain_messages_are_told_apart(text: str, language: str) -> None:
    assert guess(text) == language


@given(st.text())
def test_any_text_is_in_one_of_the_three_parts(text: str) -> None:
    assert guess(text) in Language


@pytest.mark.django_db
def test_messages_are_queued_by_language() -> None:
    texts = {"en": "join the group now", "zh": "加薇信领资料", "other": "заходи на канал"}
    messages = {name: MessageFactory(text=text) for name, text in texts.items()}
    take_in([judged(message) for message in messages.values()])
    for name, message in messages.items():
        part = part_of(UserFactory(), QueueFilters(language=Language(name)))
        assert part.rows("item.message_id") == [(message.pk,)]
