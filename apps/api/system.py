"""Health, readiness and the API's own description."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connection

from apps.api.database import DatabaseThreads
from apps.api.http import Request, Response
from apps.api.schemas import HealthOut


class SystemOperations:
    """Needs no key: none of it tells anything about messages."""

    def __init__(self, database: DatabaseThreads, document: Callable[[], dict[str, Any]]) -> None:
        self._database = database
        self._document = document

    async def healthz(self, request: Request) -> Response:
        return Response.json(HealthOut("ok"))

    async def readyz(self, request: Request) -> Response:
        await self._database.run(_ask_database)
        return Response.json(HealthOut("ready"))

    async def openapi(self, request: Request) -> Response:
        return Response.json(self._document())


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
