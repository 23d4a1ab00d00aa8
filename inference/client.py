"""The asynchronous client: what callers and operators ask of it.

A call goes: encode once -> choose a replica -> one attempt -> perhaps another, elsewhere -> check
and decode (see ``attempts``). ``classify`` adds: split by ``max_batch``, bisect a batch that makes
the model raise. ``sync`` has the same for threads.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from inference.attempts import Answer, Caller, Job
from inference.breaker import BreakerState
from inference.config import ClientConfig, ModelRef
from inference.deadline import Deadline
from inference.errors import (
    ClientClosedError,
    InferenceError,
    ModelFailedError,
    NoReplicaError,
)
from inference.health import Monitor
from inference.hooks import Hooks, ReplicaEvent
from inference.poison import judge_apart
from inference.pool import Replica, ReplicaState, Resolver, resolve_by_system
from inference.streaming import ModelStream
from inference.transport import (
    Connection,
    claim_loop,
    decode_classifications,
    decode_result,
    encode_request,
    encode_texts,
    release_loop,
)
from inference.values import (
    Classification,
    InferResult,
    ModelMetadata,
    ModelStatistics,
    Tensor,
    refused,
)

__all__ = ["AsyncModerationClient"]

T = TypeVar("T")

NO_HOOKS = Hooks()
LOAD_TIMEOUT_S = 120.0


class AsyncModerationClient:
    """Calls Triton replicas from one event loop.

    Nothing is connected and no task runs before the first call. Close it with ``aclose()`` or use
    it as an asynchronous context manager.

    Args:
        config: Replicas and policies.
        hooks: Callables for what happens inside; see ``hooks``.
        resolver: Replaces the system's resolver for ``dns:///`` names.
        chance: Source of random numbers in [0, 1), for tests.
    """

    def __init__(
        self,
        config: ClientConfig,
        hooks: Hooks = NO_HOOKS,
        *,
        resolver: Resolver = resolve_by_system,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.config = config
        self._hooks = hooks
        self._resolver = resolver
        self._caller = Caller(config, hooks, chance)
        self._pool = self._caller.pool
        self._monitor = Monitor(config, self._pool, self._caller.balancer, hooks, resolver)
        self._ids = itertools.count(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    async def __aenter__(self) -> AsyncModerationClient:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop the health checks and close the connections; calls in flight are cancelled."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._monitor.stop()
        self._caller.cancel_abandoned()
        await self._pool.close()
        if self._loop is not None:
            release_loop(self._loop)

    # ------------------------------------------------------------ calls

    async def classify(
        self,
        texts: Sequence[str | bytes],
        *,
        deadline: Deadline | None = None,
        release: ModelRef | None = None,
    ) -> list[Classification]:
        """Judge texts, in order.

        A text on which the model raises (or answers NaN) does not cost the others their verdict:
        its ``Classification.error`` is set and its scores are zero, all others are judged. It is
        found by bisection, which takes about ``2 log2(n)`` more calls, within the deadline. Of a
        list that went as several calls, those that failed have their error on each of their items.

        Args:
            texts: Any number; lists longer than ``config.max_batch`` go as several calls.
            deadline: By default ``config.deadlines.default_budget_ms`` from now.
            release: Another model or version than ``config.model``.

        Raises:
            InferenceError: nothing could be judged; the class says why and what to do.
        """
        if not texts:
            return []
        deadline = deadline or self._default_deadline()
        model = release or self.config.model
        if len(texts) > self.config.max_batch:
            return await self._classify_parts(texts, deadline, model)
        try:
            return await self._run(self._classify_job(texts, deadline, model))
        except ModelFailedError as error:
            return await self._judge_apart(texts, deadline, model, error)

    async def infer(
        self,
        model: ModelRef | str,
        inputs: Sequence[Tensor],
        outputs: Sequence[str] = (),
        *,
        deadline: Deadline | None = None,
        parameters: dict[str, str | int | bool] | None = None,
    ) -> InferResult:
        """Call any model.

        Args:
            model: Name, or name and version.
            inputs: Typed tensors; see ``Tensor.from_array`` and ``Tensor.from_texts``.
            outputs: Names wanted; none means all.
            deadline: By default ``config.deadlines.default_budget_ms`` from now.
            parameters: Request parameters, for example ``{"timeout": 5_000}`` (microseconds, a
                queue policy's) or ``{"priority": 1}``.

        Raises:
            InferenceError: the class says why and what to do.
        """
        ref = ModelRef(model) if isinstance(model, str) else model
        request_id = str(next(self._ids))
        batch = inputs[0].shape[0] if inputs and inputs[0].shape else 1

        def decode(response: Any, request_id: str, replica: str) -> InferResult:
            return decode_result(response, request_id, replica)

        job = Job(
            request_id=request_id,
            model=ref,
            payload=encode_request(ref, request_id, inputs, outputs, parameters),
            batch=batch,
            deadline=deadline or self._default_deadline(),
            decode=decode,
            failed_on=[],
        )
        return await self._run(job)

    async def open_stream(self, *, avoid: Sequence[str] = ()) -> ModelStream:
        """A stream to one replica, for decoupled models; use it as an ``async with``.

        Args:
            avoid: Replicas to keep from when others are up: the one a stream was lost on.

        Raises:
            NoReplicaError: no replica may be called.
        """
        await self._open()
        replica, permit = self._caller.choose(avoid, time.monotonic())
        # A stream may live for hours: it must not hold the breaker's one probe so long.
        replica.breaker.on_neither(permit)
        connection = self._pool.connection(replica)
        connection.in_flight += 1
        replica.load.outstanding += 1

        def on_end(broken: InferenceError | None) -> None:
            connection.in_flight -= 1
            replica.load.outstanding -= 1
            if broken is not None and broken.counts_against_replica:
                replica.breaker.on_late_failure(time.monotonic())

        return ModelStream(
            connection.open_stream(replica.name), replica.name, self.config.stream, on_end
        )

    def _default_deadline(self) -> Deadline:
        return Deadline.after(self.config.deadlines.default_budget_ms / 1000)

    async def _classify_parts(
        self, texts: Sequence[str | bytes], deadline: Deadline, model: ModelRef
    ) -> list[Classification]:
        size = self.config.max_batch
        parts = [texts[start : start + size] for start in range(0, len(texts), size)]
        judged = await asyncio.gather(
            *(self.classify(part, deadline=deadline, release=model) for part in parts),
            return_exceptions=True,
        )
        return _put_together(parts, judged)

    async def _judge_apart(
        self,
        texts: Sequence[str | bytes],
        deadline: Deadline,
        model: ModelRef,
        cause: ModelFailedError,
    ) -> list[Classification]:
        async def judge(start: int, end: int) -> list[Classification]:
            return await self._run(
                self._classify_job(texts[start:end], deadline, model, avoid=cause.replica)
            )

        judged = await judge_apart(len(texts), judge, cause)
        if all(row.error is None for row in judged):
            # Others judged everything it raised on: so it was the replica, not a text.
            replica = self._pool.replicas.get(cause.replica)
            if replica is not None and len(self._pool.loads) > 1:
                now_s = time.monotonic()
                replica.load.on_failure(0.0, now_s)
                replica.breaker.on_late_failure(now_s)
        return judged

    def _classify_job(
        self,
        texts: Sequence[str | bytes],
        deadline: Deadline,
        model: ModelRef,
        avoid: str = "",
    ) -> Job[list[Classification]]:
        request_id = str(next(self._ids))
        count = len(texts)

        def decode(response: Any, request_id: str, replica: str) -> list[Classification]:
            return decode_classifications(response, request_id, count)

        payload = encode_texts(model, request_id, texts)
        failed_on = [avoid] if avoid else []
        return Job(request_id, model, payload, count, deadline, decode, failed_on)

    async def _run(self, job: Job[Answer]) -> Answer:
        if self._loop is None or self._is_closed or not self._pool.loads:
            await self._open()
        return await self._caller.run(job)

    async def _open(self) -> None:
        if self._is_closed:
            raise ClientClosedError("the client is closed")
        if self._loop is None:
            self._loop = claim_loop()
            self._monitor.start(self._loop)
        if not self._pool.loads:
            await self._pool.resolve(self._resolver)

    # ------------------------------------------------------------ replicas

    def replica_states(self) -> list[ReplicaState]:
        """Every replica as it stands; what the last health check found is part of it."""
        now_s = time.monotonic()
        return [replica.state(now_s) for replica in self._pool.replicas.values()]

    def retry_budget(self) -> float:
        """How many second attempts may be made at once; it fills up while calls succeed."""
        return self._caller.budget_tokens

    def drain(self, name: str) -> None:
        """Send it nothing more; what it has it finishes. Until ``readmit``."""
        self._replica(name).load.is_draining = True
        self._tell_replica(name, "draining", "by hand")

    def eject(self, name: str) -> None:
        """Put it aside until ``readmit``; the cap on ejections does not bind an operator."""
        replica = self._replica(name)
        replica.is_held_out = True
        replica.load.ejected_until_s = math.inf
        replica.load.ejection_reason = "by hand"
        self._tell_replica(name, "ejected", "by hand")

    def readmit(self, name: str) -> None:
        """Undo ``drain`` and ``eject``."""
        replica = self._replica(name)
        replica.load.is_draining = replica.is_removed
        replica.is_held_out = False
        self._caller.balancer.readmit(replica.load)
        self._tell_replica(name, "ready", "by hand")

    def force_breaker(self, name: str, state: BreakerState) -> None:
        """Hold a breaker ``FORCED_OPEN`` or ``FORCED_CLOSED`` until ``reset_breaker``."""
        self._replica(name).breaker.force(state, time.monotonic())

    def reset_breaker(self, name: str) -> None:
        self._replica(name).breaker.reset(time.monotonic())

    def _tell_replica(self, name: str, new: str, reason: str) -> None:
        if self._hooks.on_replica is not None:
            self._hooks.on_replica(ReplicaEvent(name, "", new, reason))

    def _replica(self, name: str) -> Replica:
        try:
            return self._pool.replicas[name]
        except KeyError:
            raise NoReplicaError(f"no replica is called {name}") from None

    # ------------------------------------------------------------ questions about servers

    async def is_ready(self) -> bool:
        """Whether at least one replica that may be called has the model ready, asked now."""
        answers = await self._ask_all(
            lambda connection, timeout_s: (
                connection.is_model_ready(self.config.model, timeout_s)
                if self.config.model.name
                else connection.is_ready(timeout_s)
            )
        )
        return any(answer is True for answer in answers.values())

    async def model_metadata(self, model: ModelRef | None = None) -> ModelMetadata:
        """From the first replica that answers.

        Raises:
            InferenceError: none did; the last one's failure.
        """
        ref = model or self.config.model
        return _first_answer(
            await self._ask_all(lambda c, timeout_s: c.model_metadata(ref, timeout_s))
        )

    async def statistics(self, model: ModelRef | None = None) -> dict[str, list[ModelStatistics]]:
        """By replica; those that do not answer are left out. ``None`` means all models."""
        answers = await self._ask_all(lambda c, timeout_s: c.statistics(model, timeout_s))
        return {
            name: answer
            for name, answer in answers.items()
            if not isinstance(answer, InferenceError)
        }

    async def load_model(self, name: str, config_json: str | None = None) -> None:
        """Load or reload a model on every replica.

        Args:
            name: The model.
            config_json: A whole model configuration. Triton replaces the file's with it: a part
                of one leaves a model without inputs that says READY.

        Raises:
            InferenceError: a replica refused; others may have loaded it.
        """
        _raise_first(
            await self._ask_all(
                lambda c, timeout_s: c.load_model(name, config_json, timeout_s), LOAD_TIMEOUT_S
            )
        )

    async def unload_model(self, name: str, *, dependents: bool = False) -> None:
        """Unload it from every replica. Unloading an unknown model succeeds, says Triton."""
        _raise_first(
            await self._ask_all(
                lambda c, timeout_s: c.unload_model(
                    name, dependents=dependents, timeout_s=timeout_s
                ),
                LOAD_TIMEOUT_S,
            )
        )

    async def check_health(self) -> None:
        """Look at every replica now instead of waiting for the next round."""
        await self._open()
        await self._monitor.look_at_all(with_figures=True)

    async def _ask_all(
        self,
        question: Callable[[Connection, float], Awaitable[T]],
        timeout_s: float | None = None,
    ) -> dict[str, T | InferenceError]:
        await self._open()
        within_s = timeout_s or self.config.health.timeout_ms / 1000

        async def ask(replica: Replica) -> T | InferenceError:
            try:
                return await question(self._pool.connection(replica), within_s)
            except InferenceError as error:
                error.replica = replica.name
                return error

        replicas = list(self._pool.replicas.values())
        answers = await asyncio.gather(*(ask(replica) for replica in replicas))
        return {replica.name: answer for replica, answer in zip(replicas, answers, strict=True)}


def _put_together(
    parts: Sequence[Sequence[str | bytes]], judged: Sequence[list[Classification] | BaseException]
) -> list[Classification]:
    """One list; what failed says so item by item, unless everything did."""
    failures = [each for each in judged if isinstance(each, BaseException)]
    for failure in failures:
        if len(failures) == len(judged) or not isinstance(failure, InferenceError):
            raise failure
    rows: list[Classification] = []
    for part, answer in zip(parts, judged, strict=True):
        if isinstance(answer, InferenceError):
            rows += [refused(answer)] * len(part)
        elif not isinstance(answer, BaseException):
            rows += answer
    return rows


def _first_answer(answers: dict[str, T | InferenceError]) -> T:
    failure: InferenceError = NoReplicaError("no replica is known")
    for answer in answers.values():
        if not isinstance(answer, InferenceError):
            return answer
        failure = answer
    raise failure


def _raise_first(answers: dict[str, InferenceError | None]) -> None:
    for answer in answers.values():
        if answer is not None:
            raise answer
