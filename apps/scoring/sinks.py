"""Letting the rooms above act on new verdicts, inside the transaction that stores them.

Review items and outbox events must stand or fall with the verdict they come from, yet scoring may
not import the rooms that own them. So the dependency is turned round: those rooms import this one
and register a function from their `AppConfig.ready()`. A signal would do the same with less: it
has no declared signature, gives no order, and hides who listens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from apps.chat.models import CHUNK_ID_BITS
from apps.policies.models import Action, Label
from apps.scoring.models import Source


class StoredVerdict(NamedTuple):
    """One verdict as it was stored. `scores` follow `policies.judging.LABELS`, None if unknown.

    A tuple because twelve thousand are made a second: a frozen dataclass takes eight times as long.
    """

    message_id: int
    group_id: int
    release_id: int
    policy_version_id: int
    source: Source
    label: Label | None
    action: Action
    acting_label: Label | None
    scores: tuple[float, float, float, float] | None
    reasons: tuple[str, ...]
    undone: int = 0

    @property
    def chunk_id(self) -> int:
        """The chunk that its message came in."""
        return self.message_id >> CHUNK_ID_BITS


VerdictSink = Callable[[Sequence[StoredVerdict]], None]
_sinks: list[VerdictSink] = []


def register_verdict_sink(sink: VerdictSink) -> None:
    """Have `sink` called with every batch of new verdicts, in the order of registration.

    It runs inside the storing transaction: what it writes commits with the verdicts, what it
    raises rolls them back and leaves the messages pending. Each verdict is passed once. It is on
    the hot path, so it must work on the batch as a whole: no query a verdict.
    """
    if sink not in _sinks:
        _sinks.append(sink)


def feed_sinks(verdicts: Sequence[StoredVerdict]) -> None:
    """Pass a batch to every sink; the caller holds the storing transaction open."""
    if verdicts:
        for sink in _sinks:
            sink(verdicts)
