"""Who is calling: `Authorization: Bearer KEY`."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from apps.accounts.keys import KeyCache, write_use
from apps.accounts.models import ApiKey
from apps.api.database import DatabaseThreads
from apps.api.http import Request
from apps.api.problems import UNAUTHENTICATED, Problem

log = logging.getLogger(__name__)


class Authenticator:
    """Checks keys from memory; asks the database once however many requests wait for it."""

    def __init__(self, database: DatabaseThreads, cache: KeyCache | None = None) -> None:
        self._database = database
        self._cache = cache or KeyCache()
        self._asking: dict[str, asyncio.Task[ApiKey | None]] = {}
        self._writing: set[asyncio.Task[None]] = set()

    async def key_of(self, request: Request) -> ApiKey:
        """The key of the caller. Raises Problem: 401, or 503 when it can't be checked."""
        secret = _bearer(request.headers.get(b"authorization"))
        cached = self._cache.remembers(secret)
        key = self._cache.find(secret) if cached else await self._ask(secret)
        if key is None:
            raise _unauthenticated("The API key is unknown, revoked or expired.")
        if self._cache.use_is_due(key):
            self._write_use(key)
        return key

    async def close(self) -> None:
        """Return once nothing of ours runs in the database threads."""
        await asyncio.gather(*self._writing, *self._asking.values(), return_exceptions=True)

    async def _ask(self, secret: str) -> ApiKey | None:
        task = self._asking.get(secret)
        if task is None:
            task = asyncio.create_task(self._database.run(partial(self._cache.find, secret)))
            self._asking[secret] = task
            task.add_done_callback(lambda _: self._asking.pop(secret, None))
        return await asyncio.shield(task)

    def _write_use(self, key: ApiKey) -> None:
        task = asyncio.create_task(self._try_to_write_use(key.pk))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _try_to_write_use(self, key_id: int) -> None:
        try:
            await self._database.run(partial(write_use, key_id))
        except Problem:
            log.warning("The last use of API key %s was not written: the database is away", key_id)


def _bearer(header: bytes | None) -> str:
    if header is None:
        raise _unauthenticated("The request has no Authorization header.")
    scheme, _, secret = header.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise _unauthenticated("The Authorization header is not of the form `Bearer KEY`.")
    return secret.strip()


def _unauthenticated(what: str) -> Problem:
    return Problem(
        UNAUTHENTICATED,
        f"{what} Nothing was done. Send `Authorization: Bearer KEY` with a key that an admin made.",
        headers=[(b"www-authenticate", b'Bearer realm="api"')],
    )
