"""What every call has in common: keys, problems, limits of the body, request ids."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import cast

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.db.backends.postgresql.base import DatabaseWrapper
from django.utils import timezone

from apps.accounts.models import ApiKey
from apps.api.app import ApiApp
from apps.api.schemas import BODY_MOST_BYTES
from apps.chat.models import Message
from tests.api.conftest import Api, is_problem, message, one_database

transactional_db = one_database


class TestKeys:
    @pytest.mark.parametrize(
        "header",
        [
            None,
            "",
            "Bearer",
            "Bearer ",
            "Basic dTpw",
            "Bearer cw_0_x",
            "Bearer cw_00000000_secret",
            "Bearer \xe9",
            "cw_00000000_secret",
        ],
    )
    async def test_a_call_without_a_good_key_is_refused(self, api: Api, header: str | None) -> None:
        headers = [] if header is None else [("Authorization", header.encode("latin-1"))]
        del api.client.headers["Authorization"]
        sent = message()
        answer = await api.client.request("POST", "/api/v1/messages", headers=headers, json=sent)

        is_problem(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"] == 'Bearer realm="api"'
        assert not await Message.objects.filter(external_id=sent["external_id"]).aexists()

    async def test_the_scheme_is_known_in_any_case(
        self, api: Api, secret: tuple[ApiKey, str]
    ) -> None:
        api.client.headers["Authorization"] = f"bearer  {secret[1]}"
        assert (await api.post(message())).status_code == 201

    @pytest.mark.parametrize("field", ["revoked_at", "expires_at"])
    async def test_an_ended_key_is_refused(self, api: Api, field: str) -> None:
        past = timezone.now() - timedelta(seconds=1)
        await ApiKey.objects.filter(pk=api.key.pk).aupdate(**{field: past})
        is_problem(await api.post(message()), 401, "unauthenticated")

    async def test_its_use_is_written_down(self, app: ApiApp, api: Api) -> None:
        await api.post(message())
        await app.close()
        key = await ApiKey.objects.aget(pk=api.key.pk)
        assert key.last_used_at is not None


class TestProblems:
    @pytest.mark.parametrize(
        "path",
        ["/api/", "/api/v1", "/api/v1/messages/", "/api/v2/messages", "/api/v1/messages/1/x"],
    )
    async def test_an_unknown_address_is_a_problem(self, api: Api, path: str) -> None:
        is_problem(await api.client.get(path), 404, "not-found")

    @pytest.mark.parametrize(
        ("method", "path", "allowed"),
        [
            ("PUT", "/api/v1/messages", "DELETE, GET, POST"),
            ("GET", "/api/v1/messages:batch", "POST"),
            ("PATCH", "/api/v1/messages/1", "DELETE, GET"),
            ("POST", "/healthz", "GET"),
            ("OPTIONS", "/api/v1/messages", "DELETE, GET, POST"),
        ],
    )
    async def test_an_unknown_method_names_those_that_there_are(
        self, api: Api, method: str, path: str, allowed: str
    ) -> None:
        answer = await api.client.request(method, path)
        is_problem(answer, 405, "method-not-allowed")
        assert answer.headers["allow"] == allowed

    async def test_a_fault_of_ours_tells_nothing_but_its_request_id(
        self, api: Api, app: ApiApp, caplog: pytest.LogCaptureFixture
    ) -> None:
        app.router.find("GET", "/api/v1/messages")  # the router is made
        operation = app.router.find("POST", "/api/v1/messages")[0]

        async def fail(request: object) -> None:
            raise ZeroDivisionError("the secret reason")

        object.__setattr__(operation, "handler", fail)
        problem = is_problem(await api.post(message(text="hunter2")), 500, "internal-error")

        assert "secret" not in str(problem)
        assert problem["request_id"] in caplog.text
        assert "hunter2" not in caplog.text


class TestRequestId:
    async def test_the_callers_own_is_used(self, api: Api) -> None:
        answer = await api.client.get("/healthz", headers={"X-Request-Id": "abc-1.2_3"})
        assert answer.headers["x-request-id"] == "abc-1.2_3"

    @pytest.mark.parametrize("given", ["", "a b", "x" * 65, "é".encode(), "<script>"])
    async def test_one_that_is_not_plain_and_short_is_replaced(
        self, api: Api, given: str | bytes
    ) -> None:
        answer = await api.client.get("/healthz", headers={"X-Request-Id": given})
        assert len(answer.headers["x-request-id"]) == 24


class TestBody:
    @pytest.mark.parametrize(
        "content_type",
        [
            "application/json",
            "application/json; charset=utf-8",
            'Application/JSON;charset="UTF-8"',
        ],
    )
    async def test_json_is_taken(self, api: Api, content_type: str) -> None:
        assert (await send(api, content_type)).status_code == 201

    @pytest.mark.parametrize(
        "content_type",
        ["", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"],
    )
    async def test_any_other_type_is_refused(self, api: Api, content_type: str) -> None:
        is_problem(await send(api, content_type), 415, "unsupported-media-type")

    async def test_a_packed_body_is_refused(self, api: Api) -> None:
        answer = await api.client.post(
            "/api/v1/messages", json=message(), headers={"Content-Encoding": "gzip"}
        )
        is_problem(answer, 415, "unsupported-media-type")

    async def test_one_that_says_it_is_too_large_is_not_read(self, api: Api) -> None:
        async def body() -> AsyncIterator[bytes]:
            pytest.fail("the body was read")
            yield b""

        answer = await api.client.post(
            "/api/v1/messages",
            content=body(),
            headers={
                "Content-Type": "application/json",
                "Content-Length": str(BODY_MOST_BYTES + 1),
            },
        )
        is_problem(answer, 413, "body-too-large")

    async def test_one_that_is_too_large_is_read_no_further_than_the_limit(
        self, app: ApiApp, secret: tuple[ApiKey, str]
    ) -> None:
        part = b" " * 65_536
        read = 0

        async def receive() -> dict[str, object]:
            nonlocal read
            read += len(part)
            return {"type": "http.request", "body": part, "more_body": True}

        status = await call(app, secret[1], receive)

        assert status == 413
        assert read <= BODY_MOST_BYTES + len(part)

    async def test_one_in_many_parts_is_taken(
        self, app: ApiApp, secret: tuple[ApiKey, str]
    ) -> None:
        parts = [bytes([byte]) for byte in json.dumps(message()).encode()]

        async def receive() -> dict[str, object]:
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}

        assert await call(app, secret[1], receive) == 201

    async def test_one_of_exactly_the_limit_is_taken(self, api: Api) -> None:
        body = json.dumps(message())
        answer = await api.send(body.ljust(BODY_MOST_BYTES).encode())
        assert answer.status_code == 201

    async def test_a_caller_that_hangs_up_half_way_stores_nothing(
        self, app: ApiApp, secret: tuple[ApiKey, str]
    ) -> None:
        events = [
            {"type": "http.request", "body": b'{"group":', "more_body": True},
            {"type": "http.disconnect"},
        ]

        async def receive() -> dict[str, object]:
            return events.pop(0)

        before = await Message.objects.acount()
        assert await call(app, secret[1], receive) is None
        assert await Message.objects.acount() == before


class TestHealth:
    async def test_is_alive_and_ready_without_a_key(self, api: Api) -> None:
        del api.client.headers["Authorization"]
        assert (await api.client.get("/healthz")).json() == {"status": "ok"}
        assert (await api.client.get("/readyz")).json() == {"status": "ready"}
        assert (await api.client.head("/healthz")).status_code == 200


@pytest.fixture
def own_session(secret: tuple[ApiKey, str]) -> int:
    """The session of the fixtures, which has to outlive the test."""
    connection.ensure_connection()
    return int(connection.connection.info.backend_pid)


class TestDatabaseRestarted:
    async def test_its_dead_connections_cost_no_error(self, api: Api, own_session: int) -> None:
        await asyncio.gather(*[api.post(message()) for _ in range(8)])
        for _ in range(3):
            await end_sessions_but(own_session)
            answers = await asyncio.gather(*[api.post(message()) for _ in range(8)])
            assert {answer.status_code for answer in answers} == {201}


class TestDatabaseAway:
    @pytest.fixture
    async def closed_database(
        self, api: Api, own_session: int, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[None]:
        """The key is known already; then all sessions end and new ones are refused."""
        await api.post(message())
        monkeypatch.setattr(cast(DatabaseWrapper, connection).pool, "timeout", 0.2)
        await allow_connections(False)
        await end_sessions_but(own_session)
        yield
        await allow_connections(True)

    async def test_every_call_says_to_come_back_and_later_takes_effect_once(
        self, api: Api, closed_database: None
    ) -> None:
        sent = message()
        for answer in await asyncio.gather(
            api.post(sent),
            api.post({"messages": [message()]}, "/api/v1/messages:batch"),
            api.client.get("/api/v1/messages/1"),
            api.client.delete("/api/v1/messages/1"),
            api.client.get("/readyz"),
        ):
            is_problem(answer, 503, "unavailable")
            assert int(answer.headers["retry-after"]) > 0
        assert (await api.client.get("/healthz")).status_code == 200

        await allow_connections(True)
        while (answer := await api.post(sent)).status_code == 503:
            pass
        assert answer.status_code == 201
        assert (await api.post(sent)).json() == answer.json()


@sync_to_async
def allow_connections(is_allowed: bool) -> None:
    with connection._nodb_cursor() as cursor:
        name = connection.ops.quote_name(connection.settings_dict["NAME"])
        cursor.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS {is_allowed}")


@sync_to_async
def end_sessions_but(pid: int) -> None:
    """As a restart of PostgreSQL does, but for the test's own two sessions."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid NOT IN (%s, pg_backend_pid())",
            [pid],
        )


async def send(api: Api, content_type: str) -> httpx.Response:
    headers = {"Content-Type": content_type} if content_type else {}
    body = json.dumps(message()).encode()
    return await api.client.post("/api/v1/messages", content=body, headers=headers)


async def call(app: ApiApp, secret: str, receive: object) -> int | None:
    """The status that the application answers a bare ASGI request with, if it does."""
    sent: list[dict[str, object]] = []

    async def send_(event: dict[str, object]) -> None:
        sent.append(event)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/messages",
        "query_string": b"",
        "headers": [
            (b"authorization", f"Bearer {secret}".encode()),
            (b"content-type", b"application/json"),
        ],
    }
    await app(scope, receive, send_)  # type: ignore[arg-type]
    return sent[0]["status"] if sent else None  # type: ignore[return-value]
