"""Health, readiness, the API's own description, and how fast it all is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import connection

from apps.api.database import DatabaseThreads
from apps.api.http import Request, Response
from apps.api.problems import FieldError, invalid
from apps.api.schemas import MOST_WINDOW_S, WINDOW_S, HealthOut, StageOut, StagesOut
from apps.scoring.stages import StageLatency, stage_latencies


class SystemOperations:
    """None of it tells anything about messages; only how fast they are judged needs a key."""

    def __init__(self, database: DatabaseThreads, document: Callable[[], dict[str, Any]]) -> None:
        self._database = database
        self._document = document

    async def healthz(self, request: Request) -> Response:
        return Response.json(HealthOut("ok"))

    async def readyz(self, request: Request) -> Response:
        await self._database.run(_ask_database)
        return Response.json(HealthOut("ready"))

    async def stages(self, request: Request) -> Response:
        window_s = _window_s(request.query(frozenset({"window_s"})).get("window_s", ""))
        found = await self._database.run(partial(stage_latencies, timedelta(seconds=window_s)))
        return Response.json(StagesOut(window_s, [_stage(each) for each in found]))

    async def openapi(self, request: Request) -> Response:
        return Response.json(self._document())


def _window_s(value: str) -> int:
    if not value:
        return WINDOW_S
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 6 else 0
    if not 0 < number <= MOST_WINDOW_S:
        detail = f"must be a whole number from 1 to {MOST_WINDOW_S}"
        raise invalid([FieldError(detail, parameter="window_s")])
    return number


def _stage(latency: StageLatency) -> StageOut:
    values = asdict(latency)
    milliseconds = {
        name: round(values.pop(name), 3) for name in list(values) if name.endswith("_ms")
    }
    return StageOut(**values, **milliseconds)


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
