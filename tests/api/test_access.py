"""Which operation asks for which kind of key: each is in the table, or a test fails."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from apps.accounts.models import ApiKey
from apps.accounts.services import create_api_key
from apps.api.app import ApiApp, operations
from apps.api.operations import Operation
from tests.api.conftest import is_problem, one_database

transactional_db = one_database

NONE, ANY, ERASING = "none", "any", "one that may erase"
# What follows the path, for an operation of which only a part takes more.
ASKED: dict[tuple[str, str], str] = {
    ("createMessage", ""): ANY,
    ("createMessages", ""): ANY,
    ("getMessage", ""): ANY,
    ("findMessages", "?ids=1"): ANY,
    ("deleteMessage", ""): ANY,
    ("deleteMessage", "?erase=true"): ERASING,
    ("deleteMessageByKey", "?group=g&external_id=m"): ANY,
    ("deleteMessageByKey", "?group=g&external_id=m&erase=true"): ERASING,
    ("createReport", ""): ANY,
    ("createAppeal", ""): ANY,
    ("getAppeal", ""): ANY,
    ("eraseSender", "?sender=u"): ERASING,
    ("getErasure", ""): ANY,
    ("getStages", ""): ANY,
    ("getOpenApi", ""): NONE,
    ("isAlive", ""): NONE,
    ("isReady", ""): NONE,
}
OPERATIONS = {operation.id: operation for operation in operations()}


def test_the_table_has_every_operation_and_no_other() -> None:
    assert {name for name, _ in ASKED} == set(OPERATIONS)


async def call(app: ApiApp, operation: Operation, more: str, bearer: str | None) -> httpx.Response:
    headers = {} if bearer is None else {"Authorization": f"Bearer {bearer}"}
    path = operation.path.replace("{id}", "987654321") + more
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
        return await client.request(
            operation.method, path, headers=headers, json={} if operation.body else None
        )


async def bearer_of(kind: str) -> str | None:
    """The secret of a key of this kind."""
    if kind == "none":
        return None
    key, secret = await sync_to_async(create_api_key)(name=kind, may_erase="erase" in kind)
    now = timezone.now()
    change = ApiKey.objects.filter(pk=key.pk).aupdate
    if kind.startswith("revoked"):
        await change(revoked_at=now)
    elif kind.startswith("expired"):
        await change(expires_at=now - timedelta(seconds=1))
    return secret


@pytest.mark.usefixtures("transactional_db")
@pytest.mark.parametrize(("name", "more"), ASKED, ids=[f"{n}{m}" for n, m in ASKED])
async def test_an_operation_asks_for_its_kind_of_key(app: ApiApp, name: str, more: str) -> None:
    asked = ASKED[name, more]
    answer = partial(call, app, OPERATIONS[name], more)
    useless = ("none", "revoked, may erase", "expired, may erase")
    for kind in useless:
        found = await answer(await bearer_of(kind))
        if asked == NONE:
            assert found.status_code == 200
        else:
            is_problem(found, 401, "unauthenticated")

    plain = await answer(await bearer_of("plain"))
    if asked == ERASING:
        # Said before it is told whether there is such a thing.
        is_problem(plain, 403, "not-permitted")
    else:
        assert plain.status_code not in {401, 403}
    assert (await answer(await bearer_of("may erase"))).status_code not in {401, 403}
