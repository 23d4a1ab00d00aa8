"""/metrics answers who may ask, over the site's own ASGI entry, and says why it doesn't."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.django_db(transaction=True)


@asynccontextmanager
async def caller(address: str) -> AsyncIterator[httpx.AsyncClient]:
    # Not at the top: Django's handler looks for the static files, which a fixture collects.
    from moderation_site.asgi import application

    app: Any = application  # the types of two ASGI descriptions differ
    transport = httpx.ASGITransport(app, client=(address, 40_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://10.1.2.3:8000") as client:
        yield client


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_callers_on_this_machine_are_answered(address: str) -> None:
    async with caller(address) as client:
        answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = {family.name for family in text_string_to_metric_families(answer.text)}
    assert {"chatwarden_messages_received", "chatwarden_backlog_messages"} <= families


async def test_other_machines_need_a_token() -> None:
    async with caller("10.0.0.7") as client:
        answer = await client.get("/metrics")
    assert (answer.status_code, "METRICS_TOKEN" in answer.text) == (403, True)


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"])
async def test_a_proxy_on_this_machine_is_not_this_machine(header: str) -> None:
    async with caller("127.0.0.1") as client:
        answer = await client.get("/metrics", headers={header: "10.0.0.7"})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("sent", "status"),
    [("Bearer s3same", 200), ("bearer s3same", 200), ("Bearer wrong", 401), ("Basic s3same", 401)],
)
async def test_the_token_opens_it_from_anywhere(settings: Any, sent: str, status: int) -> None:
    settings.METRICS_TOKEN = "s3same"
    async with caller("10.0.0.7") as client:
        answer = await client.get("/metrics", headers={"Authorization": sent})
    assert answer.status_code == status


async def test_with_a_token_set_this_machine_needs_it_too(settings: Any) -> None:
    settings.METRICS_TOKEN = "s3same"
    async with caller("127.0.0.1") as client:
        answer = await client.get("/metrics")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


async def test_nothing_can_be_posted() -> None:
    async with caller("127.0.0.1") as client:
        answer = await client.post("/metrics")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
