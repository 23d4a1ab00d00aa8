"""The API as its callers meet it: the real application on real PostgreSQL, called over ASGI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.db import connections
from pytest_django import DjangoDbBlocker

from apps.accounts.models import ApiKey
from apps.accounts.services import create_api_key
from apps.api.app import ApiApp

_numbers = count(1)


class Api:
    """A backend with a key."""

    def __init__(self, client: httpx.AsyncClient, key: ApiKey) -> None:
        self.client = client
        self.key = key

    async def post(self, body: Any, path: str = "/api/v1/messages") -> httpx.Response:
        return await self.client.post(path, json=body)

    async def send(self, raw: bytes, path: str = "/api/v1/messages") -> httpx.Response:
        """The body as it is, bytes that are no JSON included."""
        headers = {"Content-Type": "application/json"}
        return await self.client.post(path, content=raw, headers=headers)

    async def batch(self, messages: list[Any]) -> list[dict[str, Any]]:
        answer = await self.post({"messages": messages}, "/api/v1/messages:batch")
        assert answer.status_code == 200, answer.text
        results: list[dict[str, Any]] = answer.json()["results"]
        assert [result["index"] for result in results] == list(range(len(messages)))
        return results

    async def get(self, message_id: str) -> dict[str, Any]:
        answer = await self.client.get(f"/api/v1/messages/{message_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


def message(**fields: Any) -> dict[str, Any]:
    """A valid message with an id of its own."""
    return {
        "group": "guild",
        "external_id": f"m-{next(_numbers)}",
        "sender": {"id": "u-1"},
        "text": "hello",
        **fields,
    }


@pytest.fixture(scope="module")
def one_database(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """For modules whose tests don't mind each other's rows: emptied once, not after each.

    Such a module says `transactional_db = one_database`.
    """
    with django_db_blocker.unblock():
        yield
        call_command("flush", interactive=False, verbosity=0, inhibit_post_migrate=True)


@pytest.fixture
async def app() -> AsyncIterator[ApiApp]:
    app = ApiApp()
    yield app
    await app.close()
    # The thread in which the tests' own queries ran.
    await sync_to_async(connections.close_all)()


@pytest.fixture
def secret(transactional_db: None) -> tuple[ApiKey, str]:
    return create_api_key(name="backend")


@pytest.fixture
async def api(app: ApiApp, secret: tuple[ApiKey, str]) -> AsyncIterator[Api]:
    key, bearer = secret
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app),
        base_url="http://testserver",
        headers={"Authorization": f"Bearer {bearer}"},
    ) as client:
        yield Api(client, key)


def is_problem(answer: httpx.Response, status: int, slug: str) -> dict[str, Any]:
    """Checks that an answer is this RFC 9457 problem, and returns it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["type"] == f"/api/v1/docs#{slug}"
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"].endswith(".")
    assert problem["request_id"] == answer.headers["x-request-id"]
    return problem


def pointers(problem: dict[str, Any]) -> list[str]:
    return [error["pointer"] for error in problem["errors"]]
