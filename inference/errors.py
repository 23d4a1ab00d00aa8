"""Every way a call can fail.

    InferenceError
    ├── RequestError              the request itself is wrong: no replica will take it
    │   ├── InvalidRequestError       wrong name, type, shape, batch size, bytes
    │   ├── PoisonedInputError        the model raised on this one item (found by bisection)
    │   ├── UnknownModelError         no such model or version
    │   ├── MessageTooLargeError      gRPC message limit, either way
    │   ├── WrongCallError            a decoupled model asked by a unary call
    │   └── MisconfiguredError        restricted protocol, TLS against plaintext
    ├── ReplicaError              this replica could not: another one may
    │   ├── UnreachableError          reset, cut half way
    │   │   └── ConnectFailedError        nobody listens there
    │   ├── StoppingError             the server is shutting down
    │   ├── ModelNotReadyError        the model has no available version here (now)
    │   ├── QueueFullError            the server's queue refused it
    │   ├── StreamLostError           a stream ended before its requests
    │   ├── ModelFailedError          INTERNAL: an exception in the model, not yet pinned to an item
    │   └── BadResponseError          wrong request id, count of outputs, NaN
    ├── InferenceTimeoutError     time ran out
    │   ├── AttemptTimeoutError       one attempt's share; the deadline itself has time left
    │   ├── QueueExpiredError         the server dropped it: it had waited its budget out
    │   └── DeadlineExceededError     the caller's deadline
    ├── OverloadedError           refused at our own door: bytes in flight, queue full
    ├── NoReplicaError            every breaker is open, or nothing is configured or left
    └── ClientClosedError         aclose() was called

No message holds a text that was sent. ``kind`` is the stable name for logs and metric labels.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AttemptTimeoutError",
    "BadResponseError",
    "ClientClosedError",
    "ConnectFailedError",
    "DeadlineExceededError",
    "InferenceError",
    "InferenceTimeoutError",
    "InvalidRequestError",
    "MessageTooLargeError",
    "MisconfiguredError",
    "ModelFailedError",
    "ModelNotReadyError",
    "NoReplicaError",
    "OverloadedError",
    "PoisonedInputError",
    "QueueExpiredError",
    "QueueFullError",
    "ReplicaError",
    "RequestError",
    "StoppingError",
    "StreamLostError",
    "UnknownModelError",
    "UnreachableError",
    "WrongCallError",
]


class InferenceError(Exception):
    """Base of all. The class attributes say what to do about it.

    Attributes:
        kind: Stable snake_case name, safe as a metric label.
        retryable: Another attempt, on another replica when one is up, may succeed.
        counts_against_replica: The breaker counts it as the replica's failure.
        is_overload: The replica is alive and too busy: send less, do not break the circuit.
        ejects_replica: The replica told us to go away: stop sending until it is ready again.
    """

    kind: ClassVar[str] = "inference_error"
    retryable: ClassVar[bool] = False
    counts_against_replica: ClassVar[bool] = False
    is_overload: ClassVar[bool] = False
    ejects_replica: ClassVar[bool] = False

    def __init__(self, message: str = "", *, replica: str = "", attempts: int = 0) -> None:
        super().__init__(message or self.kind)
        self.replica = replica
        self.attempts = attempts


class RequestError(InferenceError):
    """The request is wrong; retrying anywhere gives the same answer."""

    kind = "request_error"


class InvalidRequestError(RequestError):
    kind = "invalid_request"


class PoisonedInputError(RequestError):
    """The model raises on this item alone, confirmed by a second attempt."""

    kind = "poisoned_input"


class UnknownModelError(RequestError):
    kind = "unknown_model"


class MessageTooLargeError(RequestError):
    """RESOURCE_EXHAUSTED is never load here: Triton does not use it, gRPC's size limit does."""

    kind = "message_too_large"


class WrongCallError(RequestError):
    kind = "wrong_call"


class MisconfiguredError(RequestError):
    """UNAVAILABLE on the wire, yet no retry can help: a header or TLS is missing."""

    kind = "misconfigured"


class ReplicaError(InferenceError):
    """One replica could not answer."""

    kind = "replica_error"
    retryable = True
    counts_against_replica = True


class UnreachableError(ReplicaError):
    kind = "unreachable"


class ConnectFailedError(UnreachableError):
    kind = "connect_failed"
    ejects_replica = True


class StoppingError(ReplicaError):
    kind = "stopping"
    # An orderly stop is no fault; it is ejected until it says ready again.
    counts_against_replica = False
    ejects_replica = True


class ModelNotReadyError(ReplicaError):
    """NOT_FOUND "has no available versions": unloaded, or the last seconds of a shutdown."""

    kind = "model_not_ready"
    counts_against_replica = False
    ejects_replica = True


class QueueFullError(ReplicaError):
    kind = "queue_full"
    counts_against_replica = False
    is_overload = True


class ModelFailedError(ReplicaError):
    """INTERNAL. One bad item fails every request merged into its batch, so nobody is blamed yet.

    ``classify`` bisects it. It counts against the replica only once others have judged
    everything this one failed on: else one hostile text would open every breaker.
    """

    kind = "model_failed"
    retryable = False
    counts_against_replica = False


class StreamLostError(ReplicaError):
    """A stream broke under a request.

    Attributes:
        received: How many answers its reader had taken.
    """

    kind = "stream_lost"

    def __init__(
        self, message: str = "", *, replica: str = "", attempts: int = 0, received: int = 0
    ) -> None:
        super().__init__(message, replica=replica, attempts=attempts)
        self.received = received


class BadResponseError(ReplicaError):
    kind = "bad_response"


class InferenceTimeoutError(InferenceError):
    """Time ran out somewhere."""

    kind = "timeout"


class AttemptTimeoutError(InferenceTimeoutError):
    kind = "attempt_timeout"
    retryable = True
    counts_against_replica = True


class QueueExpiredError(InferenceTimeoutError):
    """The server's queue policy rejected it; our budget is spent too, so no retry."""

    kind = "queue_expired"
    is_overload = True


class DeadlineExceededError(InferenceTimeoutError):
    """The caller's deadline passed.

    It counts against the replica only when the attempt had a fair share of time: see
    ``client``, which knows how long the attempt was given.
    """

    kind = "deadline_exceeded"


class OverloadedError(InferenceError):
    """Refused by this client before anything was sent.

    Attributes:
        retry_after_ms: How long what is ahead will take, where that is known.
    """

    kind = "overloaded"
    is_overload = True

    def __init__(
        self,
        message: str = "",
        *,
        replica: str = "",
        attempts: int = 0,
        retry_after_ms: float | None = None,
    ) -> None:
        super().__init__(message, replica=replica, attempts=attempts)
        self.retry_after_ms = retry_after_ms


class NoReplicaError(InferenceError):
    """No replica may be called now. Fails at once, so that the caller degrades."""

    kind = "no_replica"


class ClientClosedError(InferenceError):
    kind = "client_closed"
