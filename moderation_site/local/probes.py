"""Ways to ask a server whether it really answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import redis.asyncio
import redis.exceptions

Probe = Callable[[], Awaitable[bool]]

ATTEMPT_TIMEOUT_S = 2.0


def http_ok(host: str, port: int, path: str) -> Probe:
    """A probe that is true when `GET path` answers 200."""

    async def probe() -> bool:
        try:
            async with asyncio.timeout(ATTEMPT_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(host, port)
                try:
                    request = (
                        f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
                    )
                    writer.write(request.encode())
                    status = await reader.readline()
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False
        return status.split()[1:2] == [b"200"]

    return probe


def listens(host: str, port: int) -> Probe:
    """A probe that is true when a connection is accepted."""

    async def probe() -> bool:
        try:
            async with asyncio.timeout(ATTEMPT_TIMEOUT_S):
                _, writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    return probe


def postgres_answers(database_url: str) -> Probe:
    """A probe that is true when a query on `database_url` returns."""

    async def probe() -> bool:
        try:
            connection = await psycopg.AsyncConnection.connect(
                database_url, connect_timeout=int(ATTEMPT_TIMEOUT_S), autocommit=True
            )
        except psycopg.OperationalError:
            return False
        async with connection:
            await connection.execute("SELECT 1")
        return True

    return probe


def redis_answers(redis_url: str) -> Probe:
    """A probe that is true when Redis answers a PING."""

    async def probe() -> bool:
        client = redis.asyncio.from_url(redis_url, socket_timeout=ATTEMPT_TIMEOUT_S)
        try:
            await client.ping()
        except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
            return False
        finally:
            await client.aclose()
        return True

    return probe
