"""What a failure means, and whether to try again. No I/O: the caller brings clock and chance.

Codes alone do not tell: Triton says UNAVAILABLE for a full queue, for a spent queue timeout, for
a shutdown and for a missing header, and NOT_FOUND both for a typing error and for the last two
seconds of a shutdown. The wording is that of tritonserver 2.51 (src/grpc, core) and newer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock

from inference.config import HedgeConfig, RetryConfig
from inference.errors import (
    AttemptTimeoutError,
    ConnectFailedError,
    InferenceError,
    InvalidRequestError,
    MessageTooLargeError,
    MisconfiguredError,
    ModelFailedError,
    ModelNotReadyError,
    QueueExpiredError,
    QueueFullError,
    StoppingError,
    UnknownModelError,
    UnreachableError,
    WrongCallError,
)

__all__ = ["Backoff", "HedgeTimer", "RetryBudget", "error_class_for", "may_retry"]

# (gRPC code, a part of the message in lower case, class); the first that fits decides.
# An empty part fits every message of its code.
FAILURES: tuple[tuple[str, str, type[InferenceError]], ...] = (
    # Through an ensemble the same words come with "in ensemble 'e', " in front.
    ("UNAVAILABLE", "exceeds maximum queue size", QueueFullError),
    ("UNAVAILABLE", "request timeout expired", QueueExpiredError),
    ("UNAVAILABLE", "server is stopping", StoppingError),
    ("UNAVAILABLE", "server exiting", StoppingError),
    ("UNAVAILABLE", "server not ready", StoppingError),
    ("UNAVAILABLE", "server is shutting down", StoppingError),
    ("UNAVAILABLE", "this protocol is restricted", MisconfiguredError),
    ("UNAVAILABLE", "tls handshake failed", MisconfiguredError),
    ("UNAVAILABLE", "ssl_error_ssl", MisconfiguredError),
    ("UNAVAILABLE", "wrong_version_number", MisconfiguredError),
    ("UNAVAILABLE", "certificate_verify_failed", MisconfiguredError),
    ("UNAVAILABLE", "failed to connect to all addresses", ConnectFailedError),
    ("UNAVAILABLE", "connection refused", ConnectFailedError),
    ("UNAVAILABLE", "", UnreachableError),
    ("NOT_FOUND", "has no available versions", ModelNotReadyError),
    ("NOT_FOUND", "", UnknownModelError),
    ("INVALID_ARGUMENT", "", InvalidRequestError),
    ("ALREADY_EXISTS", "", InvalidRequestError),
    ("OUT_OF_RANGE", "", InvalidRequestError),
    ("FAILED_PRECONDITION", "", InvalidRequestError),
    # gRPC's own INTERNAL is a broken connection, not a broken model.
    ("INTERNAL", "rst_stream", UnreachableError),
    ("INTERNAL", "stream removed", UnreachableError),
    ("INTERNAL", "http2", UnreachableError),
    # What grpc.aio makes of a write on a connection that has just broken.
    ("INTERNAL", "internal error from core", UnreachableError),
    ("INTERNAL", "failed to poll from model repository", UnknownModelError),
    ("INTERNAL", "", ModelFailedError),
    ("UNIMPLEMENTED", "", WrongCallError),
    # Triton itself never returns this: it is gRPC's message limit, on either side.
    ("RESOURCE_EXHAUSTED", "", MessageTooLargeError),
    # Triton never returns this either: it is our own deadline for the attempt.
    ("DEADLINE_EXCEEDED", "", AttemptTimeoutError),
    # A proxy's answers.
    ("PERMISSION_DENIED", "", MisconfiguredError),
    ("UNAUTHENTICATED", "", MisconfiguredError),
)


def error_class_for(code: str, message: str) -> type[InferenceError]:
    """The class of a gRPC failure.

    Args:
        code: Name of the status code, for example ``"UNAVAILABLE"``.
        message: The status message. It is only looked at, never kept.

    Returns:
        The first class that fits; ``UnreachableError`` for a code nobody planned for
        (CANCELLED by the other side, ABORTED, DATA_LOSS, UNKNOWN): trying elsewhere is right.
    """
    wording = message.lower()
    for known_code, part, error_class in FAILURES:
        if code == known_code and part in wording:
            return error_class
    return UnreachableError


class Backoff:
    """Full jitter: anything between nothing and a ceiling that doubles."""

    def __init__(self, config: RetryConfig, random: Callable[[], float]) -> None:
        self._config = config
        self._random = random

    def delay_s(self, attempts_made: int) -> float:
        """How long to wait after ``attempts_made`` (1 or more) attempts."""
        # 2**1000 does not fit a float, and no ceiling needs more than 2**30 steps.
        doubled = self._config.backoff_first_ms * 2.0 ** min(attempts_made - 1, 30)
        return self._random() * min(self._config.backoff_max_ms, doubled) / 1000


class RetryBudget:
    """A token bucket that every call fills a little and every second attempt empties by one.

    In the long run second attempts add at most ``budget_ratio`` to the traffic, whatever fails:
    retries cannot turn an overload into an outage.
    """

    def __init__(self, config: RetryConfig) -> None:
        self._ratio = config.budget_ratio
        # A ratio of nothing means no second attempts at all, also not from the reserve.
        self._reserve = config.budget_reserve if self._ratio > 0 else 0.0
        self._tokens = self._reserve
        self._lock = Lock()

    @property
    def tokens(self) -> float:
        return self._tokens

    def deposit(self) -> None:
        """Once for each call (not for each attempt)."""
        if self._tokens >= self._reserve:
            return  # full, as it is while all goes well: no lock
        with self._lock:
            self._tokens = min(self._reserve, self._tokens + self._ratio)

    def take(self) -> bool:
        """Pay for one retry or hedge; False means it is not to be made."""
        with self._lock:
            if self._tokens < 1.0:
                return False
            self._tokens -= 1.0
            return True


class HedgeTimer:
    """When a second call is worth its price: after most answers would have come."""

    def __init__(self, config: HedgeConfig) -> None:
        self._config = config
        self._recent_ms: deque[float] = deque(maxlen=1000)
        self._seen = 0
        self._delay_s: float | None = None

    def observe(self, latency_ms: float) -> None:
        """One successful attempt's latency."""
        self._recent_ms.append(latency_ms)
        self._seen += 1
        if self._seen >= self._config.min_samples and self._seen % 50 == 0:
            ranked = sorted(self._recent_ms)
            at_quantile = ranked[int(self._config.after_quantile * (len(ranked) - 1))]
            self._delay_s = max(self._config.min_delay_ms, at_quantile) / 1000

    def delay_s(self) -> float | None:
        """How long to wait for the first answer; None while too little is known."""
        return self._delay_s


def may_retry(
    error: InferenceError, *, attempts_made: int, config: RetryConfig, remaining_s: float
) -> bool:
    """Whether the failure allows another attempt; the budget is asked after this."""
    return error.retryable and attempts_made < config.max_attempts and remaining_s > 0
