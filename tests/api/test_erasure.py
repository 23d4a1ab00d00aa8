"""Erasing over the API: a key that may, a message with its texts, a sender step by step."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async

from apps.audit.models import AuditEvent
from apps.chat.models import Message, Sender
from apps.review.services.erasure import carry_on
from tests.api.conftest import Api, is_problem, message
from tests.api.test_openapi import is_described

SENDERS = "/api/v1/senders"


@pytest.fixture
async def eraser(api: Api) -> Api:
    api.key.may_erase = True
    await api.key.asave(update_fields=["may_erase"])
    return api


async def stored(api: Api, **fields: Any) -> str:
    answer = await api.post(message(**fields))
    assert answer.status_code == 201
    return str(answer.json()["id"])


async def texts() -> set[str]:
    return {text async for text in Message.objects.values_list("text", flat=True)}


@pytest.mark.parametrize("erase", ["", "?erase=false"])
async def test_deletion_alone_keeps_the_text(api: Api, erase: str) -> None:
    id_ = await stored(api)
    answer = await api.client.delete(f"/api/v1/messages/{id_}{erase}")
    assert answer.status_code == 204
    assert await texts() == {"hello"}


async def test_message_is_erased_by_our_id(eraser: Api) -> None:
    id_ = await stored(eraser)
    for _ in range(2):  # again is the same
        answer = await eraser.client.delete(f"/api/v1/messages/{id_}?erase=true")
        assert answer.status_code == 204
        is_described(answer, "DELETE", "/api/v1/messages/{id}")
    assert await texts() == {""}
    assert (await eraser.get(id_))["status"] == "deleted"
    assert await AuditEvent.objects.filter(action="message.erased").acount() == 1


async def test_message_is_erased_by_its_backends_ids_also_after_it_was_deleted(
    eraser: Api,
) -> None:
    id_ = await stored(eraser, external_id="m-1")
    path = "/api/v1/messages?group=guild&external_id=m-1"
    assert (await eraser.client.delete(path)).status_code == 204
    assert (await eraser.client.delete(f"{path}&erase=true")).status_code == 204
    assert await texts() == {""}
    assert (await eraser.get(id_))["status"] == "deleted"


async def test_repeat_of_an_erased_message_is_answered_as_deleted(eraser: Api) -> None:
    sent = message(sender={"id": "u-1", "name": "Ada"})
    id_ = (await eraser.post(sent)).json()["id"]
    await eraser.client.delete(f"/api/v1/messages/{id_}?erase=true")
    again = await eraser.post(sent)
    assert (again.status_code, again.json()["status"]) == (201, "deleted")
    assert again.headers["idempotent-replay"] == "true"
    assert await texts() == {""}


async def test_sender_is_erased_in_the_background(eraser: Api) -> None:
    await stored(eraser, sender={"id": "u/17 %", "name": "Ada"})
    asked = await eraser.client.delete(SENDERS, params={"sender": "u/17 %"})
    is_described(asked, "DELETE", SENDERS)
    assert (asked.status_code, asked.json()["status"]) == (202, "running")
    assert not await Sender.objects.filter(name="Ada").aexists()

    again = await eraser.client.delete(SENDERS, params={"sender": "u/17 %"})
    assert again.json()["id"] == asked.json()["id"]

    assert await sync_to_async(carry_on)(for_s=60.0)
    found = await eraser.client.get(asked.headers["location"])
    is_described(found, "GET", "/api/v1/erasures/{id}")
    assert (found.json()["status"], found.json()["messages"]) == ("done", 1)
    assert await texts() == {""}


async def test_key_must_be_one_that_may_erase(api: Api) -> None:
    id_ = await stored(api, sender={"id": "u-1", "name": "Ada"})
    for path in (
        f"/api/v1/messages/{id_}?erase=true",
        "/api/v1/messages?group=guild&external_id=x&erase=true",
        f"{SENDERS}?sender=u-1",
    ):
        is_problem(await api.client.delete(path), 403, "not-permitted")
    assert await texts() == {"hello"}
    assert (await Sender.objects.aget()).name == "Ada"
    assert (await api.get(id_))["status"] == "pending"


@pytest.mark.parametrize("query", ["", "?sender=", f"?sender={'x' * 201}", "?sender=a&x=1"])
async def test_sender_must_be_named(eraser: Api, query: str) -> None:
    is_problem(await eraser.client.delete(SENDERS + query), 422, "invalid-request")


async def test_wish_to_erase_is_said_clearly(eraser: Api) -> None:
    id_ = await stored(eraser)
    answer = await eraser.client.delete(f"/api/v1/messages/{id_}?erase=yes")
    is_problem(answer, 422, "invalid-request")
    assert await texts() == {"hello"}


@pytest.mark.parametrize("id_", ["1", "0", "x", str(2**63), "9" * 30])
async def test_unknown_erasure_is_not_found(api: Api, id_: str) -> None:
    is_problem(await api.client.get(f"/api/v1/erasures/{id_}"), 404, "not-found")
