"""Inputs that broke others, at the door: stored as they are, or refused with the place named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apps.chat.models import Message
from tests.api.conftest import Api, is_problem, message, one_database, pointers

KEPT_TEXTS = {
    "invisible times": "fr\u2062ee m\u200bon\u2068ey",
    "soft hyphens": "ca\u00adsi\u00adno",
    "word joiner, variation selector, tag": "ga\u2060me\ufe0f\U000e0067",
    "joiner that is needed": "می\u200cخواهم",
    "emoji joiner": "👨\u200d👩\u200d👧\u200d👦 🇨🇭 👍🏽",
    "England's flag": "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "look-alikes": "fr\u0435\u0435 m\u043en\u0435y ｆｒｅｅ",
    "mathematical letters": "\U0001d41f\U0001d42b\U0001d41e\U0001d41e",
    "spaced": "加 微 信 加-薇-芯 c a s i n o",
    "stretched and leet": "freeeee fr33 m0n3y 6 itch",
    "links": "https://example.com/%66%72%65%65 http://xn--80ak6aa92e.com",
    "byte-order mark": "\ufeffhello",
    "only a byte-order mark": "\ufeff",
    "only emoji": "🎉🎉🎉",
    "only spaces": "   \u3000\n\t",
    "only invisible": "\u200b\u200d\u2060",
    "right-to-left override": "\u202egnp.exe",
    "Zalgo": "h" + "\u0301\u0336\u0489" * 40,
    "formula": "=HYPERLINK(A1)",
    "pattern characters": "b**p $x Co(de \\d+ %s {} '; DROP TABLE x; --",
    "control characters": "bell \x07 escape \x1b[31m delete \x7f",
    "line ends": "a\r\nb\u2028c\u0085d",
    "non-characters": "\ufffe\uffff\U0010ffff",
    "quotes and colons": '{"text": "a:b", "\\": [1,2]}',
    "one long line": "x" * 20_000,
    "four bytes each": "🀄" * 20_000,
}


transactional_db = one_database


async def newest() -> Message:
    row = await Message.objects.select_related("sender").order_by("-id").afirst()
    assert row is not None
    return row


@pytest.mark.parametrize("text", KEPT_TEXTS.values(), ids=KEPT_TEXTS.keys())
@pytest.mark.parametrize("escaped", [True, False], ids=["escaped", "raw"])
async def test_a_text_is_kept_as_it_came(api: Api, text: str, escaped: bool) -> None:
    body = json.dumps(
        message(text=text, sender={"id": "u", "name": text[:200]}), ensure_ascii=escaped
    )
    answer = await api.send(body.encode())

    assert answer.status_code == 201, answer.text
    row = await newest()
    assert row.text == text
    assert row.sender.name == text[:200]


async def test_an_id_may_be_any_text(api: Api) -> None:
    odd = "\u202e=a/b?c#d&e%00 ✓" + "🀄" * 180
    stored = await api.post(message(external_id=odd, group=odd, sender={"id": odd}))

    assert stored.status_code == 201
    answer = await api.client.get("/api/v1/messages", params={"group": odd, "external_id": odd})
    assert [m["external_id"] for m in answer.json()["messages"]] == [odd]


REFUSED_FIELDS: list[tuple[str, dict[str, Any], str]] = [
    ("empty text", {"text": ""}, "/text"),
    ("text too long", {"text": "x" * 20_001}, "/text"),
    ("15,000 family emoji", {"text": "👨\u200d👩\u200d👧" * 15_000}, "/text"),
    ("a megabyte in one line", {"text": "x" * 1_000_000}, "/text"),
    ("text is null", {"text": None}, "/text"),
    ("text is a number", {"text": 5}, "/text"),
    ("text is a list", {"text": ["hello"]}, "/text"),
    ("NUL in the text", {"text": "a\x00b"}, "/text"),
    ("NUL in the group", {"group": "a\x00b"}, "/group"),
    ("NUL in the external id", {"external_id": "\x00"}, "/external_id"),
    ("NUL in the sender's name", {"sender": {"id": "u", "name": "a\x00"}}, "/sender/name"),
    ("NUL in the quoted text", {"quoted_text": "\x00"}, "/quoted_text"),
    ("NUL in reply_to", {"reply_to": "\x00"}, "/reply_to"),
    ("NUL in a metadata value", {"metadata": {"a": {"b": ["\x00"]}}}, "/metadata/a/b/0"),
    ("NUL in a metadata key", {"metadata": {"a": {"x\x00": 1}}}, "/metadata/a"),
    ("half a pair in the text", {"text": "a\ud83d"}, "/text"),
    ("the other half", {"text": "\ude00b"}, "/text"),
    ("half a pair in the group", {"group": "\ud83d"}, "/group"),
    ("half a pair in the sender", {"sender": {"id": "\ud83d"}}, "/sender/id"),
    ("half a pair in the metadata", {"metadata": {"a": "\ud83d"}}, "/metadata/a"),
    ("empty group", {"group": ""}, "/group"),
    ("group too long", {"group": "g" * 201}, "/group"),
    ("empty external id", {"external_id": ""}, "/external_id"),
    ("external id too long", {"external_id": "🀄" * 201}, "/external_id"),
    ("external id is a number", {"external_id": 12}, "/external_id"),
    ("sender is a string", {"sender": "u-1"}, "/sender"),
    ("sender without id", {"sender": {"name": "Ada"}}, "/sender/id"),
    ("sender's name too long", {"sender": {"id": "u", "name": "n" * 201}}, "/sender/name"),
    ("revision 0", {"revision": 0}, "/revision"),
    ("revision -1", {"revision": -1}, "/revision"),
    ("revision beyond 32 bits", {"revision": 2**31}, "/revision"),
    ("revision beyond 64 bits", {"revision": 2**70}, "/revision"),
    ("revision is a fraction", {"revision": 1.5}, "/revision"),
    ("revision is a string", {"revision": "1"}, "/revision"),
    ("revision is true", {"revision": True}, "/revision"),
    ("revision is null", {"revision": None}, "/revision"),
    ("a field that there isn't", {"txt": "hello"}, "/txt"),
    ("a field with a pointer's own characters", {"a/b~c": 1}, "/a~1b~0c"),
    ("quoted text too long", {"quoted_text": "x" * 20_001}, "/quoted_text"),
    ("reply_to too long", {"reply_to": "x" * 201}, "/reply_to"),
    ("metadata is a list", {"metadata": [1]}, "/metadata"),
    ("metadata is a string", {"metadata": "a:b"}, "/metadata"),
    ("metadata too large", {"metadata": {"a": "x" * 8_192}}, "/metadata"),
    ("metadata too deep", {"metadata": {"a": [[[[[[[[1]]]]]]]]}}, "/metadata"),
    ("metadata with a number beyond 64 bits", {"metadata": {"n": 2**64}}, "/metadata/n"),
    ("epoch milliseconds", {"sent_at": 1764504000000}, "/sent_at"),
    ("epoch milliseconds as a string", {"sent_at": "1764504000000"}, "/sent_at"),
    ("no offset", {"sent_at": "2026-11-30T12:00:00"}, "/sent_at"),
    ("a date that there isn't", {"sent_at": "2026-02-30T12:00:00Z"}, "/sent_at"),
    ("an hour that there isn't", {"sent_at": "2026-11-30T25:00:00Z"}, "/sent_at"),
    ("only a date", {"sent_at": "2026-11-30"}, "/sent_at"),
    ("words", {"sent_at": "yesterday"}, "/sent_at"),
    ("beyond year 9999 in UTC", {"sent_at": "9999-12-31T23:59:59-01:00"}, "/sent_at"),
    ("before year 1 in UTC", {"sent_at": "0001-01-01T00:00:00+14:00"}, "/sent_at"),
]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [case[1:] for case in REFUSED_FIELDS],
    ids=[case[0] for case in REFUSED_FIELDS],
)
async def test_a_bad_field_is_named_and_its_batch_siblings_are_stored(
    api: Api, fields: dict[str, Any], pointer: str
) -> None:
    bad = message(**fields)
    before = await Message.objects.acount()

    problem = is_problem(await api.send(json.dumps(bad).encode()), 422, "invalid-request")
    assert pointers(problem) == [pointer]
    assert await Message.objects.acount() == before

    body = json.dumps({"messages": [message(), bad, message(text="a: b")]})
    answer = await api.send(body.encode(), "/api/v1/messages:batch")
    assert answer.status_code == 200, answer.text
    results = answer.json()["results"]
    assert [result["status"] for result in results] == [201, 422, 201]
    assert pointers(results[1]["problem"]) == [f"/messages/1{pointer}"]
    assert await Message.objects.acount() == before + 2


@pytest.mark.parametrize("name", ["group", "external_id", "sender", "text"])
async def test_a_missing_field_is_named(api: Api, name: str) -> None:
    body = message()
    del body[name]
    problem = is_problem(await api.post(body), 422, "invalid-request")
    assert pointers(problem) == [f"/{name}"]


@pytest.mark.parametrize(
    ("sent_at", "stored"),
    [
        ("2026-11-30T12:00:00Z", "2026-11-30T12:00:00+00:00"),
        ("2026-11-30T12:00:00.123456+14:00", "2026-11-29T22:00:00.123456+00:00"),
        ("2026-11-30T00:00:00-12:00", "2026-11-30T12:00:00+00:00"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59+00:00"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+00:00"),
        (None, None),
    ],
)
async def test_times_are_stored_in_utc(api: Api, sent_at: str | None, stored: str | None) -> None:
    assert (await api.post(message(sent_at=sent_at))).status_code == 201
    row = await newest()
    assert (row.sent_at.isoformat() if row.sent_at else None) == stored


@pytest.mark.parametrize(
    ("metadata", "stored"),
    [
        (b'{"a":1e-20000}', {"a": 0}),
        (b'{"a":-0.0,"b":[true,null,"x:y"]}', {"a": -0.0, "b": [True, None, "x:y"]}),
        (b'{"a":9223372036854775807}', {"a": 2**63 - 1}),
        (b'{"\\u003a":{"":{}}}', {":": {"": {}}}),
        (b"{}", {}),
        (b"null", None),
    ],
)
async def test_metadata_is_kept(api: Api, metadata: bytes, stored: Any) -> None:
    body = json.dumps(message(metadata="HERE")).encode().replace(b'"HERE"', metadata)
    assert (await api.send(body)).status_code == 201
    assert (await newest()).metadata == stored


async def test_nulls_stand_for_what_is_not_given(api: Api) -> None:
    nothing = dict.fromkeys(("sent_at", "reply_to", "quoted_text", "metadata"))
    answer = await api.post(message(sender={"id": "u", "name": None}, **nothing))
    assert answer.status_code == 201


GOOD = json.dumps(message())
MALFORMED = {
    "nothing": b"",
    "spaces": b"  ",
    "cut off": GOOD[:-1].encode(),
    "trailing text": GOOD.encode() + b"x",
    "two documents": GOOD.encode() * 2,
    "single quotes": GOOD.replace('"', "'").encode(),
    "NUL byte": GOOD.replace("hello", "a\x00b").encode(),
    "raw control character": GOOD.replace("hello", "a\nb").encode(),
    "not UTF-8": GOOD.replace("hello", "h\xe9llo").encode("latin-1"),
    "encoded surrogate": GOOD.encode().replace(b"hello", b"\xed\xa0\xbd"),
    "UTF-16": GOOD.encode("utf-16"),
    "byte-order mark": b"\xef\xbb\xbf" + GOOD.encode(),
    "nested beyond the stack": b"[" * 100_000,
    "closed and nested beyond the stack": b'{"metadata":' * 9_000 + b"1" + b"}" * 9_000,
    "a number of 10,000 digits": GOOD.replace('"hello"', "9" * 10_000).encode(),
    "bad escape": GOOD.replace("hello", "\\q").encode(),
}


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED.keys())
@pytest.mark.parametrize("path", ["/api/v1/messages", "/api/v1/messages:batch"])
async def test_a_body_that_is_no_json_is_refused(api: Api, raw: bytes, path: str) -> None:
    before = await Message.objects.acount()
    answer = await api.send(raw, path)
    slug = {400: "malformed-json", 422: "invalid-request"}[answer.status_code]
    is_problem(answer, answer.status_code, slug)
    assert await Message.objects.acount() == before


@pytest.mark.parametrize("raw", [b"null", b"[]", b"5", b'"text"', b"true", b"{}", b"NaN", b"[{}]"])
@pytest.mark.parametrize("path", ["/api/v1/messages", "/api/v1/messages:batch"])
async def test_json_of_the_wrong_kind_is_refused(api: Api, raw: bytes, path: str) -> None:
    is_problem(await api.send(raw, path), 422, "invalid-request")


@pytest.mark.parametrize(
    ("old", "new", "pointer"),
    [
        ('"text": "hello"', '"text": "hello", "text": "buy gold"', "/text"),
        ('"text": "hello"', '"text": "buy: gold", "te\\u0078t": "hello"', "/text"),
        ('"text": "hello"', '"text": "a\\u003ab", "text": "hello"', "/text"),
        ('{"id": "u-1"}', '{"id": "u-1", "id": "u-2"}', "/sender/id"),
        ('"text"', '"metadata": {"a": 1, "a": 2}, "text"', "/metadata/a"),
        ('"text"', '"revision": 1, "revision": 2, "text"', "/revision"),
        ('"hello"', "NaN", "/text"),
        ('"text"', '"metadata": {"a": Infinity}, "text"', "/metadata/a"),
        ('"text"', '"metadata": {"a": 1e999}, "text"', "/metadata/a"),
    ],
)
async def test_keys_given_twice_and_numbers_json_lacks_are_refused(
    api: Api, old: str, new: str, pointer: str
) -> None:
    raw = json.dumps(message()).replace(old, new, 1)
    problem = is_problem(await api.send(raw.encode()), 422, "invalid-request")
    assert pointers(problem) == [pointer]

    body = f'{{"messages": [{json.dumps(message())}, {raw}]}}'
    answer = await api.send(body.encode(), "/api/v1/messages:batch")
    results = answer.json()["results"]
    assert [result["status"] for result in results] == [201, 422]
    assert pointers(results[1]["problem"]) == [f"/messages/1{pointer}"]


async def test_a_batch_given_twice_in_one_body_is_refused(api: Api) -> None:
    body = f'{{"messages": [], "messages": [{json.dumps(message())}]}}'
    problem = is_problem(
        await api.send(body.encode(), "/api/v1/messages:batch"), 422, "invalid-request"
    )
    assert pointers(problem) == ["/messages"]


async def test_texts_that_look_empty_are_not_taken_for_each_other(api: Api) -> None:
    results = await api.batch([message(text=text) for text in (" ", "\u200b", "\ufeff", " ")])
    assert len({result["message"]["id"] for result in results}) == 4


async def test_no_answer_repeats_what_a_message_says(api: Api) -> None:
    secret = "hunter2"
    answers = [
        await api.post(message(text=secret * 3_000)),
        await api.post(message(text=[secret])),
        await api.send(json.dumps(message(text=f"{secret}\ud83d")).encode()),
        await api.send(json.dumps(message(text=secret))[:-1].encode()),
    ]
    assert {answer.status_code for answer in answers} == {400, 422}
    assert not any(secret in answer.text for answer in answers)
