"""What a worker process has one of: client, pipeline, measurements, and two threads beside.

Celery only says "look now". The watching thread looks by itself when no task has come for two
seconds though chunks are due, so a worker whose broker connection died silently (a known fault
after a Redis restart) goes on, a second later per message. It judges by the backlog, not by
whether processes look alive. When tasks keep piling up in Redis unread, the process ends itself
and its supervisor starts a new one. The other thread carries out what operators want and writes
the process's sample every second, which is the heartbeat that others see.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
import time
from collections.abc import Callable

from django.db import Error as DatabaseError
from django.db import close_old_connections

from apps.core import realtime
from apps.scoring.applying import ControlApplier
from apps.scoring.claims import has_due_chunks
from apps.scoring.hints import hinter, tasks_waiting
from apps.scoring.measuring import Measurements
from apps.scoring.pipeline import Pipeline
from apps.scoring.replicas import new_client
from apps.scoring.samples import prune_samples, write_sample

log = logging.getLogger(__name__)

# A drain ends after so long even under load, since a task must end within the broker's visibility
# timeout. (A warm shutdown ends it at once.) Nothing is claimed while it ends and the next task is
# on its way: a batch's time, so rarely.
DRAIN_FOR_S = 45.0
# The watching thread has more to look at.
WATCH_DRAINS_FOR_S = 5.0
LOOK_EVERY_S = 1.0
TASKS_MISSED_AFTER_S = 2.0
# Beat sends a task a second while messages wait.
DEAF_AFTER_S = 20.0
PRUNE_EVERY_S = 60.0


class Worker:
    """One process's share of the scoring."""

    def __init__(self) -> None:
        self.measurements = Measurements("worker")
        realtime.observe_pushes(self.measurements.pushed)
        self.client = new_client(self.measurements.ears.hooks)
        self.pipeline = Pipeline(self.client, self.measurements)
        self.controls = ControlApplier(self.client, self.pipeline)
        self._draining = threading.Lock()
        self._last_task_s = time.monotonic()
        self._stopped = threading.Event()
        self._last_prune_s = time.monotonic()

    def start(self) -> None:
        _calm_garbage_collector()
        for step, name in ((self._sample, "scoring-sample"), (self._watch, "scoring-watch")):
            threading.Thread(target=self._repeat, args=(step,), name=name, daemon=True).start()

    def stop(self) -> None:
        """Claim nothing more and let what is in flight end."""
        self.pipeline.stopping.set()
        self._stopped.set()

    def on_task(self) -> int:
        """A task came: drain."""
        self._last_task_s = time.monotonic()
        try:
            return self.drain()
        finally:
            # Under load one task drains for seconds, and the next waits for it.
            self._last_task_s = time.monotonic()

    def drain(self, *, for_s: float = DRAIN_FOR_S) -> int:
        """Judge what is due; when another thread of this process is at it, have it look again.

        Returns:
            How many verdicts were stored.
        """
        if not self._draining.acquire(blocking=False):
            hinter().begin()
            self.pipeline.look_again()
            return 0
        try:
            # Before looking: a message that comes after the last look gets a hint of its own.
            hinter().begin()
            # What operators put aside stays so when a worker starts: nothing is sent before.
            if not self.controls.has_read:
                self._apply_controls()
            return self.pipeline.drain(for_s=for_s)
        finally:
            self._draining.release()

    # ---------- the two threads ----------

    def _repeat(self, step: Callable[[], None]) -> None:
        while not self._stopped.wait(LOOK_EVERY_S):
            try:
                step()
            except DatabaseError as error:
                log.warning("The scoring worker can't look: %s", type(error).__name__)
            except Exception:
                # A thread's edge: if it ended here, nobody would notice what it no longer does.
                log.exception("The scoring worker's %s failed", threading.current_thread().name)
            finally:
                # A connection of a server that is gone goes back to the pool, which drops it.
                close_old_connections()

    def _apply_controls(self) -> None:
        applied = self.controls.apply()
        self.measurements.controlled(
            applied,
            is_held=self.pipeline.held.is_set(),
            is_degraded=self.pipeline.degraded.is_set(),
        )

    def _sample(self) -> None:
        self._apply_controls()
        states, budget = self.client.replica_states(), self.client.retry_budget()
        write_sample(self.measurements.take_sample(states, budget))
        if time.monotonic() - self._last_prune_s > PRUNE_EVERY_S:
            self._last_prune_s = time.monotonic()
            prune_samples()

    def _watch(self) -> None:
        silent_s = time.monotonic() - self._last_task_s
        if silent_s > TASKS_MISSED_AFTER_S and self._may_drain() and has_due_chunks():
            log.warning("No task came for %.0f s though messages wait; scoring them", silent_s)
            self.drain(for_s=WATCH_DRAINS_FOR_S)
        if silent_s > DEAF_AFTER_S and not self._draining.locked() and tasks_waiting():
            log.error("Tasks wait in Redis and none came for %.0f s; starting anew", silent_s)
            self._last_task_s = time.monotonic()
            os.kill(os.getpid(), signal.SIGTERM)

    def _may_drain(self) -> bool:
        is_paused = self.pipeline.pacer.pause_left_s(time.monotonic()) > 0
        return not is_paused and not self.pipeline.held.is_set() and not self._draining.locked()


def _calm_garbage_collector() -> None:
    """A batch makes thousands of tuples that live until it is stored: by default each few hundred
    make the collector look, now and then at all of Django. A third of the Python of a message.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


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
