"""A Triton client that keeps its promises: deadlines, retries, breakers, balancing, batches.

It knows no Django. Start with ``ModerationClient(ClientConfig([ReplicaConfig("a", grpc=...)]))``
or its asynchronous twin ``AsyncModerationClient``; ``docs/inference.md`` explains each file.
"""

from inference.breaker import BreakerState
from inference.client import AsyncModerationClient
from inference.collector import Collector
from inference.config import (
    BalancerConfig,
    BalancerPolicy,
    BreakerConfig,
    ClientConfig,
    CollectorConfig,
    DeadlineConfig,
    ExpiryMode,
    HealthConfig,
    HedgeConfig,
    ModelRef,
    PoolConfig,
    ReplicaConfig,
    RetryConfig,
    StreamConfig,
    TlsConfig,
)
from inference.deadline import Deadline
from inference.errors import InferenceError
from inference.hooks import Hooks
from inference.pool import ReplicaState, ReplicaStatus
from inference.routing import ReleaseShare, Route, Shadow, TrafficSplit
from inference.sync import ModerationClient
from inference.values import (
    LABELS,
    Classification,
    InferResult,
    ModelMetadata,
    ModelStatistics,
    Tensor,
)

__all__ = [
    "LABELS",
    "AsyncModerationClient",
    "BalancerConfig",
    "BalancerPolicy",
    "BreakerConfig",
    "BreakerState",
    "Classification",
    "ClientConfig",
    "Collector",
    "CollectorConfig",
    "Deadline",
    "DeadlineConfig",
    "ExpiryMode",
    "HealthConfig",
    "HedgeConfig",
    "Hooks",
    "InferResult",
    "InferenceError",
    "ModelMetadata",
    "ModelRef",
    "ModelStatistics",
    "ModerationClient",
    "PoolConfig",
    "ReleaseShare",
    "ReplicaConfig",
    "ReplicaState",
    "ReplicaStatus",
    "RetryConfig",
    "Route",
    "Shadow",
    "StreamConfig",
    "Tensor",
    "TlsConfig",
    "TrafficSplit",
]
