"""The threads in which the API's synchronous database code runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar, cast

from django.db import InterfaceError, OperationalError, connection, connections
from django.db.backends.postgresql.base import DatabaseWrapper
from psycopg_pool import PoolTimeout

from apps.api.problems import database_away

T = TypeVar("T")


class DatabaseThreads:
    """A few threads, each with a connection of its own that it keeps.

    Taking one from Django's pool for each call and giving it back costs more than the call. Each
    function that runs here can be run twice without harm, so a connection that turns out to be
    dead (PostgreSQL was restarted) costs a second try and no error.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._is_closed = False
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="api-database")

    async def run(self, function: Callable[[], T]) -> T:
        """What `function` returns. Raises Problem (503) when the database is away."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, _call, function)

    def close(self) -> None:
        """Wait for what runs, and give every thread's connection back."""
        if self._is_closed:
            return
        self._is_closed = True
        # At the barrier each thread holds one task, so each closes its own connection.
        together = Barrier(self._threads)
        for _ in range(self._threads):
            self._pool.submit(_close_connection, together)
        self._pool.shutdown(wait=True)


def _close_connection(together: Barrier) -> None:
    together.wait()
    connection.close()


def _call(function: Callable[[], T]) -> T:
    try:
        return function()
    except (OperationalError, InterfaceError) as error:
        connection.close()
        if isinstance(error.__cause__, PoolTimeout):
            raise database_away() from error
        return _call_again(function)


def _call_again(function: Callable[[], T]) -> T:
    try:
        # Its siblings are as dead: throw them out, or the second try gets one of them.
        pool = cast(DatabaseWrapper, connections["default"]).pool
        if pool is not None:
            pool.check()
        return function()
    except (OperationalError, InterfaceError) as error:
        connection.close()
        raise database_away() from error
