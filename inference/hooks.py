"""What the client tells others while it works: one frozen event a thing that happened.

Pass `Hooks(on_attempt=..., on_breaker=...)`; leave out what you don't want, and its events are
never built. `instrument.py` has ready-made ones for logs, Prometheus and OpenTelemetry. No event
carries a message's text. A hook is called in the thread or event loop where the thing happened
and must return quickly. One that raises is logged, once, and never breaks a call.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

__all__ = [
    "AttemptEvent",
    "BatchEvent",
    "BreakerEvent",
    "CallEvent",
    "CallStartEvent",
    "HedgeEvent",
    "Hooks",
    "ReplicaEvent",
    "RetryEvent",
    "combine",
]

log = logging.getLogger(__name__)

Event = TypeVar("Event")


@dataclass(frozen=True, slots=True)
class CallStartEvent:
    """A call begins. `call_id` ties together all events of one call, in this process only."""

    call_id: str
    model: str
    batch: int


@dataclass(frozen=True, slots=True)
class CallEvent:
    """A call has ended, after all its attempts.

    `outcome` is `ok` or the error's `kind`.
    """

    call_id: str
    model: str
    outcome: str
    latency_ms: float
    attempts: int
    batch: int


@dataclass(frozen=True, slots=True)
class AttemptEvent:
    """One attempt on one replica has ended. `attempt` counts from 1; `sent_bytes` is the request.

    `outcome` is `ok` or the error's `kind`.
    """

    call_id: str
    replica: str
    model: str
    outcome: str
    latency_ms: float
    attempt: int
    batch: int
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class RetryEvent:
    """Another attempt will follow after `delay_ms`, because of `reason` (the error's `kind`)."""

    call_id: str
    replica: str
    model: str
    reason: str
    attempt: int
    delay_ms: float


@dataclass(frozen=True, slots=True)
class HedgeEvent:
    """A second attempt was started after `after_ms` without an answer from the first.

    `winner` is the replica whose answer was used; empty when neither gave one.
    """

    call_id: str
    model: str
    first: str
    second: str
    after_ms: float
    winner: str


@dataclass(frozen=True, slots=True)
class BreakerEvent:
    """A replica's breaker changed state. `open_s`: how long it will stay open, 0 unless it is."""

    replica: str
    old: str
    new: str
    reason: str
    open_s: float


@dataclass(frozen=True, slots=True)
class BatchEvent:
    """The collector sent a batch. `wait_ms`: how long its oldest call had waited.

    `reason`: what made it leave: `idle`, `full`, `share`, `max_wait`, `deadline` or `closing`.
    """

    size: int
    wait_ms: float
    reason: str
    in_flight: int
    queued: int


@dataclass(frozen=True, slots=True)
class ReplicaEvent:
    """A replica came, went, became ready or not, or is draining."""

    replica: str
    old: str
    new: str
    reason: str


class _Guarded(Generic[Event]):
    """A hook that can't break its caller."""

    __slots__ = ("_failed", "_hook")

    def __init__(self, hook: Callable[[Event], None]) -> None:
        self._hook = hook
        self._failed = False

    def __call__(self, event: Event) -> None:
        try:
            self._hook(event)
        except Exception:  # whatever a stranger's hook raises, the call goes on
            if not self._failed:
                self._failed = True
                log.exception("A hook for %s raised; told once", type(event).__name__)


@dataclass(frozen=True, slots=True)
class Hooks:
    """Callables for events; None means nobody is interested, so test before building one."""

    on_call_start: Callable[[CallStartEvent], None] | None = None
    on_call: Callable[[CallEvent], None] | None = None
    on_attempt: Callable[[AttemptEvent], None] | None = None
    on_retry: Callable[[RetryEvent], None] | None = None
    on_hedge: Callable[[HedgeEvent], None] | None = None
    on_breaker: Callable[[BreakerEvent], None] | None = None
    on_batch: Callable[[BatchEvent], None] | None = None
    on_replica: Callable[[ReplicaEvent], None] | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            hook = getattr(self, each.name)
            if hook is not None and not isinstance(hook, _Guarded):
                object.__setattr__(self, each.name, _Guarded(hook))


def combine(*hooks: Hooks) -> Hooks:
    """One `Hooks` that calls all of them, in order; each is guarded for itself."""
    return Hooks(**{each.name: _fan_out(each.name, hooks) for each in fields(Hooks)})


def _fan_out(name: str, hooks: tuple[Hooks, ...]) -> Callable[[Any], None] | None:
    listeners = [hook for each in hooks if (hook := getattr(each, name)) is not None]
    if len(listeners) < 2:
        return listeners[0] if listeners else None

    def call_all(event: Any) -> None:
        for listener in listeners:
            listener(event)

    return call_all
