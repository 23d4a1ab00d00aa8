"""The background look at each replica: reachable, ready, model ready, queue, mean batch.

It ejects what is not ready before a caller meets it, readmits what is back, looks DNS names up
again, exchanges connections when certificates change, and closes what nobody uses.
"""

from __future__ import annotations

import asyncio
import logging
import time
import urllib.request
from dataclasses import replace

from inference.balancer import Balancer
from inference.config import ClientConfig
from inference.errors import InferenceError
from inference.hooks import Hooks, ReplicaEvent
from inference.pool import Pool, Replica, ReplicaFacts, Resolver, ServerLoad
from inference.values import ModelStatistics

__all__ = ["Monitor", "mean_between", "pending_requests"]

log = logging.getLogger(__name__)

PENDING = "nv_inference_pending_request_count"


class Monitor:
    """One task on the client's loop."""

    def __init__(
        self,
        config: ClientConfig,
        pool: Pool,
        balancer: Balancer,
        hooks: Hooks,
        resolver: Resolver,
    ) -> None:
        self._config = config
        self._health = config.health
        self._pool = pool
        self._balancer = balancer
        self._hooks = hooks
        self._resolver = resolver
        self._task: asyncio.Task[None] | None = None
        self._next_resolve_s = 0.0
        self._next_tls_s = 0.0
        self._looking = asyncio.Lock()

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._health.enabled and self._task is None:
            self._task = loop.create_task(self._rounds())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _rounds(self) -> None:
        while True:
            try:
                await self._round(time.monotonic())
            except Exception:
                # Nobody awaits this task: without a log the checks would end unseen.
                log.exception("a health check went wrong; the next one goes on")
            await asyncio.sleep(self._pause_s())

    async def _round(self, now_s: float) -> None:
        if now_s >= self._next_resolve_s:
            self._next_resolve_s = now_s + self._health.resolve_every_s
            await self._pool.resolve(self._resolver)
        self._renew_tls(now_s)
        await self.look_at_all()
        await self._pool.sweep()

    def _pause_s(self) -> float:
        all_up = all(each.facts.is_model_ready for each in self._pool.replicas.values())
        return self._health.every_s if all_up else self._health.down_every_s

    def _renew_tls(self, now_s: float) -> None:
        tls = self._config.tls
        if tls is None or now_s < self._next_tls_s:
            return
        self._next_tls_s = now_s + tls.check_files_every_s
        self._pool.renew_certificates()

    async def look_at_all(self, *, with_figures: bool = False) -> None:
        """One round. Rounds do not overlap, else an older finding could replace a newer one."""
        async with self._looking:
            replicas = list(self._pool.replicas.values())
            for replica in replicas if with_figures else ():
                replica.figures_due_s = 0.0
            await asyncio.gather(*(self._look_at(replica) for replica in replicas))

    async def _look_at(self, replica: Replica) -> None:
        before = replica.facts
        after = replica.facts = await self._facts(replica)
        self._act_on(replica, before, after)
        # Only then: whoever is back should not wait for its figures.
        if after.is_reachable and time.monotonic() >= replica.figures_due_s:
            replica.facts = await self._with_figures(replica, after)

    def _act_on(self, replica: Replica, before: ReplicaFacts, after: ReplicaFacts) -> None:
        now_s = time.monotonic()
        load = replica.load
        if not after.is_model_ready:
            reason = "the model is not ready" if after.is_reachable else "no answer"
            is_spared = self._balancer.eject(load, self._pool.loads, now_s, reason)
            # One missed check is no proof: where nobody else is left, calls go on trying.
            if is_spared and not after.is_reachable:
                replica.breaker.on_unreachable(now_s, reason)
            if not after.is_reachable:
                self._pool.retire_spares(replica)
        else:
            if load.is_ejected(now_s) and not replica.is_held_out:
                self._balancer.readmit(load)
            replica.breaker.on_reachable(now_s)
        if before.is_model_ready != after.is_model_ready:
            self._tell(replica, before, after)

    def _tell(self, replica: Replica, before: ReplicaFacts, after: ReplicaFacts) -> None:
        if self._hooks.on_replica is not None:
            self._hooks.on_replica(
                ReplicaEvent(replica.name, _word(before), _word(after), "health check")
            )

    async def _facts(self, replica: Replica) -> ReplicaFacts:
        timeout_s = self._health.timeout_ms / 1000
        connection = self._pool.connection(replica)
        known = replica.facts
        now_s = time.monotonic()
        try:
            is_ready = await connection.is_ready(timeout_s)
            model = self._config.model
            is_model_ready = (
                await connection.is_model_ready(model, timeout_s) if model.name else is_ready
            )
        except InferenceError as error:
            # "Server exiting" is an answer too: it is there and does not want calls.
            return replace(
                known,
                is_reachable=error.kind == "stopping",
                is_ready=False,
                is_model_ready=False,
                checked_at_s=now_s,
            )
        return replace(
            known,
            is_reachable=True,
            is_ready=is_ready,
            is_model_ready=is_model_ready,
            checked_at_s=now_s,
        )

    async def _with_figures(self, replica: Replica, facts: ReplicaFacts) -> ReplicaFacts:
        """Statistics, metrics, versions: every ``statistics_every_s`` only."""
        replica.figures_due_s = time.monotonic() + self._health.statistics_every_s
        timeout_s = self._health.timeout_ms / 1000
        connection = self._pool.connection(replica)
        try:
            statistics = tuple(await connection.statistics(None, timeout_s))
            models = tuple(await connection.models(timeout_s))
            version = facts.server_version or await connection.server_version(timeout_s)
        except InferenceError:
            # The next round finds out whether it is gone; figures may be missing meanwhile.
            return facts
        mean_batch, mean_queue_ms = mean_between(facts.statistics, statistics)
        metrics = await self._metrics(replica)
        return replace(
            facts,
            server_version=version,
            statistics=statistics,
            models=models,
            mean_batch=mean_batch,
            mean_queue_ms=mean_queue_ms,
            queue_depth=None if metrics is None else pending_requests(metrics),
            server_load=None if metrics is None else server_load(metrics),
        )

    async def _metrics(self, replica: Replica) -> str | None:
        address = replica.config.metrics
        if address is None:
            return None
        try:
            return await asyncio.to_thread(
                _fetch, f"http://{address}/metrics", self._health.timeout_ms / 1000
            )
        except OSError:
            return None


def _word(facts: ReplicaFacts) -> str:
    if not facts.is_reachable:
        return "down"
    return "ready" if facts.is_model_ready else "live"


def _fetch(url: str, timeout_s: float) -> str:
    # A proxy named in the environment is not for replicas.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=timeout_s) as answer:
        return str(answer.read().decode())


def pending_requests(metrics: str) -> int | None:
    """The sum of Triton's pending requests over models, from its metrics page."""
    values = _values(metrics, PENDING)
    return int(sum(values)) if values else None


def server_load(metrics: str) -> ServerLoad:
    """Processors and memory, from Triton's metrics page; what it leaves out is None."""
    return ServerLoad(
        cpu_share=max(_values(metrics, "nv_cpu_utilization"), default=None),
        memory_share=_share(metrics, "nv_cpu_memory"),
        gpu_share=max(_values(metrics, "nv_gpu_utilization"), default=None),
        gpu_memory_share=_share(metrics, "nv_gpu_memory"),
    )


def _share(metrics: str, name: str) -> float | None:
    total = sum(_values(metrics, f"{name}_total_bytes"))
    return sum(_values(metrics, f"{name}_used_bytes")) / total if total else None


def _values(metrics: str, name: str) -> list[float]:
    """Of every series of that name, with or without labels."""
    return [
        float(line.rsplit(" ", 1)[1])
        for line in metrics.splitlines()
        if line.startswith((f"{name} ", f"{name}{{"))
    ]


def mean_between(
    before: tuple[ModelStatistics, ...], after: tuple[ModelStatistics, ...]
) -> tuple[float | None, float | None]:
    """Mean server batch and mean queue time (ms) of what happened between two looks.

    An ensemble has no batch and no queue of its own: models that queue are its steps, so the
    means are over every model that executed. None when nothing did.
    """
    old = {(each.name, each.version): each for each in before}
    inferences = executions = queued = queue_ns = 0
    for new in after:
        was = old.get((new.name, new.version))
        if was is not None and was.execution_count > new.execution_count:
            was = None  # the model was loaded anew, its counters began at zero
        inferences += new.inference_count - (was.inference_count if was else 0)
        executions += new.execution_count - (was.execution_count if was else 0)
        queued += new.queue_count - (was.queue_count if was else 0)
        queue_ns += new.queue_ns - (was.queue_ns if was else 0)
    return (
        inferences / executions if executions > 0 else None,
        queue_ns / queued / 1e6 if queued > 0 else None,
    )
