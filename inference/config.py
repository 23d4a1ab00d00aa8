"""Everything that can be set, with its unit in its name. Bad values are refused here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from inference.deadline import Deadline

__all__ = [
    "BalancerConfig",
    "BalancerPolicy",
    "BreakerConfig",
    "ClientConfig",
    "CollectorConfig",
    "DeadlineConfig",
    "ExpiryMode",
    "HealthConfig",
    "HedgeConfig",
    "ModelRef",
    "PoolConfig",
    "ReplicaConfig",
    "RetryConfig",
    "StreamConfig",
    "TlsConfig",
]

# Triton's gRPC default: pings without data closer than this end in "Too many pings" (GOAWAY),
# which kills the calls in flight.
SERVER_MIN_PING_INTERVAL_S = 300.0


def _require(is_right: bool, sentence: str) -> None:
    if not is_right:
        raise ValueError(sentence)


class ExpiryMode(StrEnum):
    """What happens to an attempt whose time is up."""

    # Keep the call, stop waiting. Short gRPC deadlines crash Triton 24.10 (server#7368, #8034),
    # and a cancelled ensemble call is executed all the same (server#6739): cancelling buys nothing.
    WAIT_LOCALLY = "wait_locally"
    # Cancel it on the wire. For servers after the fix, with models called directly.
    CANCEL = "cancel"


class BalancerPolicy(StrEnum):
    LEAST_BUSY = "least_busy"
    ROUND_ROBIN = "round_robin"


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A Triton model and, if it matters, its version ("" lets the server choose the highest)."""

    name: str = "moderation"
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.version}" if self.version else self.name


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """One Triton server. Addresses are ``host:port`` without a scheme.

    ``metrics`` gives the queue depth; without it that figure is unknown, nothing else is lost.
    """

    name: str
    grpc: str
    http: str | None = None
    metrics: str | None = None

    def __post_init__(self) -> None:
        _require(bool(self.name), "a replica needs a name")
        _require(
            ":" in self.grpc and "://" not in self.grpc,
            f"replica {self.name}: grpc must be host:port, not {self.grpc!r}",
        )


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """PEM files. They are read again when they change, so certificates rotate without a restart."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    # Only for a certificate that does not carry the name we dial.
    server_name_override: str | None = None
    check_files_every_s: float = 30.0

    def __post_init__(self) -> None:
        _require(
            (self.cert_file is None) == (self.key_file is None),
            "mutual TLS needs both cert_file and key_file",
        )


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """Connections to one replica, and what all calls together may hold in memory."""

    connections_per_replica: int = 2
    max_message_bytes: int = 64 * 1024 * 1024
    max_in_flight_bytes: int = 128 * 1024 * 1024
    # gRPC's own default goes up to 120 s: a replica back from a restart would wait that long.
    reconnect_first_ms: int = 100
    reconnect_max_ms: int = 100
    # What TCP, TLS and HTTP/2 may take together. Less, and a busy machine never gets through.
    connect_timeout_ms: int = 1000
    # None leaves pings off; deadlines and health checks find a dead peer sooner anyway.
    keepalive_s: float | None = None

    def __post_init__(self) -> None:
        _require(self.connections_per_replica >= 1, "connections_per_replica must be at least 1")
        _require(self.max_message_bytes >= 4096, "max_message_bytes must be at least 4096")
        _require(
            self.max_in_flight_bytes >= self.max_message_bytes,
            "max_in_flight_bytes must hold one message of max_message_bytes",
        )
        _require(
            0 < self.reconnect_first_ms <= self.reconnect_max_ms,
            "reconnect_first_ms must be positive and at most reconnect_max_ms",
        )
        _require(
            self.keepalive_s is None or self.keepalive_s >= SERVER_MIN_PING_INTERVAL_S,
            f"keepalive_s under {SERVER_MIN_PING_INTERVAL_S:.0f} makes Triton hang up "
            'with "Too many pings"',
        )


@dataclass(frozen=True, slots=True)
class DeadlineConfig:
    """Budgets, and what happens when one is spent."""

    # For calls that bring no deadline of their own.
    default_budget_ms: float = 5_000.0
    # A synchronous check: the request's budget and the share inference may take of it.
    request_budget_ms: float = 200.0
    check_budget_ms: float = 30.0
    attempt_timeout_ms: float = 1_000.0
    mode: ExpiryMode = ExpiryMode.WAIT_LOCALLY
    # WAIT_LOCALLY: how long past its attempt a call is kept before gRPC gives it up,
    # and how many such calls one replica may owe before it gets no more.
    abandon_slack_ms: float = 10_000.0
    max_abandoned_per_replica: int = 64

    def __post_init__(self) -> None:
        for name in ("default_budget_ms", "request_budget_ms", "check_budget_ms"):
            _require(getattr(self, name) > 0, f"{name} must be positive")
        _require(self.attempt_timeout_ms > 0, "attempt_timeout_ms must be positive")
        _require(self.abandon_slack_ms >= 0, "abandon_slack_ms must not be negative")
        _require(self.max_abandoned_per_replica >= 1, "max_abandoned_per_replica must be >= 1")

    def for_check(self, request: Deadline | None = None) -> Deadline:
        """The inference deadline of a synchronous check, inside the request's own."""
        outer = request or Deadline.after(self.request_budget_ms / 1000)
        return outer.within(self.check_budget_ms / 1000)


@dataclass(frozen=True, slots=True)
class RetryConfig:
    """Second attempts. The budget is shared by retries and hedges."""

    max_attempts: int = 3
    backoff_first_ms: float = 2.0
    backoff_max_ms: float = 100.0
    # Second attempts may add this share to the traffic ...
    budget_ratio: float = 0.1
    # ... saved up to this many, so that a quiet client may still retry a burst.
    budget_reserve: float = 20.0

    def __post_init__(self) -> None:
        _require(self.max_attempts >= 1, "max_attempts must be at least 1")
        _require(0 <= self.budget_ratio <= 1, "budget_ratio must be between 0 and 1")
        _require(self.budget_reserve >= 0, "budget_reserve must not be negative")
        _require(
            0 <= self.backoff_first_ms <= self.backoff_max_ms,
            "backoff_first_ms must be at most backoff_max_ms",
        )


@dataclass(frozen=True, slots=True)
class HedgeConfig:
    """A second call when the first is slower than most; the first answer wins."""

    enabled: bool = False
    after_quantile: float = 0.95
    min_delay_ms: float = 2.0
    min_samples: int = 100

    def __post_init__(self) -> None:
        _require(0.5 <= self.after_quantile < 1, "after_quantile must be in [0.5, 1)")


@dataclass(frozen=True, slots=True)
class BreakerConfig:
    """One circuit breaker per replica."""

    window_s: float = 10.0
    min_volume: int = 10
    failure_rate: float = 0.5
    open_first_s: float = 0.5
    open_growth: float = 2.0
    open_max_s: float = 30.0
    ramp_s: float = 2.0
    ramp_first_share: float = 0.1

    def __post_init__(self) -> None:
        _require(self.window_s > 0, "window_s must be positive")
        _require(self.min_volume >= 1, "min_volume must be at least 1")
        _require(0 < self.failure_rate <= 1, "failure_rate must be in (0, 1]")
        _require(
            0 < self.open_first_s <= self.open_max_s, "open_first_s must be at most open_max_s"
        )
        _require(self.open_growth >= 1, "open_growth must be at least 1")
        _require(0 < self.ramp_first_share <= 1, "ramp_first_share must be in (0, 1]")
        _require(self.ramp_s >= 0, "ramp_s must not be negative")


@dataclass(frozen=True, slots=True)
class BalancerConfig:
    policy: BalancerPolicy = BalancerPolicy.LEAST_BUSY
    latency_half_life_s: float = 1.0
    # A replica nobody calls is forgiven at this pace, else a slow one would never be tried again.
    forgive_half_life_s: float = 5.0
    max_ejected_share: float = 0.5
    ejection_s: float = 30.0

    def __post_init__(self) -> None:
        _require(0 <= self.max_ejected_share <= 1, "max_ejected_share must be between 0 and 1")
        _require(self.latency_half_life_s > 0, "latency_half_life_s must be positive")
        _require(self.forgive_half_life_s > 0, "forgive_half_life_s must be positive")


@dataclass(frozen=True, slots=True)
class HealthConfig:
    """The background look at each replica: ready, models, queue, mean batch."""

    enabled: bool = True
    every_s: float = 0.5
    # While a replica is down it is asked more often, so that its return is seen at once.
    down_every_s: float = 0.1
    timeout_ms: float = 1_000.0
    # Statistics and metrics change slowly and cost more.
    statistics_every_s: float = 5.0
    resolve_every_s: float = 5.0


@dataclass(frozen=True, slots=True)
class CollectorConfig:
    """How single calls become batches."""

    max_batch: int = 64
    max_wait_ms: float = 5.0
    # The ceiling; the measured latency decides how many of these are used.
    max_in_flight_batches: int = 16
    max_queued: int = 10_000
    # While another batch is in flight, fewer calls than this wait for company (or max_wait_ms):
    # a call of its own costs about what judging as many texts does.
    worthwhile_batch: int = 16
    # How many batches' worth of waiting calls are sorted by length at a time: the servers pad the
    # less the more these are, and the longest of each round wait for all the others.
    sorted_batches: int = 4

    def __post_init__(self) -> None:
        for name in ("max_batch", "max_in_flight_batches", "max_queued", "worthwhile_batch"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1")
        _require(self.max_wait_ms >= 0, "max_wait_ms must not be negative")
        _require(self.sorted_batches >= 1, "sorted_batches must be at least 1")


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """How far a decoupled stream may run ahead of its reader."""

    window: int = 16
    idle_timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """All of it. ``replicas`` is an explicit list, or one ``dns:///host:port`` name.

    A name is resolved again every ``health.resolve_every_s``; each address is a replica.
    """

    replicas: Sequence[ReplicaConfig] | str
    # What classify() calls, and what a replica must have ready to be called at all; an empty name
    # asks for the server's readiness only.
    model: ModelRef = ModelRef()
    # classify() splits longer lists: the model's own max_batch_size.
    max_batch: int = 256
    pool: PoolConfig = field(default_factory=PoolConfig)
    tls: TlsConfig | None = None
    deadlines: DeadlineConfig = field(default_factory=DeadlineConfig)
    retry: RetryConfig = field(default_factory=RetryConfig)
    hedge: HedgeConfig = field(default_factory=HedgeConfig)
    breaker: BreakerConfig = field(default_factory=BreakerConfig)
    balancer: BalancerConfig = field(default_factory=BalancerConfig)
    health: HealthConfig = field(default_factory=HealthConfig)
    collector: CollectorConfig = field(default_factory=CollectorConfig)
    stream: StreamConfig = field(default_factory=StreamConfig)
    # Sent with every call, for example the header a restricted protocol expects.
    headers: Sequence[tuple[str, str]] = ()

    def __post_init__(self) -> None:
        if isinstance(self.replicas, str):
            _require(
                self.replicas.startswith("dns:///") and ":" in self.replicas[7:],
                f"replicas must be a list or dns:///host:port, not {self.replicas!r}",
            )
            return
        _require(bool(self.replicas), "at least one replica is needed")
        names = [replica.name for replica in self.replicas]
        _require(len(set(names)) == len(names), "replica names must differ")
