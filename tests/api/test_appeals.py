"""Appeals over REST: once a decision, clear refusals, and what became of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from apps.chat.models import Message
from apps.policies.models import Action, Label
from apps.review.models import Appeal
from apps.review.services.appeals import decide_appeal
from apps.review.services.decisions import Choice
from apps.review.services.leases import open_item
from tests.api.conftest import Api, is_problem, message, one_database, pointers
from tests.api.test_openapi import is_described
from tests.factories import UserFactory, VerdictFactory

transactional_db = one_database
PATH = "/api/v1/appeals"


async def removed(api: Api) -> dict[str, Any]:
    """A message that the policy removed."""
    sent = message()
    answer = await api.post(sent)
    row = await Message.objects.aget(pk=int(answer.json()["id"]))
    await sync_to_async(VerdictFactory)(message=row, action=Action.REMOVE)
    return {**sent, "id": answer.json()["id"]}


def appeal(sent: dict[str, Any], **fields: Any) -> dict[str, Any]:
    key = {"group": sent["group"], "external_id": sent["external_id"]}
    return {**key, "appellant_id": "u-1", "text": "It was a joke", **fields}


def overturn(message_id: int) -> None:
    user = UserFactory()
    lease = open_item(user, message_id)
    choice = Choice(Action.ALLOW, Label.OK, "We were wrong.")
    decide_appeal(user, message_id, token=lease.token, version=lease.version, choice=choice)


async def test_appeal_is_opened_once_and_tells_what_became_of_it(api: Api) -> None:
    sent = await removed(api)
    first = await api.post(appeal(sent), PATH)
    again = await api.post(appeal(sent, text="other words"), PATH)
    is_described(first, "POST", PATH)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert again.headers["idempotent-replay"] == "true"
    opened = first.json()
    assert (opened["status"], opened["action"], opened["label"]) == ("open", "remove", "spam")

    await sync_to_async(overturn)(int(sent["id"]))
    answer = await api.client.get(first.headers["location"])
    is_described(answer, "GET", "/api/v1/appeals/{id}")
    found = answer.json()
    assert (found["status"], found["reason"]) == ("overturned", "We were wrong.")
    assert found["decided_at"]
    assert (await api.get(sent["id"]))["verdict"]["action"] == "allow"
    assert (await api.post(appeal(sent), PATH)).json() == found


async def test_deletion_withdraws_an_appeal(api: Api) -> None:
    sent = await removed(api)
    opened = await api.post(appeal(sent), PATH)
    await api.client.delete(f"/api/v1/messages/{sent['id']}")
    found = await api.client.get(opened.headers["location"])
    assert found.json()["status"] == "withdrawn"


async def test_nothing_to_appeal_is_a_clear_409(api: Api) -> None:
    sent = message()
    await api.post(sent)
    answer = await api.post(appeal(sent), PATH)
    is_described(answer, "POST", PATH)
    is_problem(answer, 409, "nothing-to-appeal")
    assert not await Appeal.objects.filter(item__message__external_id=sent["external_id"]).aexists()


async def test_unknown_message_is_a_clear_404(api: Api) -> None:
    problem = is_problem(await api.post(appeal(message()), PATH), 404, "no-such-message")
    assert pointers(problem) == ["/external_id"]


@pytest.mark.parametrize("id_", ["0", "99999999999999999999", "x", "9223372036854775808", "-1"])
async def test_unknown_appeal_is_a_404(api: Api, id_: str) -> None:
    answer = await api.client.get(f"{PATH}/{id_}")
    is_described(answer, "GET", "/api/v1/appeals/{id}")
    is_problem(answer, 404, "not-found")


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"text": ""}, "/text"),
        ({"text": "x" * 2_001}, "/text"),
        ({"text": "a\x00"}, "/text"),
        ({"text": "\ude00"}, "/text"),
        ({"text": None}, "/text"),
        ({"appellant_id": ""}, "/appellant_id"),
        ({"appellant_id": ["u"]}, "/appellant_id"),
        ({"message_id": "1"}, "/group"),
        ({"note": "x"}, "/note"),
    ],
)
async def test_bad_field_is_named(api: Api, fields: dict[str, Any], pointer: str) -> None:
    body = json.dumps(appeal(message(), **fields)).encode()
    problem = is_problem(await api.send(body, PATH), 422, "invalid-request")
    assert pointers(problem) == [pointer]


@pytest.mark.parametrize("raw", [b"null", b"[]", b"", b"{", b"NaN"])
async def test_body_that_is_no_appeal_is_refused(api: Api, raw: bytes) -> None:
    answer = await api.send(raw, PATH)
    assert answer.status_code in (400, 422)
    is_described(answer, "POST", PATH)
