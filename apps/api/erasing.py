"""Erasing senders, and asking how far it has come."""

from __future__ import annotations

from functools import partial

from django.core.exceptions import PermissionDenied

from apps.accounts.models import ApiKey
from apps.accounts.permissions import require_erasing
from apps.api.database import DatabaseThreads
from apps.api.http import Request, Response
from apps.api.ids import parse_id
from apps.api.problems import NOT_FOUND, NOT_PERMITTED, FieldError, Problem, invalid
from apps.api.schemas import ID_MOST_CHARS
from apps.api.selectors import as_erasure, find_erasure
from apps.review.services.erasure import request_erasure


class ErasureOperations:
    """The handlers, bound to the database threads of one process."""

    def __init__(self, database: DatabaseThreads) -> None:
        self._database = database

    async def erase_sender(self, request: Request) -> Response:
        sender = request.query(frozenset({"sender"})).get("sender", "")
        if not 0 < len(sender) <= ID_MOST_CHARS:
            detail = f"must be 1 to {ID_MOST_CHARS} characters long"
            raise invalid([FieldError(detail, parameter="sender")])
        key = erasing_key(request)
        erasure = await self._database.run(partial(request_erasure, sender, by=key))
        location = f"/api/v1/erasures/{erasure.pk}".encode()
        return Response.json(as_erasure(erasure), 202, [(b"location", location)])

    async def get(self, request: Request) -> Response:
        wanted = parse_id(request.path_values["id"])
        erasure = None
        if wanted is not None:
            erasure = await self._database.run(partial(find_erasure, wanted))
        if erasure is None:
            raise Problem(NOT_FOUND, "There is no erasure with this id. Check the id.")
        return Response.json(erasure)


def erasing_key(request: Request) -> ApiKey:
    """The caller's key, if it may erase: said as a problem before anything is asked for.

    The services ask again themselves.
    """
    key = request.key
    assert key is not None
    try:
        require_erasing(key)
    except PermissionDenied as error:
        raise Problem(
            NOT_PERMITTED,
            "Nothing was erased: this API key may not erase. An admin can make one that may.",
        ) from error
    return key
