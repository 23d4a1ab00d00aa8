"""The synchronous face: the asynchronous client on a loop thread of its own.

It may be made before a fork and used on both sides of it. gRPC itself does not survive a fork in
use (a child of a busy parent hangs and its deadlines are not honoured; one of an idle grpc.aio
parent crashes), so just before a fork the face waits for its calls, closes everything, stops its
thread and waits for gRPC's; afterwards each process opens its own on its first call.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from inference.breaker import BreakerState
from inference.client import NO_HOOKS, AsyncModerationClient
from inference.config import ClientConfig, ModelRef
from inference.deadline import Deadline
from inference.errors import ClientClosedError
from inference.hooks import Hooks
from inference.pool import ReplicaState
from inference.values import (
    Classification,
    InferResult,
    ModelMetadata,
    ModelStatistics,
    Tensor,
)

__all__ = ["ModerationClient"]

log = logging.getLogger(__name__)
T = TypeVar("T")

# A fork waits this long for calls in flight; longer ones end with the parent's connections.
FORK_PATIENCE_S = 5.0
# gRPC ends its threads some milliseconds after its last channel. A child made before that inherits
# an engine without threads, and its first channel waits for them for ever.
GRPC_PATIENCE_S = 1.0
GRPC_THREADS = {"event_engine", "lifeguard", "grpc_global_tim"}
# What a closed client's calls get to tell their callers so.
FINISH_WITHIN_S = 1.0


class _LoopThread:
    """A running loop and the client that lives on it, in this process."""

    def __init__(self, make_client: Callable[[], AsyncModerationClient]) -> None:
        self.pid = os.getpid()
        self.loop = _new_loop()
        self.client = make_client()
        self._thread = threading.Thread(
            target=self.loop.run_forever, name="inference-loop", daemon=True
        )
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        self.submit(self._finish()).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _finish(self) -> None:
        """Close, and let every call end with its error before the loop stops."""
        await self.client.aclose()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if rest:
            _, stuck = await asyncio.wait(rest, timeout=FINISH_WITHIN_S)
            for task in stuck:
                task.cancel()


def _new_loop() -> asyncio.AbstractEventLoop:
    # uvloop takes 0.07 ms off each call (0.85 -> 0.77 for one text); it is not on Windows.
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class ModerationClient:
    """``AsyncModerationClient`` for threads. Safe to share between them, and across forks.

    Args:
        config: Replicas and policies.
        hooks: Called on the loop thread: they must not call this client.
    """

    def __init__(self, config: ClientConfig, hooks: Hooks = NO_HOOKS, **options: Any) -> None:
        self.config = config
        self._hooks = hooks
        self._options = options
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._calls = 0
        self._is_forking = False
        self._is_closed = False
        self._running: _LoopThread | None = None
        _faces.add(self)

    def __enter__(self) -> ModerationClient:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and stop the thread; calls in flight are cancelled."""
        with self._lock:
            self._is_closed = True
            running, self._running = self._running, None
        if running is not None and running.pid == os.getpid():
            running.stop()

    # ------------------------------------------------------------ calls

    def classify(
        self,
        texts: Sequence[str | bytes],
        *,
        deadline: Deadline | None = None,
        release: ModelRef | None = None,
    ) -> list[Classification]:
        """See ``AsyncModerationClient.classify``."""
        return self.classify_nowait(texts, deadline=deadline, release=release).result()

    def classify_nowait(
        self,
        texts: Sequence[str | bytes],
        *,
        deadline: Deadline | None = None,
        release: ModelRef | None = None,
    ) -> Future[list[Classification]]:
        """Start judging; the future has what ``classify`` returns or raises.

        A worker keeps several batches in flight with it. Cancelling the future stops the wait.
        """
        return self._start(
            lambda client: client.classify(texts, deadline=deadline, release=release)
        )

    def infer(
        self,
        model: ModelRef | str,
        inputs: Sequence[Tensor],
        outputs: Sequence[str] = (),
        *,
        deadline: Deadline | None = None,
        parameters: dict[str, str | int | bool] | None = None,
    ) -> InferResult:
        """See ``AsyncModerationClient.infer``."""
        return self._call(
            lambda client: client.infer(
                model, inputs, outputs, deadline=deadline, parameters=parameters
            )
        )

    def is_ready(self) -> bool:
        """See ``AsyncModerationClient.is_ready``."""
        return self._call(lambda client: client.is_ready())

    def model_metadata(self, model: ModelRef | None = None) -> ModelMetadata:
        """See ``AsyncModerationClient.model_metadata``."""
        return self._call(lambda client: client.model_metadata(model))

    def statistics(self, model: ModelRef | None = None) -> dict[str, list[ModelStatistics]]:
        """See ``AsyncModerationClient.statistics``."""
        return self._call(lambda client: client.statistics(model))

    def load_model(self, name: str, config_json: str | None = None) -> None:
        """See ``AsyncModerationClient.load_model``."""
        self._call(lambda client: client.load_model(name, config_json))

    def unload_model(self, name: str, *, dependents: bool = False) -> None:
        """See ``AsyncModerationClient.unload_model``."""
        self._call(lambda client: client.unload_model(name, dependents=dependents))

    def check_health(self) -> None:
        """See ``AsyncModerationClient.check_health``."""
        self._call(lambda client: client.check_health())

    # ------------------------------------------------------------ replicas

    def replica_states(self) -> list[ReplicaState]:
        """See ``AsyncModerationClient.replica_states``."""
        return self._do(lambda client: client.replica_states())

    def retry_budget(self) -> float:
        """See ``AsyncModerationClient.retry_budget``."""
        return self._do(lambda client: client.retry_budget())

    def drain(self, name: str) -> None:
        """See ``AsyncModerationClient.drain``."""
        self._do(lambda client: client.drain(name))

    def eject(self, name: str) -> None:
        """See ``AsyncModerationClient.eject``."""
        self._do(lambda client: client.eject(name))

    def readmit(self, name: str) -> None:
        """See ``AsyncModerationClient.readmit``."""
        self._do(lambda client: client.readmit(name))

    def force_breaker(self, name: str, state: BreakerState) -> None:
        """See ``AsyncModerationClient.force_breaker``."""
        self._do(lambda client: client.force_breaker(name, state))

    def reset_breaker(self, name: str) -> None:
        """See ``AsyncModerationClient.reset_breaker``."""
        self._do(lambda client: client.reset_breaker(name))

    # ------------------------------------------------------------ the loop thread

    def _do(self, action: Callable[[AsyncModerationClient], T]) -> T:
        async def act(client: AsyncModerationClient) -> T:
            return action(client)

        return self._call(act)

    def _call(self, work: Callable[[AsyncModerationClient], Coroutine[Any, Any, T]]) -> T:
        return self._start(work).result()

    def _start(self, work: Callable[[AsyncModerationClient], Coroutine[Any, Any, T]]) -> Future[T]:
        with self._lock:
            while self._is_forking:
                self._idle.wait()
            running = self._runtime()
            self._calls += 1
        future = running.submit(work(running.client))
        future.add_done_callback(self._on_done)
        return future

    def _on_done(self, _: Future[Any]) -> None:
        with self._lock:
            self._calls -= 1
            if not self._calls:
                self._idle.notify_all()

    def _runtime(self) -> _LoopThread:
        if self._is_closed:
            raise ClientClosedError("the client is closed")
        if self._running is None:
            self._running = _LoopThread(
                lambda: AsyncModerationClient(self.config, self._hooks, **self._options)
            )
        if self._running.is_own_thread():
            raise ClientClosedError("a hook must not call the client it is called by")
        return self._running

    # ------------------------------------------------------------ fork

    def before_fork(self) -> bool:
        """Wait for the calls, close, and hold back new ones until ``after_fork``.

        Returns:
            Whether there was anything to close.
        """
        if self._running is not None and self._running.is_own_thread():
            log.warning("a fork on the inference loop's own thread: the child must not call it")
            return False
        with self._lock:
            self._is_forking = True
            if not self._idle.wait_for(lambda: not self._calls, timeout=FORK_PATIENCE_S):
                log.warning("a fork cuts %d inference calls off", self._calls)
            running, self._running = self._running, None
        if running is not None:
            running.stop()
        return running is not None

    def after_fork(self) -> None:
        self._is_forking = False
        with self._lock:
            self._idle.notify_all()

    def after_fork_in_child(self) -> None:
        """Locks and counts may have been another thread's: that thread is not here."""
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._calls = 0
        self._is_forking = False


_faces: weakref.WeakSet[ModerationClient] = weakref.WeakSet()


def _before_fork() -> None:
    closed = [face.before_fork() for face in list(_faces)]
    if any(closed):
        _await_grpc_threads()


def _await_grpc_threads() -> None:
    """Until gRPC's last thread is gone; where threads have no names (not Linux), no wait."""
    give_up_at_s = time.monotonic() + GRPC_PATIENCE_S
    while GRPC_THREADS.intersection(_thread_names()):
        if time.monotonic() > give_up_at_s:
            log.warning("a fork while somebody else in this process uses gRPC")
            return
        gc.collect()  # a channel may wait in a cycle of an exception's frames
        time.sleep(0.001)


def _thread_names() -> Iterator[str]:
    for comm in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # it ended between the listing and the reading
            yield comm.read_text().strip()


def _after_fork_in_parent() -> None:
    for face in list(_faces):
        face.after_fork()


def _after_fork_in_child() -> None:
    for face in list(_faces):
        face.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
