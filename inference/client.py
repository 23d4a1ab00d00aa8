"""The client: asynchronous, and a synchronous face over it.

A call goes: encode once -> choose a replica -> one attempt -> perhaps another, elsewhere -> check
and decode. ``classify`` adds: split by ``max_batch``, bisect a batch that makes the model raise.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from inference.balancer import Balancer, ReplicaLoad, is_fair_share
from inference.breaker import Breaker, BreakerChange, BreakerState, Permit
from inference.config import ClientConfig, ExpiryMode, ModelRef, ReplicaConfig
from inference.deadline import Deadline
from inference.errors import (
    AttemptTimeoutError,
    ClientClosedError,
    DeadlineExceededError,
    InferenceError,
    ModelFailedError,
    ModelNotReadyError,
    NoReplicaError,
)
from inference.health import Monitor
from inference.hooks import (
    AttemptEvent,
    BreakerEvent,
    CallEvent,
    CallStartEvent,
    HedgeEvent,
    Hooks,
    ReplicaEvent,
    RetryEvent,
)
from inference.poison import judge_apart
from inference.pool import Pool, Replica, ReplicaState, Resolver, resolve_by_system
from inference.retry import Backoff, HedgeTimer, RetryBudget, may_retry
from inference.streaming import ModelStream
from inference.transport import (
    Call,
    Classification,
    Connection,
    InferResult,
    ModelMetadata,
    ModelStatistics,
    Tensor,
    claim_loop,
    decode_classifications,
    decode_result,
    encode_request,
    encode_texts,
    release_loop,
)

__all__ = ["AsyncModerationClient"]

Answer = TypeVar("Answer")
T = TypeVar("T")
Decode = Callable[[Any, str, str], Answer]

NO_HOOKS = Hooks()
LOAD_TIMEOUT_S = 120.0


@dataclass(slots=True)
class _Job(Generic[Answer]):
    """One call: what is sent, how its answer is read, where it was tried."""

    request_id: str
    model: ModelRef
    payload: bytes
    batch: int
    deadline: Deadline
    decode: Decode[Answer]
    failed_on: list[str]  # the one that failed last comes last
    attempts: int = 0
    trying: str = ""  # the replica of the attempt under way


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
        self._chance = chance
        self._balancer = Balancer(config.balancer, chance)
        self._budget = RetryBudget(config.retry)
        self._backoff = Backoff(config.retry, chance)
        self._hedge_timer = HedgeTimer(config.hedge)
        self._pool = Pool(config, self._new_replica)
        self._monitor = Monitor(config, self._pool, self._balancer, hooks, resolver)
        self._ids = itertools.count(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        # Abandoned calls live here: a dropped grpc.aio call cancels itself on the wire.
        # By number, so that a finished call is in no cycle and its socket closes at once.
        self._abandoned: dict[int, Call] = {}

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
        for call in list(self._abandoned.values()):
            call.cancel()
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
        found by bisection, which takes about ``2 log2(n)`` more calls, within the deadline.

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
        size = self.config.max_batch
        if len(texts) <= size:
            return await self._classify_batch(texts, deadline, model)
        parts = [texts[start : start + size] for start in range(0, len(texts), size)]
        judged = await asyncio.gather(
            *(self._classify_batch(part, deadline, model) for part in parts)
        )
        return [row for part in judged for row in part]

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

        job = _Job(
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
        self._open()
        if not self._pool.loads:
            await self._pool.resolve(self._resolver)
        replica, permit = self._choose(avoid, time.monotonic())
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

    async def _classify_batch(
        self, texts: Sequence[str | bytes], deadline: Deadline, model: ModelRef
    ) -> list[Classification]:
        try:
            return await self._run(self._classify_job(texts, deadline, model))
        except ModelFailedError as error:
            return await self._judge_apart(texts, deadline, model, error)

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
    ) -> _Job[list[Classification]]:
        request_id = str(next(self._ids))
        count = len(texts)

        def decode(response: Any, request_id: str, replica: str) -> list[Classification]:
            return decode_classifications(response, request_id, count)

        payload = encode_texts(model, request_id, texts)
        failed_on = [avoid] if avoid else []
        return _Job(request_id, model, payload, count, deadline, decode, failed_on)

    async def _run(self, job: _Job[Answer]) -> Answer:
        """All attempts of one call."""
        self._open()
        hooks = self._hooks
        if hooks.on_call_start is not None:
            hooks.on_call_start(CallStartEvent(job.request_id, job.model.name, job.batch))
        if hooks.on_call is None:
            return await self._attempts(job)
        started_s = time.monotonic()
        outcome = "cancelled"
        try:
            answer = await self._attempts(job)
            outcome = "ok"
        except InferenceError as error:
            outcome = error.kind
            raise
        else:
            return answer
        finally:
            latency_ms = (time.monotonic() - started_s) * 1000
            hooks.on_call(
                CallEvent(
                    job.request_id, job.model.name, outcome, latency_ms, job.attempts, job.batch
                )
            )

    def _open(self) -> None:
        if self._is_closed:
            raise ClientClosedError("the client is closed")
        if self._loop is None:
            self._loop = claim_loop()
            self._monitor.start(self._loop)

    async def _attempts(self, job: _Job[Answer]) -> Answer:
        self._budget.deposit()
        if not self._pool.loads:
            await self._pool.resolve(self._resolver)
        while True:
            try:
                if self.config.hedge.enabled:
                    return await self._hedged(job)
                return await self._attempt(job)
            except InferenceError as error:
                error.attempts = job.attempts
                delay_s = self._delay_before_retry(job, error)
                if delay_s is None:
                    raise
                self._tell_retry(job, error, delay_s)
            await asyncio.sleep(delay_s)

    def _delay_before_retry(self, job: _Job[Answer], error: InferenceError) -> float | None:
        """The backoff; None when ``error`` is final. Takes from the budget."""
        retry = self.config.retry
        remaining_s = job.deadline.remaining_s()
        if not may_retry(error, attempts_made=job.attempts, config=retry, remaining_s=remaining_s):
            return None
        delay_s = self._backoff.delay_s(job.attempts)
        if delay_s >= remaining_s or not self._budget.take():
            return None
        return delay_s

    def _tell_retry(self, job: _Job[Answer], error: InferenceError, delay_s: float) -> None:
        if self._hooks.on_retry is not None:
            self._hooks.on_retry(
                RetryEvent(
                    job.request_id,
                    error.replica,
                    job.model.name,
                    error.kind,
                    job.attempts,
                    delay_s * 1000,
                )
            )

    # ------------------------------------------------------------ one attempt

    def _choose(self, avoid: Sequence[str], now_s: float) -> tuple[Replica, Permit]:
        """The replica for the next attempt and its breaker's permit.

        Raises:
            NoReplicaError: none may be called.
        """
        replicas = self._pool.replicas
        most_abandoned = self.config.deadlines.max_abandoned_per_replica
        refused_by = None
        for load in self._balancer.order(self._pool.loads, now_s, avoid):
            replica = replicas[load.name]
            if replica.abandoned >= most_abandoned:
                refused_by = "owes too many answers"
                continue
            permit = replica.breaker.try_acquire(now_s)
            if permit is not None:
                return replica, permit
            refused_by = refused_by or "circuit open"
        raise NoReplicaError(refused_by or "all replicas are drained or ejected")

    async def _attempt(self, job: _Job[Answer]) -> Answer:
        started_s = time.monotonic()
        remaining_s = job.deadline.remaining_s(started_s)
        if remaining_s <= 0:
            raise DeadlineExceededError("the deadline passed before anything was sent")
        replica, permit = self._choose(job.failed_on, started_s)
        job.attempts += 1
        job.trying = replica.name
        attempt = job.attempts
        limits = self.config.deadlines
        wait_s = min(limits.attempt_timeout_ms / 1000, remaining_s)
        wire_s = wait_s
        if limits.mode is ExpiryMode.WAIT_LOCALLY:
            wire_s += limits.abandon_slack_ms / 1000
        outcome = "cancelled"
        try:
            call = self._pool.send(replica, job.payload, wire_s)
            try:
                answer = job.decode(await call.response(wait_s), job.request_id, replica.name)
            finally:
                if not call.is_done:
                    self._leave(replica, call)
        except InferenceError as error:
            outcome = error.kind
            error.replica = replica.name
            if replica.name in job.failed_on:
                job.failed_on.remove(replica.name)
            job.failed_on.append(replica.name)
            self._on_failure(replica, permit, error, started_s, wait_s, job.model)
            if isinstance(error, AttemptTimeoutError) and job.deadline.has_passed():
                outcome = DeadlineExceededError.kind
                raise DeadlineExceededError(str(error), replica=replica.name) from None
            raise
        except BaseException:
            replica.breaker.on_neither(permit)
            raise
        else:
            outcome = "ok"
            now_s = time.monotonic()
            latency_ms = (now_s - started_s) * 1000
            replica.load.on_success(latency_ms, now_s)
            replica.breaker.on_success(permit, now_s)
            if self.config.hedge.enabled:
                self._hedge_timer.observe(latency_ms)
            return answer
        finally:
            if self._hooks.on_attempt is not None:
                self._hooks.on_attempt(
                    AttemptEvent(
                        job.request_id,
                        replica.name,
                        job.model.name,
                        outcome,
                        (time.monotonic() - started_s) * 1000,
                        attempt,
                        job.batch,
                        len(job.payload),
                    )
                )

    def _leave(self, replica: Replica, call: Call) -> None:
        """Nobody waits for this call any more."""
        if self.config.deadlines.mode is ExpiryMode.CANCEL:
            call.cancel()
            return
        replica.abandoned += 1
        number = id(call)
        self._abandoned[number] = call

        def on_done() -> None:
            replica.abandoned -= 1
            self._abandoned.pop(number, None)

        call.on_done(on_done)

    def _on_failure(
        self,
        replica: Replica,
        permit: Permit,
        error: InferenceError,
        started_s: float,
        wait_s: float,
        model: ModelRef,
    ) -> None:
        now_s = time.monotonic()
        counts = error.counts_against_replica
        if isinstance(error, AttemptTimeoutError):
            counts = is_fair_share(wait_s * 1000, replica.load.usual_ms)
        if counts:
            replica.load.on_failure((now_s - started_s) * 1000, now_s)
            replica.breaker.on_failure(permit, now_s)
        else:
            # It answered, so it lives; yet a refusal is no success either, except for a probe:
            # whoever answers a probe with "your request is wrong" or "busy" is back.
            if permit.is_probe and not error.ejects_replica:
                replica.breaker.on_success(permit, now_s)
            else:
                replica.breaker.on_neither(permit)
        if error.is_overload:
            replica.load.on_overload(now_s)
        if error.ejects_replica and self._speaks_for_replica(error, model):
            self._eject(replica, error.kind, now_s)

    def _speaks_for_replica(self, error: InferenceError, model: ModelRef) -> bool:
        # A call for some other unloaded model must not put the replica aside for ours.
        return not isinstance(error, ModelNotReadyError) or model.name == self.config.model.name

    def _eject(self, replica: Replica, reason: str, now_s: float) -> None:
        # Without a monitor nobody readmits it, so then it is put aside for a moment only.
        for_s = None if self._monitor.is_running else 1.0
        was_ejected = replica.load.is_ejected(now_s)
        if not self._balancer.eject(replica.load, self._pool.loads, now_s, reason, for_s):
            return
        if not was_ejected and self._hooks.on_replica is not None:
            self._hooks.on_replica(ReplicaEvent(replica.name, "ready", "ejected", reason))

    # ------------------------------------------------------------ hedging

    async def _hedged(self, job: _Job[Answer]) -> Answer:
        """An attempt, and a second one elsewhere if the first is slower than most."""
        delay_s = self._hedge_timer.delay_s()
        if delay_s is None or len(self._pool.loads) < 2:
            return await self._attempt(job)
        first = asyncio.ensure_future(self._attempt(job))
        racing = [first]
        try:
            done, _ = await asyncio.wait(racing, timeout=delay_s)
            if done or not self._budget.take():
                return await first
            rival = replace(job, failed_on=[*job.failed_on, job.trying])
            racing.append(asyncio.ensure_future(self._attempt(rival)))
            winner = await _first_success(racing)
            self._tell_hedge(job, rival, delay_s, winner)
            return await racing[max(winner, 0)]
        finally:
            for contestant in racing:
                contestant.cancel()
            await asyncio.gather(*racing, return_exceptions=True)

    def _tell_hedge(
        self, job: _Job[Answer], rival: _Job[Answer], delay_s: float, winner: int
    ) -> None:
        if self._hooks.on_hedge is None:
            return
        names = (job.trying, rival.trying)
        won = names[winner] if winner >= 0 else ""
        self._hooks.on_hedge(
            HedgeEvent(job.request_id, job.model.name, *names, delay_s * 1000, won)
        )

    # ------------------------------------------------------------ replicas

    def _new_replica(self, config: ReplicaConfig) -> Replica:
        def on_change(change: BreakerChange) -> None:
            if self._hooks.on_breaker is not None:
                self._hooks.on_breaker(
                    BreakerEvent(config.name, change.old, change.new, change.reason, change.open_s)
                )

        return Replica(
            config=config,
            load=ReplicaLoad(config.name, self.config.balancer),
            breaker=Breaker(self.config.breaker, self._chance, on_change),
        )

    def replica_states(self) -> list[ReplicaState]:
        """Every replica as it stands; what the last health check found is part of it."""
        now_s = time.monotonic()
        return [replica.state(now_s) for replica in self._pool.replicas.values()]

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
        self._balancer.readmit(replica.load)
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
        self._open()
        await self._monitor.look_at_all(with_figures=True)

    async def _ask_all(
        self,
        question: Callable[[Connection, float], Awaitable[T]],
        timeout_s: float | None = None,
    ) -> dict[str, T | InferenceError]:
        self._open()
        if not self._pool.loads:
            await self._pool.resolve(self._resolver)
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


async def _first_success(racing: Sequence[asyncio.Future[Answer]]) -> int:
    """Index of the first that succeeds, -1 when all fail."""
    pending: set[asyncio.Future[Answer]] = set(racing)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for index, contestant in enumerate(racing):
            if contestant in done and contestant.exception() is None:
                return index
    return -1


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
