"""Replicas and the connections to them, within one process and one event loop."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from inference.balancer import ReplicaLoad
from inference.breaker import Breaker, BreakerState
from inference.config import ClientConfig, ModelRef, ReplicaConfig, TlsConfig
from inference.errors import OverloadedError
from inference.transport import Call, Connection, check_files
from inference.values import ModelStatistics

__all__ = ["Pool", "Replica", "ReplicaFacts", "ReplicaState", "ReplicaStatus", "Resolver"]

log = logging.getLogger(__name__)

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""From host and port to ``host:port`` addresses."""


class ReplicaStatus(StrEnum):
    READY = "ready"
    LIVE = "live"  # answers, but is not ready for our model
    DRAINING = "draining"
    EJECTED = "ejected"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """Of a server's machine, from its metrics; shares are 0 to 1, None where it tells nothing.

    Of several GPUs the busiest, and the memory of all.
    """

    cpu_share: float | None = None
    memory_share: float | None = None
    gpu_share: float | None = None
    gpu_memory_share: float | None = None


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """What the last look at a replica found. Before the first look it is taken for ready."""

    is_reachable: bool = True
    is_ready: bool = True
    is_model_ready: bool = True
    server_version: str = ""
    queue_depth: int | None = None
    server_load: ServerLoad | None = None
    mean_batch: float | None = None
    mean_queue_ms: float | None = None
    models: tuple[tuple[ModelRef, bool], ...] = ()
    statistics: tuple[ModelStatistics, ...] = ()
    checked_at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A replica as a console shows it.

    Attributes:
        state: The one word; a draining or ejected replica is that, whatever else it is.
        latency_ms: Moving average over attempts; None before the first.
        queue_depth: Requests pending in the server; None without a metrics address.
        server_load: Processors and memory of its machine; None without a metrics address.
        mean_batch, mean_queue_ms: Since the look before the last, from the server's statistics.
        models: Every model version in the repository, and whether it is ready.
    """

    name: str
    address: str
    state: ReplicaStatus
    reason: str
    breaker: BreakerState
    breaker_reason: str
    seconds_to_probe: float | None
    in_flight: int
    abandoned: int
    latency_ms: float | None
    queue_depth: int | None
    server_load: ServerLoad | None
    mean_batch: float | None
    mean_queue_ms: float | None
    version: str
    models: tuple[tuple[ModelRef, bool], ...]
    checked_at_s: float


@dataclass(slots=True)
class Replica:
    """One server: its configuration, its standing, its connections."""

    config: ReplicaConfig
    load: ReplicaLoad
    breaker: Breaker
    facts: ReplicaFacts = field(default_factory=ReplicaFacts)
    abandoned: int = 0
    figures_due_s: float = 0.0
    is_removed: bool = False
    is_held_out: bool = False  # ejected by an operator: only an operator readmits it
    connections: list[Connection] = field(default_factory=list)
    retired: list[Connection] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.config.name

    def state(self, now_s: float) -> ReplicaState:
        status, reason = self._status(now_s)
        return ReplicaState(
            name=self.name,
            address=self.config.grpc,
            state=status,
            reason=reason,
            breaker=self.breaker.state,
            breaker_reason=self.breaker.reason,
            seconds_to_probe=self.breaker.seconds_to_probe(now_s),
            in_flight=self.load.outstanding,
            abandoned=self.abandoned,
            latency_ms=self.load.latency_ms or None,
            queue_depth=self.facts.queue_depth,
            server_load=self.facts.server_load,
            mean_batch=self.facts.mean_batch,
            mean_queue_ms=self.facts.mean_queue_ms,
            version=self.facts.server_version,
            models=self.facts.models,
            checked_at_s=self.facts.checked_at_s,
        )

    def _status(self, now_s: float) -> tuple[ReplicaStatus, str]:
        if self.load.is_draining:
            return ReplicaStatus.DRAINING, "removed" if self.is_removed else "draining"
        if not self.facts.is_reachable:
            return ReplicaStatus.DOWN, self.load.ejection_reason or "no answer"
        if self.load.is_ejected(now_s):
            return ReplicaStatus.EJECTED, self.load.ejection_reason
        if not self.facts.is_model_ready:
            return ReplicaStatus.LIVE, "the model is not ready"
        return ReplicaStatus.READY, ""


class Pool:
    """All replicas of a client. Nothing is connected before the first call."""

    def __init__(
        self, config: ClientConfig, new_replica: Callable[[ReplicaConfig], Replica]
    ) -> None:
        self._config = config
        self._new_replica = new_replica
        self._tls = config.tls
        self._tls_signature = _signature(config.tls)
        self._bytes_in_flight = 0
        self.replicas: dict[str, Replica] = {}
        # The same loads in a list: the balancer looks at it on every call.
        self.loads: list[ReplicaLoad] = []
        if not isinstance(config.replicas, str):
            self.set_members(config.replicas)

    @property
    def bytes_in_flight(self) -> int:
        return self._bytes_in_flight

    # ------------------------------------------------------------ members

    def set_members(self, members: Iterable[ReplicaConfig]) -> None:
        """Add new ones, let go of those that are missing: they finish what they have."""
        wanted = {member.name: member for member in members}
        for name, member in wanted.items():
            known = self.replicas.get(name)
            if known is None or known.config.grpc != member.grpc:
                self.replicas[name] = fresh = self._new_replica(member)
                if known is not None:
                    fresh.retired = known.connections + known.retired
            elif known.is_removed:
                known.is_removed = known.load.is_draining = False
        for name, replica in self.replicas.items():
            if name not in wanted:
                replica.is_removed = replica.load.is_draining = True
        self._refresh_loads()

    def _refresh_loads(self) -> None:
        self.loads = [replica.load for replica in self.replicas.values()]

    async def resolve(self, resolver: Resolver) -> None:
        """Look a ``dns:///`` name up again. A failed or empty answer changes nothing."""
        if not isinstance(self._config.replicas, str):
            return
        host, _, port = self._config.replicas.removeprefix("dns:///").rpartition(":")
        try:
            addresses = await resolver(host, int(port))
        except OSError:
            return
        if self._tls is not None and self._tls.server_name_override is None:
            # We dial addresses; the certificate carries the name.
            self._tls = replace(self._tls, server_name_override=host)
        if addresses:
            self.set_members(ReplicaConfig(name=address, grpc=address) for address in addresses)

    # ------------------------------------------------------------ connections

    def connection(self, replica: Replica) -> Connection:
        """The least busy one; a new one while all are busy and there is room."""
        connections = replica.connections
        if connections and not connections[0].in_flight:
            return connections[0]
        best = min(connections, key=_in_flight, default=None)
        if best is not None and (
            not best.in_flight or len(connections) >= self._config.pool.connections_per_replica
        ):
            return best
        new = Connection(replica.config.grpc, self._config.pool, self._tls, self._config.headers)
        connections.append(new)
        return new

    def send(self, replica: Replica, request: bytes, timeout_s: float) -> Call:
        """Start a call and account for it until its last byte, waited for or not.

        Raises:
            OverloadedError: the bytes in flight would exceed ``max_in_flight_bytes``.
        """
        size = len(request)
        if self._bytes_in_flight + size > self._config.pool.max_in_flight_bytes:
            raise OverloadedError(f"{self._bytes_in_flight} bytes are in flight")
        connection, load = self.connection(replica), replica.load

        def on_end() -> None:
            self._bytes_in_flight -= size
            connection.in_flight -= 1
            load.outstanding -= 1

        call = connection.start_infer(request, timeout_s, on_end)
        self._bytes_in_flight += size
        connection.in_flight += 1
        load.outstanding += 1
        return call

    # ------------------------------------------------------------ housekeeping

    def renew_certificates(self) -> None:
        """If the PEM files changed, connect anew from here on; old connections finish their calls.

        Files that are missing, half written or do not belong together change nothing: whoever
        exchanges them is not done yet.
        """
        tls = self._config.tls
        if tls is None:
            return
        try:
            signature = _signature(tls)
            if signature == self._tls_signature:
                return
            check_files(tls)
        except OSError as error:  # ssl.SSLError is one
            log.warning("certificates are not usable yet: %s", error)
            return
        self._tls_signature = signature
        for replica in self.replicas.values():
            self._retire(replica)

    def retire_spares(self, replica: Replica) -> None:
        """It is gone: keep one connection, to ask whether it is back.

        The others would still be in their backoff when that one has got through, and their calls
        would put the replica aside again. New ones dial at once.
        """
        replica.retired += replica.connections[1:]
        replica.connections = replica.connections[:1]

    def _retire(self, replica: Replica) -> None:
        replica.retired += replica.connections
        replica.connections = []

    async def sweep(self) -> None:
        """Close what nobody uses any more: retired connections, removed replicas."""
        for name, replica in list(self.replicas.items()):
            if replica.is_removed and not replica.load.outstanding:
                self._retire(replica)
                del self.replicas[name]
            idle = [connection for connection in replica.retired if not connection.in_flight]
            replica.retired = [each for each in replica.retired if each.in_flight]
            for connection in idle:
                await connection.close()
        self._refresh_loads()

    async def close(self) -> None:
        """Close every connection; what is still in flight is cancelled."""
        everything = [
            connection
            for replica in self.replicas.values()
            for connection in (*replica.connections, *replica.retired)
        ]
        self.replicas.clear()
        self._refresh_loads()
        await asyncio.gather(*(connection.close() for connection in everything))


def _in_flight(connection: Connection) -> int:
    return connection.in_flight


def _signature(tls: TlsConfig | None) -> tuple[tuple[int, int], ...]:
    if tls is None:
        return ()
    stats = [path.stat() for path in (tls.ca_file, tls.cert_file, tls.key_file) if path]
    return tuple((stat.st_mtime_ns, stat.st_size) for stat in stats)


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    """All addresses the system's resolver gives for ``host``."""
    loop = asyncio.get_running_loop()
    answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    hosts = sorted({str(answer[4][0]) for answer in answers})
    return [f"[{h}]:{port}" if _is_ipv6(h) else f"{h}:{port}" for h in hosts]


def _is_ipv6(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).version == 6
