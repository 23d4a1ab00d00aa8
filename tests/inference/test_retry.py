"""What a failure means and when another attempt is made; no clock, no network."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference import HedgeConfig, RetryConfig
from inference.errors import (
    AttemptTimeoutError,
    BadResponseError,
    ConnectFailedError,
    DeadlineExceededError,
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
from inference.retry import Backoff, HedgeTimer, RetryBudget, error_class_for, may_retry

# As tritonserver 2.51 and gRPC 1.85 word them.
SEEN = [
    ("UNAVAILABLE", "[request id: 7] Exceeds maximum queue size", QueueFullError),
    ("UNAVAILABLE", "in ensemble 'e', [request id: 7] Exceeds maximum queue size", QueueFullError),
    ("UNAVAILABLE", "Request timeout expired", QueueExpiredError),
    (
        "UNAVAILABLE",
        "Server is stopping, scheduler for model has stopped accepting new inference request",
        StoppingError,
    ),
    ("UNAVAILABLE", "Server exiting", StoppingError),
    ("UNAVAILABLE", "Server not ready", StoppingError),
    (
        "UNAVAILABLE",
        "GRPC server is shutting down and has stopped accepting new requests.",
        StoppingError,
    ),
    ("NOT_FOUND", "Request for unknown model: 'm' has no available versions", ModelNotReadyError),
    ("NOT_FOUND", "Request for unknown model: 'nope' is not found", UnknownModelError),
    ("NOT_FOUND", "Request for unknown model: 'm' version 99 is not found", UnknownModelError),
    ("UNAVAILABLE", "This protocol is restricted, expecting header 'x'", MisconfiguredError),
    ("UNAVAILABLE", "failed to connect: Tls handshake failed (TSI_…)", MisconfiguredError),
    (
        "UNAVAILABLE",
        "failed to connect to all addresses; last error: UNKNOWN: connect: Connection refused",
        ConnectFailedError,
    ),
    ("UNAVAILABLE", "Socket closed", UnreachableError),
    ("UNAVAILABLE", "Too many pings", UnreachableError),
    ("INTERNAL", "Received RST_STREAM with error code 2", UnreachableError),
    ("INTERNAL", "Internal error from Core", UnreachableError),
    ("INTERNAL", "Failed to process the request(s) for model instance 'x', …", ModelFailedError),
    ("INTERNAL", "failed to load 'x', failed to poll from model repository", UnknownModelError),
    ("INVALID_ARGUMENT", "unexpected shape for input 'TEXT'", InvalidRequestError),
    ("INVALID_ARGUMENT", "failed to get model version from specified version", InvalidRequestError),
    (
        "UNIMPLEMENTED",
        "ModelInfer RPC doesn't support models with decoupled transaction policy",
        WrongCallError,
    ),
    (
        "RESOURCE_EXHAUSTED",
        "CLIENT: Sent message larger than max (8027 vs. 1000)",
        MessageTooLargeError,
    ),
    ("DEADLINE_EXCEEDED", "Deadline Exceeded", AttemptTimeoutError),
    ("CANCELLED", "RST_STREAM", UnreachableError),
    ("UNKNOWN", "Stream removed", UnreachableError),
]


@pytest.mark.parametrize(("code", "message", "expected"), SEEN)
def test_code_and_message_together_name_the_class(
    code: str, message: str, expected: type[InferenceError]
) -> None:
    assert error_class_for(code, message) is expected


@pytest.mark.parametrize(
    ("error_class", "is_retried", "counts", "ejects"),
    [
        (QueueFullError, True, False, False),
        (QueueExpiredError, False, False, False),
        (StoppingError, True, False, True),
        (ModelNotReadyError, True, False, True),
        (ConnectFailedError, True, True, True),
        (UnreachableError, True, True, False),
        (AttemptTimeoutError, True, True, False),
        (BadResponseError, True, True, False),
        (DeadlineExceededError, False, False, False),
        (ModelFailedError, False, False, False),
        (InvalidRequestError, False, False, False),
        (UnknownModelError, False, False, False),
        (MessageTooLargeError, False, False, False),
        (MisconfiguredError, False, False, False),
        (WrongCallError, False, False, False),
    ],
)
def test_each_class_says_what_to_do(
    error_class: type[InferenceError], is_retried: bool, counts: bool, ejects: bool
) -> None:
    assert error_class.retryable is is_retried
    assert error_class.counts_against_replica is counts
    assert error_class.ejects_replica is ejects


def test_every_class_has_its_own_kind() -> None:
    def below(error_class: type[InferenceError]) -> list[type[InferenceError]]:
        return [error_class] + [c for s in error_class.__subclasses__() for c in below(s)]

    classes = below(InferenceError)
    assert len({each.kind for each in classes}) == len(classes)


@given(
    attempts=st.integers(min_value=1, max_value=10_000),
    chance=st.floats(min_value=0, max_value=1, exclude_max=True),
    first=st.floats(min_value=0, max_value=100),
    most=st.floats(min_value=100, max_value=10_000),
)
def test_backoff_is_anywhere_under_a_doubling_ceiling(
    attempts: int, chance: float, first: float, most: float
) -> None:
    config = RetryConfig(backoff_first_ms=first, backoff_max_ms=most)
    delay_s = Backoff(config, lambda: chance).delay_s(attempts)
    assert 0 <= delay_s <= most / 1000
    assert delay_s <= chance * first * 2.0 ** min(attempts - 1, 60) / 1000 + 1e-9


@given(
    ratio=st.floats(min_value=0, max_value=1),
    reserve=st.floats(min_value=0, max_value=50),
    wishes=st.lists(st.integers(min_value=0, max_value=5), max_size=300),
)
def test_second_attempts_never_exceed_their_share_and_the_reserve(
    ratio: float, reserve: float, wishes: list[int]
) -> None:
    budget = RetryBudget(RetryConfig(budget_ratio=ratio, budget_reserve=reserve))
    granted = 0
    for calls, wished in enumerate(wishes, start=1):
        budget.deposit()
        granted += sum(budget.take() for _ in range(wished))
        assert granted <= reserve + ratio * calls + 1e-6
    if ratio == 0:
        assert granted == 0


def test_a_call_makes_at_most_the_configured_attempts() -> None:
    config = RetryConfig(max_attempts=3)
    error = UnreachableError()
    allowed = [
        may_retry(error, attempts_made=made, config=config, remaining_s=1.0) for made in (1, 2, 3)
    ]
    assert allowed == [True, True, False]


def test_no_retry_without_time_left() -> None:
    error = UnreachableError()
    assert not may_retry(error, attempts_made=1, config=RetryConfig(), remaining_s=0.0)


def test_the_hedge_waits_for_the_quantile_and_not_before_it_is_known() -> None:
    timer = HedgeTimer(HedgeConfig(enabled=True, after_quantile=0.95, min_samples=100))
    for _ in range(99):
        timer.observe(5.0)
    assert timer.delay_s() is None
    for _ in range(1):
        timer.observe(5.0)
    assert timer.delay_s() == pytest.approx(0.005)
    for latency_ms in [5.0] * 930 + [50.0] * 70:
        timer.observe(latency_ms)
    assert timer.delay_s() == pytest.approx(0.050)


def test_a_quiet_time_saves_no_more_than_the_reserve() -> None:
    budget = RetryBudget(RetryConfig(budget_ratio=0.1, budget_reserve=20))
    for _ in range(10_000):
        budget.deposit()
    assert sum(budget.take() for _ in range(1_000)) == 20
