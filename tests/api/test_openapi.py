"""The OpenAPI document is valid, complete, and true of what the API does, whatever it is sent."""

from __future__ import annotations

import json
from itertools import count
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from apps.api.app import ApiApp, operations
from apps.api.openapi import openapi_document
from apps.api.problems import ALL_KINDS
from tests.api.conftest import Api, message, one_database

transactional_db = one_database

DOCUMENT = json.loads(json.dumps(openapi_document(operations())))
_numbers = count()


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    # The components ride along, so that references within the document resolve.
    return Draft202012Validator({**schema, "components": DOCUMENT["components"]})


def is_described(answer: httpx.Response, method: str, path: str) -> None:
    """Checks an answer against the document: status, type, headers and body."""
    described = DOCUMENT["paths"][path][method.lower()]["responses"]
    assert str(answer.status_code) in described, (method, path, answer.text)
    response = described[str(answer.status_code)]
    assert "x-request-id" in answer.headers
    if "content" not in response:
        assert answer.content == b""
        return
    [[content_type, content]] = response["content"].items()
    assert answer.headers["content-type"] == content_type
    validator(content["schema"]).validate(answer.json())


class TestDocument:
    def test_is_valid_openapi(self) -> None:
        validate(DOCUMENT)
        assert DOCUMENT["openapi"].startswith("3.1")

    async def test_is_served_to_anybody(self, app: ApiApp) -> None:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            answer = await client.get("/api/v1/openapi.json")
        assert answer.json() == DOCUMENT

    def test_its_examples_are_valid(self) -> None:
        examples = 0
        for methods in DOCUMENT["paths"].values():
            for operation in methods.values():
                for content in operation.get("requestBody", {}).get("content", {}).values():
                    validator(content["schema"]).validate(content["example"])
                    examples += 1
        assert examples == 4

    def test_every_problem_is_described_somewhere(self) -> None:
        described = json.dumps(DOCUMENT["paths"])
        general = {"not-found", "method-not-allowed"}
        missing = {k.slug for k in ALL_KINDS if f"`{k.slug}`" not in described}
        assert missing <= general

    def test_says_what_the_limits_are(self) -> None:
        fields = DOCUMENT["components"]["schemas"]["MessageIn"]["properties"]
        assert (fields["text"]["minLength"], fields["text"]["maxLength"]) == (1, 20_000)
        assert fields["external_id"]["maxLength"] == 200
        batch = DOCUMENT["components"]["schemas"]["BatchIn"]["properties"]["messages"]
        assert batch["maxItems"] == 1_000


class TestTruth:
    async def test_of_calls_that_go_well(self, api: Api) -> None:
        sent = message(revision=3, quoted_text="x", metadata={"a": 1})
        stored = await api.post(sent)
        is_described(stored, "POST", "/api/v1/messages")
        path = f"/api/v1/messages/{stored.json()['id']}"
        is_described(await api.client.get(path), "GET", "/api/v1/messages/{id}")
        is_described(
            await api.post({"messages": [sent, None]}, "/api/v1/messages:batch"),
            "POST",
            "/api/v1/messages:batch",
        )
        is_described(await api.client.get("/api/v1/messages?ids=1"), "GET", "/api/v1/messages")
        is_described(await api.client.delete(path), "DELETE", "/api/v1/messages/{id}")

    @pytest.mark.parametrize("path", ["/healthz", "/readyz", "/api/v1/openapi.json"])
    async def test_of_the_system(self, api: Api, path: str) -> None:
        is_described(await api.client.get(path), "GET", path)


# ---------- fuzz: what the schemas allow, and what they don't ----------
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELDS = ["group", "external_id", "revision", "sender", "text", "sent_at", "reply_to"]
FIELDS += ["quoted_text", "metadata"]
CHANGES = st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=9), JSON, max_size=3)
GOOD_CHANGES = st.fixed_dictionaries(
    {"text": st.text(min_size=1, max_size=60).filter(lambda text: "\x00" not in text)},
    optional={"revision": st.integers(1, 2**31 - 1), "metadata": st.none()},
)
FUZZ = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@FUZZ
@given(changes=CHANGES | GOOD_CHANGES, raw=st.booleans())
async def test_any_message_is_answered_as_described(
    api: Api, changes: dict[str, Any], raw: bool
) -> None:
    body = {**message(group=f"fuzz-{next(_numbers)}"), **changes}
    answer = await api.send(json.dumps(body, ensure_ascii=not raw).encode("utf-8", "surrogatepass"))
    is_described(answer, "POST", "/api/v1/messages")
    allowed = {400, 409, 422}
    schema = DOCUMENT["components"]["schemas"]["MessageIn"]
    if answer.status_code == 201:
        validator(schema).validate(body)
    else:
        assert answer.status_code in allowed


@FUZZ
@given(items=st.lists(CHANGES | GOOD_CHANGES | JSON, max_size=6))
async def test_any_batch_is_answered_as_described(api: Api, items: list[Any]) -> None:
    group = f"fuzz-{next(_numbers)}"
    messages = [{**message(group=group), **i} if isinstance(i, dict) else i for i in items]
    answer = await api.send(json.dumps({"messages": messages}).encode(), "/api/v1/messages:batch")
    is_described(answer, "POST", "/api/v1/messages:batch")
    assert answer.status_code == 200
    assert [result["index"] for result in answer.json()["results"]] == list(range(len(items)))


@FUZZ
@given(
    query=st.dictionaries(
        st.sampled_from(["ids", "group", "external_id", "erase", "x"]), st.text() | st.just("true")
    )
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_any_query_is_answered_as_described(
    api: Api, query: dict[str, str], method: str
) -> None:
    clean = {name: value.encode("utf-8", "surrogatepass") for name, value in query.items()}
    answer = await api.client.request(method, "/api/v1/messages", params=clean)
    is_described(answer, method, "/api/v1/messages")


@FUZZ
@given(id_=st.text(min_size=1) | st.integers().map(str))
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_any_id_is_answered_as_described(api: Api, id_: str, method: str) -> None:
    # Dots alone are steps in a path, which clients take themselves.
    quoted = quote(id_, safe="", errors="replace").replace(".", "%2E")
    answer = await api.client.request(method, f"/api/v1/messages/{quoted}")
    is_described(answer, method, "/api/v1/messages/{id}")
