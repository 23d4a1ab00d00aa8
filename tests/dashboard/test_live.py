"""What the operator page's frames carry, and to whom."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.core.realtime import CLOSE_FORBIDDEN, VERDICTS, Event
from apps.dashboard import selectors
from apps.dashboard.consumers import (
    VERDICT_VIEWS,
    OperateConsumer,
    chart_points,
    figures_in,
    read_verdicts,
    with_text,
    without_text,
)
from apps.scoring.feed import ERASED
from tests.factories import UserFactory, VerdictFactory

pytestmark = pytest.mark.django_db(transaction=True)

in_thread = database_sync_to_async


async def connects(user: User | AnonymousUser) -> bool:
    scope = {"type": "websocket", "path": "/ws/operate/", "user": user}
    line = ApplicationCommunicator(OperateConsumer.as_asgi(), scope)
    await line.send_input({"type": "websocket.connect"})
    assert (await line.receive_output(timeout=30))["type"] == "websocket.accept"
    answer = await line.receive_output(timeout=30)
    await line.send_input({"type": "websocket.disconnect", "code": 1000})
    await line.wait(timeout=30)
    if answer["type"] == "websocket.close":
        assert answer["code"] == CLOSE_FORBIDDEN
    return bool(answer["type"] == "websocket.send")


async def test_a_stranger_may_not_watch() -> None:
    assert not await connects(AnonymousUser())


async def test_who_was_deactivated_since_may_not_watch() -> None:
    user = await in_thread(UserFactory)(role=Role.OPERATOR)
    await User.objects.filter(pk=user.pk).aupdate(is_active=False)
    assert not await connects(user)


@pytest.mark.parametrize("role", list(Role))
async def test_every_role_may_watch(role: Role) -> None:
    assert await connects(await in_thread(UserFactory)(role=role))


async def test_a_frame_counts_all_verdicts_and_shows_some() -> None:
    verdict = await in_thread(VerdictFactory)(label="spam", action="hold")
    events = [
        Event("hold", count=5_000, ids=[verdict.message_id]),
        Event("allow", count=2, ids=[404]),
    ]
    content = with_text(await read_verdicts(events))
    assert content["count"] == 5_002
    assert [row["id"] for row in content["rows"]] == [str(verdict.message_id)]


async def shown_text(text: str, **changes: Any) -> list[list[str]]:
    verdict = await in_thread(VerdictFactory)(message__text=text, **changes)
    content = with_text(await read_verdicts([Event("hold", count=1, ids=[verdict.message_id])]))
    text: list[list[str]] = content["rows"][0]["text"]
    return text


async def test_frames_for_those_who_may_not_read_have_all_but_the_text() -> None:
    verdict = await in_thread(VerdictFactory)(message__text="meet me at the harbour", label="spam")
    sampled = await read_verdicts([Event("hold", count=1, ids=[verdict.message_id])])
    plain, full = without_text(sampled), with_text(sampled)
    assert "harbour" not in json.dumps(plain, ensure_ascii=False)
    assert plain["rows"] == [{**full["rows"][0], "text": None}]
    assert plain["count"] == full["count"] == 1
    assert plain["rows"][0]["id"] == str(verdict.message_id)


@pytest.mark.parametrize("role", list(Role))
async def test_only_who_may_review_is_shown_texts(role: Role) -> None:
    consumer = OperateConsumer()
    consumer.scope = {"user": await in_thread(UserFactory)(role=role)}
    assert await consumer.authorize()
    shown = VERDICT_VIEWS[consumer.views[VERDICTS]]
    reads = role in {Role.MODERATOR, Role.LEAD, Role.ADMIN}
    assert shown is (with_text if reads else without_text)


async def test_hidden_characters_travel_as_their_names() -> None:
    text = await shown_text("pay \u202ereh\u202c n\u200bow")
    assert [piece[0] for piece in text] == ["pay ", "RLO", "reh", "PDF", " n", "ZWSP", "ow"]


async def test_no_more_text_travels_than_a_row_holds() -> None:
    text = await shown_text("x" * 20_000)
    assert sum(len(piece[0]) for piece in text) == 160


async def test_a_row_ends_with_a_whole_emoji() -> None:
    family = "👨\u200d👩\u200d👧"
    text = await shown_text("x" * 157 + family)
    assert text == [["x" * 157]]


async def test_deleted_text_does_not_travel() -> None:
    assert await shown_text("my phone number", message__deleted_at=timezone.now()) == []


async def test_news_of_erased_messages_is_no_verdict() -> None:
    verdict = await in_thread(VerdictFactory)()
    erased, judged = Event(ERASED, 150, [1, 2]), Event("allow", 1, [verdict.message_id])
    alone, both = await read_verdicts([erased]), await read_verdicts([erased, judged])
    assert (alone.count, alone.rows) == (0, [])
    assert (both.count, [row.message_id for row in both.rows]) == (1, [verdict.message_id])


@pytest.mark.parametrize(("language", "words"), [("en", "Oldest pending"), ("zh-hans", "最久等待")])
async def test_figures_travel_rendered_in_the_language_that_was_asked_for(
    language: str, words: str
) -> None:
    content = await figures_in(language)([Event("sampled", count=1)])
    assert 'id="op-tiles"' in content["html"]
    assert words in content["html"]


async def test_points_of_a_frame_are_the_newest_of_the_history() -> None:
    selectors.forget_cached()
    points = await chart_points([Event("sampled", count=1)])
    history = (await in_thread(selectors.overview)()).history
    assert [point["at_s"] for point in points] == [point.at_s for point in history[-4:]]
