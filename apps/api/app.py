"""The API as one ASGI application, beside Django's and not inside it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

from apps.api.auth import Authenticator
from apps.api.collector import IngestCollector
from apps.api.database import DatabaseThreads
from apps.api.erasing import ErasureOperations
from apps.api.http import ClientGone, Receive, Request, Response, Scope, Send
from apps.api.messages import MessageOperations
from apps.api.openapi import openapi_document
from apps.api.operations import Operation, Router
from apps.api.people import PeopleOperations
from apps.api.problems import INTERNAL, Problem
from apps.api.routes import erasure_routes, message_routes, people_routes, system_routes
from apps.api.system import SystemOperations
from apps.chat.services import Ingested, NewMessage, Outcome, ingest_messages
from apps.scoring.hints import hint_scoring

log = logging.getLogger(__name__)

_DATABASE_THREADS = 4


class ApiApp:
    """Finds the operation, checks the key, answers; whatever goes wrong becomes a problem.

    Belongs to one event loop. `close` answers what was accepted before it returns.
    """

    def __init__(self, database_threads: int = _DATABASE_THREADS) -> None:
        self._database = DatabaseThreads(database_threads)
        self._collector = IngestCollector(self._store)
        self._authenticator = Authenticator(self._database)

    @cached_property
    def router(self) -> Router:
        system = SystemOperations(self._database, lambda: self._document)
        return Router(
            [
                *message_routes(MessageOperations(self._collector, self._database)),
                *people_routes(PeopleOperations(self._database)),
                *erasure_routes(ErasureOperations(self._database)),
                *system_routes(system),
            ]
        )

    @cached_property
    def _document(self) -> dict[str, Any]:
        return openapi_document(self.router.operations)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request.of(scope, receive)
        try:
            response = await self._answer(request)
        except ClientGone:
            return
        except Problem as problem:
            response = Response.problem(problem, request.request_id)
        except Exception:
            log.exception("Request %s failed", request.request_id)
            response = Response.problem(_internal_error(), request.request_id)
        await response.send(send, request.request_id)

    async def close(self) -> None:
        await self._collector.close()
        await self._authenticator.close()
        self._database.close()

    async def _answer(self, request: Request) -> Response:
        operation, request.path_values = self.router.find(
            request.scope["method"], request.scope["path"]
        )
        if operation.needs_key:
            request.key = await self._authenticator.key_of(request)
        return await operation.handler(request)

    async def _store(self, messages: list[NewMessage]) -> list[Ingested]:
        stored = await self._database.run(partial(ingest_messages, messages=messages))
        if any(one.outcome is Outcome.NEW and not one.is_deleted for one in stored):
            hint_scoring()
        return stored


def operations() -> Sequence[Operation]:
    """The route table alone, for the documentation page."""
    return ApiApp().router.operations


def _internal_error() -> Problem:
    return Problem(
        INTERNAL,
        "The request met a fault of ours and may not have taken effect. Send it again; when it "
        "fails again, tell your operator the request_id.",
    )
