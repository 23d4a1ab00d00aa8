"""What a worker process has one of: client, pipeline, measurements, and a thread that watches.

Celery only says "look now". The watching thread looks by itself when no task has come for two
seconds though chunks are due, so a worker whose broker connection died silently (a known fault
after a Redis restart) goes on, a little later per message. It judges by the backlog, not by
whether processes look alive. It also writes the process's sample every second, which is the
heartbeat others see.
"""

from __future__ import annotations

import logging
import os
import threading
import time

from django.db import DatabaseError, close_old_connections

from apps.scoring.claims import has_due_chunks
from apps.scoring.hints import hinter
from apps.scoring.measuring import Measurements
from apps.scoring.pipeline import Pipeline
from apps.scoring.replicas import new_client
from apps.scoring.samples import prune_samples, write_sample

log = logging.getLogger(__name__)

# A drain ends after so long even under load, so that a warm shutdown need not wait.
DRAIN_FOR_S = 5.0
LOOK_EVERY_S = 1.0
TASKS_MISSED_AFTER_S = 2.0
PRUNE_EVERY_S = 60.0


class Worker:
    """One process's share of the scoring."""

    def __init__(self) -> None:
        self.measurements = Measurements("worker")
        self.client = new_client()
        self.pipeline = Pipeline(self.client, self.measurements)
        self._draining = threading.Lock()
        self._last_drain_s = time.monotonic()
        self._stopped = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="scoring-watch", daemon=True)

    def start(self) -> None:
        self._watcher.start()

    def stop(self) -> None:
        """Claim nothing more and let what is in flight end."""
        self.pipeline.stopping.set()
        self._stopped.set()

    def drain(self) -> int:
        """Judge what is due; at once 0 when another thread of this process is doing so.

        Returns:
            How many verdicts were stored.
        """
        if not self._draining.acquire(blocking=False):
            return 0
        try:
            # Before looking: a message that comes after the last look gets a hint of its own.
            hinter().begin()
            return self.pipeline.drain(for_s=DRAIN_FOR_S)
        finally:
            self._last_drain_s = time.monotonic()
            self._draining.release()

    # ---------- the watching thread ----------

    def _watch(self) -> None:
        prune_at_s = time.monotonic() + PRUNE_EVERY_S
        while not self._stopped.wait(LOOK_EVERY_S):
            try:
                write_sample(self.measurements.take_sample(self.client.replica_states()))
                self._drain_if_forgotten()
                if time.monotonic() > prune_at_s:
                    prune_samples()
                    prune_at_s = time.monotonic() + PRUNE_EVERY_S
            except DatabaseError as error:
                log.warning("The scoring worker's watch failed: %s", type(error).__name__)
            finally:
                # A connection of a server that is gone goes back to the pool, which drops it.
                close_old_connections()

    def _drain_if_forgotten(self) -> None:
        silent_s = time.monotonic() - self._last_drain_s
        if silent_s < TASKS_MISSED_AFTER_S or self._draining.locked():
            return
        if self.pipeline.pacer.pause_left_s(time.monotonic()) or not has_due_chunks():
            return
        stored = self.drain()
        if stored:
            log.warning("No task came for %.0f s; scored %d waiting messages", silent_s, stored)


_workers: dict[int, Worker] = {}
_lock = threading.Lock()


def this_worker() -> Worker:
    """This process's worker, made and started when first asked for."""
    with _lock:
        found = _workers.get(os.getpid())
        if found is None:
            found = _workers[os.getpid()] = Worker()
            found.start()
        return found


def stop_worker() -> None:
    """End this process's worker, if there is one."""
    with _lock:
        found = _workers.pop(os.getpid(), None)
    if found is not None:
        found.stop()


def _forget_after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _workers.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
