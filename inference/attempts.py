"""All attempts of one call: choose a replica, try, judge the failure, try elsewhere, hedge.

Here the policies meet the wire. Which replica, whether again, when: ``balancer``, ``retry`` and
``breaker`` say; what is sent and read: ``transport``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from inference.balancer import Balancer, ReplicaLoad, is_fair_share
from inference.breaker import Breaker, BreakerChange, Permit
from inference.config import ClientConfig, ExpiryMode, ModelRef, ReplicaConfig
from inference.deadline import Deadline
from inference.errors import (
    AttemptTimeoutError,
    DeadlineExceededError,
    InferenceError,
    ModelNotReadyError,
    NoReplicaError,
    OverloadedError,
)
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
from inference.pool import Pool, Replica
from inference.retry import Backoff, HedgeTimer, RetryBudget, may_retry
from inference.transport import Call

__all__ = ["Caller", "Job"]

Answer = TypeVar("Answer")
Decode = Callable[[Any, str, str], Answer]
"""From response, request id and replica's name to what the caller gets."""

# Without health checks nobody readmits an ejected replica, so it is put aside for a moment only.
EJECTION_WITHOUT_HEALTH_S = 1.0


@dataclass(slots=True)
class Job(Generic[Answer]):
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


@dataclass(slots=True)
class _Attempt:
    """One try of one replica."""

    replica: Replica
    permit: Permit
    number: int
    started_s: float
    wait_s: float
    # Its time is the deadline's. The clock would not tell afterwards: uvloop's timers fire up to
    # a millisecond early, and a retry of the last half millisecond would be paid for nothing.
    has_all_there_is: bool
    call: Call | None = None


class Caller:
    """Makes calls over one client's replicas.

    Args:
        config: Replicas and policies.
        hooks: Told of every attempt, retry, hedge and change.
        chance: Source of random numbers in [0, 1).
    """

    def __init__(self, config: ClientConfig, hooks: Hooks, chance: Callable[[], float]) -> None:
        self._config = config
        self._hooks = hooks
        self._chance = chance
        self._budget = RetryBudget(config.retry)
        self._backoff = Backoff(config.retry, chance)
        self._hedge_timer = HedgeTimer(config.hedge)
        self._is_hedging = config.hedge.enabled
        self._most_abandoned = config.deadlines.max_abandoned_per_replica
        self._attempt_limit_s = config.deadlines.attempt_timeout_ms / 1000
        is_kept = config.deadlines.mode is ExpiryMode.WAIT_LOCALLY
        # How much later than the attempt the deadline on the wire is.
        self._slack_s = config.deadlines.abandon_slack_ms / 1000 if is_kept else 0.0
        # A dropped grpc.aio call cancels itself on the wire; these must not, until we close.
        # By number, so that a finished call is in no cycle and its socket closes at once.
        self._abandoned: dict[int, Call] = {}
        self.balancer = Balancer(config.balancer, chance)
        self.pool = Pool(config, self._new_replica)

    @property
    def budget_tokens(self) -> float:
        return self._budget.tokens

    def cancel_abandoned(self) -> None:
        """Give up what nobody waits for."""
        for call in list(self._abandoned.values()):
            call.cancel()

    def _new_replica(self, config: ReplicaConfig) -> Replica:
        def on_change(change: BreakerChange) -> None:
            if self._hooks.on_breaker is not None:
                self._hooks.on_breaker(
                    BreakerEvent(config.name, change.old, change.new, change.reason, change.open_s)
                )

        return Replica(
            config=config,
            load=ReplicaLoad(config.name, self._config.balancer),
            breaker=Breaker(self._config.breaker, self._chance, on_change),
        )

    def run(self, job: Job[Answer]) -> Coroutine[Any, Any, Answer]:
        """All attempts of one call."""
        hooks = self._hooks
        if hooks.on_call_start is None and hooks.on_call is None:
            return self._attempts(job)
        return self._attempts_told(job)

    async def _attempts_told(self, job: Job[Answer]) -> Answer:
        hooks = self._hooks
        if hooks.on_call_start is not None:
            hooks.on_call_start(CallStartEvent(job.request_id, job.model.name, job.batch))
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
            if hooks.on_call is not None:
                latency_ms = (time.monotonic() - started_s) * 1000
                hooks.on_call(
                    CallEvent(
                        job.request_id, job.model.name, outcome, latency_ms, job.attempts, job.batch
                    )
                )

    async def _attempts(self, job: Job[Answer]) -> Answer:
        self._budget.deposit()
        while True:
            try:
                return await (self._hedged(job) if self._is_hedging else self._attempt(job))
            except InferenceError as error:
                error.attempts = job.attempts
                delay_s = self._delay_before_retry(job, error)
                if delay_s is None:
                    raise
                self._tell_retry(job, error, delay_s)
            await asyncio.sleep(delay_s)

    def _delay_before_retry(self, job: Job[Answer], error: InferenceError) -> float | None:
        """The backoff; None when ``error`` is final. Takes from the budget."""
        retry = self._config.retry
        remaining_s = job.deadline.remaining_s()
        if not may_retry(error, attempts_made=job.attempts, config=retry, remaining_s=remaining_s):
            return None
        delay_s = self._backoff.delay_s(job.attempts)
        if delay_s >= remaining_s or not self._budget.take():
            return None
        return delay_s

    def _tell_retry(self, job: Job[Answer], error: InferenceError, delay_s: float) -> None:
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

    def choose(self, avoid: Sequence[str], now_s: float) -> tuple[Replica, Permit]:
        """The replica for the next attempt and its breaker's permit.

        Raises:
            NoReplicaError: none may be called.
        """
        replicas = self.pool.replicas
        refused_by = None
        for load in self.balancer.order(self.pool.loads, now_s, avoid):
            replica = replicas[load.name]
            if replica.abandoned >= self._most_abandoned:
                refused_by = "owes too many answers"
                continue
            permit = replica.breaker.try_acquire(now_s)
            if permit is not None:
                return replica, permit
            refused_by = refused_by or "circuit open"
        raise NoReplicaError(refused_by or "all replicas are drained or ejected")

    async def _attempt(self, job: Job[Answer]) -> Answer:
        this = self._begin(job)
        outcome = "cancelled"
        try:
            this.call = self.pool.send(this.replica, job.payload, this.wait_s + self._slack_s)
            response = await this.call.response(this.wait_s)
            answer = job.decode(response, job.request_id, this.replica.name)
        except InferenceError as error:
            outcome = error.kind
            self._on_failure(job, this, error)
            if isinstance(error, AttemptTimeoutError) and this.has_all_there_is:
                outcome = DeadlineExceededError.kind
                raise DeadlineExceededError(str(error), replica=error.replica) from None
            raise
        except BaseException:
            this.replica.breaker.on_neither(this.permit)
            raise
        else:
            outcome = "ok"
            self._on_success(this)
            return answer
        finally:
            if this.call is not None and not this.call.is_done:
                self._leave(this.replica, this.call)
            if self._hooks.on_attempt is not None:
                self._hooks.on_attempt(_event(job, this, outcome))

    def _begin(self, job: Job[Answer]) -> _Attempt:
        """Take a replica and a permit for one attempt.

        Raises:
            DeadlineExceededError: there is no time left for one.
            NoReplicaError: there is nobody to ask.
        """
        now_s = time.monotonic()
        remaining_s = job.deadline.remaining_s(now_s)
        if remaining_s <= 0:
            raise DeadlineExceededError("the deadline passed before anything was sent")
        replica, permit = self.choose(job.failed_on, now_s)
        job.attempts += 1
        job.trying = replica.name
        limit_s = self._attempt_limit_s
        wait_s = min(limit_s, remaining_s)
        return _Attempt(replica, permit, job.attempts, now_s, wait_s, remaining_s <= limit_s)

    def _on_success(self, this: _Attempt) -> None:
        now_s = time.monotonic()
        latency_ms = (now_s - this.started_s) * 1000
        this.replica.load.on_success(latency_ms, now_s)
        this.replica.breaker.on_success(this.permit, now_s)
        if self._is_hedging:
            self._hedge_timer.observe(latency_ms)

    def _leave(self, replica: Replica, call: Call) -> None:
        """Nobody waits for this call any more."""
        if self._config.deadlines.mode is ExpiryMode.CANCEL:
            call.cancel()
            return
        replica.abandoned += 1
        number = id(call)
        self._abandoned[number] = call

        def on_done() -> None:
            replica.abandoned -= 1
            self._abandoned.pop(number, None)

        call.on_done(on_done)

    def _on_failure(self, job: Job[Answer], this: _Attempt, error: InferenceError) -> None:
        replica, permit = this.replica, this.permit
        if isinstance(error, OverloadedError):
            replica.breaker.on_neither(permit)  # our own door, not the replica's
            return
        error.replica = replica.name
        if replica.name in job.failed_on:
            job.failed_on.remove(replica.name)
        job.failed_on.append(replica.name)
        now_s = time.monotonic()
        if self._is_blamed(error, this):
            replica.load.on_failure((now_s - this.started_s) * 1000, now_s)
            replica.breaker.on_failure(permit, now_s)
        elif permit.is_probe and _is_answer(error):
            # A refusal is no success; yet whoever answers a probe with one is back.
            replica.breaker.on_success(permit, now_s)
        else:
            replica.breaker.on_neither(permit)
        if error.is_overload:
            replica.load.on_overload(now_s)
        if error.ejects_replica and self._speaks_for_replica(error, job.model):
            self._eject(replica, error.kind, now_s)

    def _is_blamed(self, error: InferenceError, this: _Attempt) -> bool:
        if isinstance(error, AttemptTimeoutError) and this.has_all_there_is:
            return is_fair_share(this.wait_s * 1000, this.replica.load.usual_ms)
        return error.counts_against_replica

    def _speaks_for_replica(self, error: InferenceError, model: ModelRef) -> bool:
        # A call for some other unloaded model must not put the replica aside for ours.
        return not isinstance(error, ModelNotReadyError) or model.name == self._config.model.name

    def _eject(self, replica: Replica, reason: str, now_s: float) -> None:
        for_s = None if self._config.health.enabled else EJECTION_WITHOUT_HEALTH_S
        was_ejected = replica.load.is_ejected(now_s)
        if not self.balancer.eject(replica.load, self.pool.loads, now_s, reason, for_s):
            return
        if not was_ejected and self._hooks.on_replica is not None:
            self._hooks.on_replica(ReplicaEvent(replica.name, "ready", "ejected", reason))

    # ------------------------------------------------------------ hedging

    async def _hedged(self, job: Job[Answer]) -> Answer:
        """An attempt, and a second one elsewhere if the first is slower than most."""
        delay_s = self._hedge_timer.delay_s()
        if delay_s is None or len(self.pool.loads) < 2:
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
            job.attempts = rival.attempts
            self._tell_hedge(job, rival, delay_s, winner)
            return await racing[max(winner, 0)]
        finally:
            for contestant in racing:
                contestant.cancel()
            await asyncio.gather(*racing, return_exceptions=True)

    def _tell_hedge(
        self, job: Job[Answer], rival: Job[Answer], delay_s: float, winner: int
    ) -> None:
        if self._hooks.on_hedge is None:
            return
        names = (job.trying, rival.trying)
        won = names[winner] if winner >= 0 else ""
        self._hooks.on_hedge(
            HedgeEvent(job.request_id, job.model.name, *names, delay_s * 1000, won)
        )


def _is_answer(error: InferenceError) -> bool:
    return not error.ejects_replica and not isinstance(error, AttemptTimeoutError)


def _event(job: Job[Any], this: _Attempt, outcome: str) -> AttemptEvent:
    return AttemptEvent(
        call_id=job.request_id,
        replica=this.replica.name,
        model=job.model.name,
        outcome=outcome,
        latency_ms=(time.monotonic() - this.started_s) * 1000,
        attempt=this.number,
        batch=job.batch,
        sent_bytes=len(job.payload),
    )


async def _first_success(racing: Sequence[asyncio.Future[Answer]]) -> int:
    """Index of the first that succeeds, -1 when all fail."""
    pending: set[asyncio.Future[Answer]] = set(racing)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for index, contestant in enumerate(racing):
            if contestant in done and contestant.exception() is None:
                return index
    return -1
