"""The Triton replicas from the settings, and a client for them."""

from __future__ import annotations

import re

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from inference import (
    BreakerState,
    ClientConfig,
    DeadlineConfig,
    Hooks,
    ModerationClient,
    ReplicaConfig,
    ReplicaState,
    ReplicaStatus,
)

_REPLICA = re.compile(
    r"(?:(?P<name>[^=]+)=)?(?P<host>\[[^\]]+\]|[^:\[\]]+)"
    r":(?P<grpc>\d+)(?::(?P<http>\d+))?(?::(?P<metrics>\d+))?"
)
# A call may wait behind other workers' batches; what matters is that it ends before the lease.
CALLS_WITHIN_A_LEASE = 3


def replica_configs(values: list[str]) -> list[ReplicaConfig]:
    """Read `name=host:grpc[:http[:metrics]]`, as TRITON_REPLICAS gives them.

    Raises:
        ImproperlyConfigured: one of them is not of that form.
    """
    return [_replica(value, number) for number, value in enumerate(values, start=1)]


def _replica(value: str, number: int) -> ReplicaConfig:
    found = _REPLICA.fullmatch(value)
    if found is None:
        raise ImproperlyConfigured(
            f"TRITON_REPLICAS: {value!r} is not of the form name=host:grpc[:http[:metrics]]."
        )
    host = found["host"]
    return ReplicaConfig(
        name=found["name"] or f"triton-{number}",
        grpc=f"{host}:{found['grpc']}",
        http=f"{host}:{found['http']}" if found["http"] else None,
        metrics=f"{host}:{found['metrics']}" if found["metrics"] else None,
    )


_TAKING = {BreakerState.CLOSED, BreakerState.RAMPING, BreakerState.FORCED_CLOSED}


def takes_calls(replica: ReplicaState) -> bool:
    """Whether a call would be sent there now; one probe of a half-open breaker does not count."""
    return replica.state == ReplicaStatus.READY and replica.breaker in _TAKING


def call_budget_s() -> float:
    """How long one ensemble call of the pipeline may take, retries included."""
    return float(settings.SCORING_LEASE_S) / CALLS_WITHIN_A_LEASE


def new_client(hooks: Hooks | None = None) -> ModerationClient:
    """A client for the pipeline: patient, because nobody waits for a single answer."""
    budget_ms = call_budget_s() * 1000
    config = ClientConfig(
        replicas=replica_configs(settings.TRITON_REPLICAS),
        max_batch=settings.SCORING_CALL_SIZE,
        deadlines=DeadlineConfig(default_budget_ms=budget_ms, attempt_timeout_ms=budget_ms / 2),
    )
    return ModerationClient(config, hooks or Hooks())
