"""How PostgreSQL and Redis are: what the page says of the two servers that all else stands on."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

import redis
from django.conf import settings
from django.db import DatabaseError, connection

log = logging.getLogger(__name__)

READ_EVERY_S = 2.0
_TIMEOUT_S = 0.5
QUEUES = ("scoring", "default")

_POSTGRES = """
SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
  current_setting('max_connections')::int,
  (SELECT extract(epoch FROM clock_timestamp() - min(xact_start)) FROM pg_stat_activity
   WHERE state <> 'idle' AND backend_type = 'client backend' AND pid <> pg_backend_pid()),
  pg_database_size(current_database())
"""


@dataclass(frozen=True, slots=True)
class Postgres:
    """`answered_ms` is of one small query; `longest_s` of the oldest open transaction."""

    answered_ms: float
    connections: int
    most_connections: int
    longest_s: float | None
    size_mb: float


@dataclass(frozen=True, slots=True)
class Redis:
    """`queues` are Celery's: tasks that no worker has taken yet."""

    answered_ms: float
    memory_mb: float
    clients: int
    queues: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Stores:
    """None for one that does not answer."""

    postgres: Postgres | None
    redis: Redis | None


class _Reader:
    """Reads every `READ_EVERY_S` at most, for all threads of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: Stores | None = None
        self._read_at_s = 0.0
        self._redis = redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S
        )

    def get(self) -> Stores:
        with self._lock:
            now_s = time.monotonic()
            if self._read is None or now_s - self._read_at_s > READ_EVERY_S:
                self._read = Stores(_read_postgres(), self._read_redis())
                self._read_at_s = now_s
            return self._read

    def forget(self) -> None:
        with self._lock:
            self._read = None

    def _read_redis(self) -> Redis | None:
        started_s = time.monotonic()
        try:
            self._redis.ping()
            answered_ms = (time.monotonic() - started_s) * 1000
            info = self._redis.info()
            queues = tuple((name, self._length(name)) for name in QUEUES)
        except (redis.RedisError, OSError) as error:
            log.warning("Redis does not answer: %s", type(error).__name__)
            return None
        return Redis(answered_ms, info["used_memory"] / 1e6, info["connected_clients"], queues)

    def _length(self, queue: str) -> int:
        return int(self._redis.llen(f"{settings.REDIS_PREFIX}:celery:{queue}"))


def _read_postgres() -> Postgres | None:
    started_s = time.monotonic()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            answered_ms = (time.monotonic() - started_s) * 1000
            cursor.execute(_POSTGRES)
            connections, most, longest_s, size = cursor.fetchone()
    except DatabaseError as error:
        log.warning("PostgreSQL does not answer: %s", type(error).__name__)
        return None
    longest = None if longest_s is None else float(longest_s)
    return Postgres(answered_ms, connections, most, longest, size / 1e6)


_readers: dict[str, _Reader] = {}


def read_stores() -> Stores:
    """At most `READ_EVERY_S` old."""
    # Made when first asked for: tests change the address before.
    return _readers.setdefault(settings.REDIS_URL, _Reader()).get()


def forget_stores() -> None:
    """Read anew next time."""
    _readers.clear()
