"""Reports over REST: once a person, clear refusals, hostile bodies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apps.chat.models import Message
from apps.review.models import Report
from tests.api.conftest import Api, is_problem, message, one_database, pointers
from tests.api.test_openapi import is_described

transactional_db = one_database
PATH = "/api/v1/reports"


async def stored(api: Api) -> dict[str, Any]:
    sent = message()
    answer = await api.post(sent)
    return {**sent, "id": answer.json()["id"]}


def report(sent: dict[str, Any], **fields: Any) -> dict[str, Any]:
    key = {"group": sent["group"], "external_id": sent["external_id"]}
    return {**key, "reporter_id": "u-9", "reason": "spam", **fields}


async def test_report_is_stored_and_a_repeat_answers_as_the_first(api: Api) -> None:
    sent = await stored(api)
    first = await api.post(report(sent, note="third time"), PATH)
    again = await api.post(report(sent, reason="toxic"), PATH)
    is_described(first, "POST", PATH)
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    assert first.json() == {
        "id": first.json()["id"],
        "message_id": sent["id"],
        "reason": "spam",
        "status": "waiting",
    }
    assert "idempotent-replay" not in first.headers
    assert again.headers["idempotent-replay"] == "true"


async def test_message_may_be_named_by_our_id(api: Api) -> None:
    sent = await stored(api)
    body = {"message_id": sent["id"], "reporter_id": "u", "reason": "danger", "note": None}
    answer = await api.post(body, PATH)
    assert (answer.status_code, answer.json()["message_id"]) == (201, sent["id"])


@pytest.mark.parametrize(
    ("named", "pointer"),
    [
        ({"group": "no", "external_id": "no"}, "/external_id"),
        ({"message_id": "1"}, "/message_id"),
        ({"message_id": "9999999999999999999"}, "/message_id"),
    ],
)
async def test_unknown_message_is_a_clear_404(
    api: Api, named: dict[str, str], pointer: str
) -> None:
    answer = await api.post({**named, "reporter_id": "u", "reason": "spam"}, PATH)
    is_described(answer, "POST", PATH)
    assert pointers(is_problem(answer, 404, "no-such-message")) == [pointer]


async def test_deleted_message_is_a_clear_404(api: Api) -> None:
    sent = await stored(api)
    await api.client.delete(f"/api/v1/messages/{sent['id']}")
    problem = is_problem(await api.post(report(sent), PATH), 404, "no-such-message")
    assert "deleted" in problem["detail"]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"reason": "dislike"}, "/reason"),
        ({"reason": None}, "/reason"),
        ({"reporter_id": ""}, "/reporter_id"),
        ({"reporter_id": "x" * 201}, "/reporter_id"),
        ({"reporter_id": 7}, "/reporter_id"),
        ({"reporter_id": "a\x00"}, "/reporter_id"),
        ({"note": "n" * 501}, "/note"),
        ({"note": "a\x00b"}, "/note"),
        ({"note": "\ud83d"}, "/note"),
        ({"note": ["x"]}, "/note"),
        ({"group": "a\x00"}, "/group"),
        ({"message_id": "12"}, "/group"),
        ({"message_id": "x"}, "/message_id"),
        ({"message_id": 12}, "/message_id"),
        ({"text": "x"}, "/text"),
    ],
)
async def test_bad_field_is_named(api: Api, fields: dict[str, Any], pointer: str) -> None:
    body = report(message(), **fields)
    problem = is_problem(await api.send(json.dumps(body).encode(), PATH), 422, "invalid-request")
    assert pointers(problem) == [pointer]


@pytest.mark.parametrize("name", ["group", "external_id", "reporter_id", "reason"])
async def test_missing_field_is_named(api: Api, name: str) -> None:
    body = report(message())
    del body[name]
    problem = is_problem(await api.post(body, PATH), 422, "invalid-request")
    assert pointers(problem) == [f"/{name}"]


@pytest.mark.parametrize(
    "raw", [b"null", b"[]", b"5", b"", b"{", b"NaN", b'{"note": ' + b"[" * 5_000, b"\xef\xbb\xbf{}"]
)
async def test_body_that_is_no_report_is_refused(api: Api, raw: bytes) -> None:
    answer = await api.send(raw, PATH)
    assert answer.status_code in (400, 422)
    is_described(answer, "POST", PATH)


async def test_key_given_twice_is_refused(api: Api) -> None:
    raw = json.dumps(report(message()))[:-1] + ', "reason": "toxic"}'
    problem = is_problem(await api.send(raw.encode(), PATH), 422, "invalid-request")
    assert pointers(problem) == ["/reason"]


@pytest.mark.parametrize(
    "note", ["\u202e" + "x" * 499, "z" + "\u0300" * 100, "👨\u200d👩\u200d👧" * 50, "=cmd()", " "]
)
async def test_hostile_notes_are_kept_as_they_are(api: Api, note: str) -> None:
    sent = await stored(api)
    answer = await api.post(report(sent, note=note), PATH)
    assert answer.status_code == 201
    assert (await Report.objects.aget(pk=int(answer.json()["id"]))).note == note
    assert (await Message.objects.aget(pk=int(sent["id"]))).text == sent["text"]


async def test_report_needs_a_key(api: Api) -> None:
    api.client.headers.pop("Authorization")
    is_problem(await api.post(report(message()), PATH), 401, "unauthenticated")
