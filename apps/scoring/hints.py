"""Waking a worker: a hint that may be lost, doubled or late, because PostgreSQL has the truth.

`hint_scoring` costs its caller some microseconds and never waits: a thread of this process does
the talking. Hints are merged twice: while that thread is at work, and across processes by a key
in Redis that stays until a worker begins to drain. A hint that finds the key needs no task of its
own, because the worker that will remove it has not looked at the database yet.
"""

from __future__ import annotations

import logging
import os
import threading

import redis
from celery import current_app
from django.conf import settings
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)

QUEUE = "scoring"
DRAIN_TASK = "apps.scoring.tasks.drain_pending"
# A key whose worker died or whose task was lost goes by itself; the next hint then gets through.
_KEY_LIVES_MS = 500
_TIMEOUT_S = 0.5


def _key() -> str:
    return f"{settings.REDIS_PREFIX}:scoring:hinted"


class Hinter:
    """This process's thread that turns wishes into tasks."""

    def __init__(self) -> None:
        self._redis = redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S
        )
        self._wanted = threading.Event()
        self._is_failing = False
        threading.Thread(target=self._run, name="scoring-hints", daemon=True).start()

    def want(self) -> None:
        self._wanted.set()

    def begin(self) -> None:
        """From now on a hint needs a task again. Call before looking for pending chunks."""
        try:
            self._redis.delete(_key())
        except (redis.RedisError, OSError) as error:
            self._tell_once(error)

    def tasks_waiting(self) -> int:
        """How many tasks Redis holds for scoring workers; 0 when it can't be asked."""
        try:
            return int(self._redis.llen(f"{settings.REDIS_PREFIX}:celery:{QUEUE}"))
        except (redis.RedisError, OSError) as error:
            self._tell_once(error)
            return 0

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            # Cleared first: a wish that comes while we send is sent once more.
            self._wanted.clear()
            self._send()

    def _send(self) -> None:
        try:
            if self._redis.set(_key(), 1, nx=True, px=_KEY_LIVES_MS):
                current_app.send_task(DRAIN_TASK, queue=QUEUE, retry=False, ignore_result=True)
        except (redis.RedisError, OperationalError, OSError) as error:
            self._tell_once(error)
            return
        if self._is_failing:
            log.warning("Hints to the scoring worker go out again")
            self._is_failing = False

    def _tell_once(self, error: Exception) -> None:
        """The worker looks for itself every second, so a lost hint is worth one line."""
        if not self._is_failing:
            log.warning("Hints to the scoring worker are lost: %s", type(error).__name__)
            self._is_failing = True


_hinters: dict[int, Hinter] = {}
_hinters_lock = threading.Lock()


def hinter() -> Hinter:
    """This process's own: a forked child has no thread of its parent's."""
    found = _hinters.get(os.getpid())
    if found is not None:
        return found
    with _hinters_lock:
        if os.getpid() not in _hinters:
            _hinters[os.getpid()] = Hinter()
        return _hinters[os.getpid()]


def _forget_after_fork() -> None:
    global _hinters_lock
    _hinters_lock = threading.Lock()
    _hinters.clear()


os.register_at_fork(after_in_child=_forget_after_fork)


def hint_scoring() -> None:
    """Tell a worker that messages wait. Call on commit; never raises, never waits."""
    hinter().want()


def tasks_waiting() -> int:
    """How many hints no worker has taken yet."""
    return hinter().tasks_waiting()
