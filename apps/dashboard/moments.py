"""What a spike was made of: the slowest batches of a moment and where their time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q
from django.db.models.fields.json import KeyTransform

from apps.chat.models import CHUNK_ID_BITS
from apps.dashboard import feed
from apps.scoring.models import StageSample, Verdict
from apps.scoring.samples import KEPT_FOR
from apps.scoring.slowest import BatchTrace

MOST_BATCHES = 10
MESSAGES_SHOWN = 8
# A sample tells of the second before it.
_SAMPLED_AFTER = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class TritonMeans:
    """What one replica did for all its callers in the five seconds around a batch.

    Triton adds up how long calls wait in its queue; of a single call it tells nothing.
    """

    replica: str
    queue_ms: float
    batch: float


@dataclass(frozen=True, slots=True)
class SlowBatch:
    """One of them, and when and by whom it was told; `rows` are some of its messages."""

    at: datetime
    process: str
    trace: BatchTrace
    triton: Sequence[TritonMeans] = ()
    rows: Sequence[feed.Row] = ()

    @property
    def segments(self) -> list[tuple[str, float, float]]:
        """Stage, milliseconds, share of the whole, in the order of a message's way."""
        total_ms = self.trace.total_ms or 1.0
        stages = ("queue", "claim", "encode", "inference", "store")
        parts = [(stage, getattr(self.trace, f"{stage}_ms")) for stage in stages]
        return [(stage, part_ms, part_ms / total_ms) for stage, part_ms in parts]


@dataclass(frozen=True, slots=True)
class Moment:
    """`is_kept` is False when the whole window is older than what is kept."""

    since: datetime
    until: datetime
    is_kept: bool
    batches: Sequence[SlowBatch]


def read_moment(since: datetime, until: datetime, *, now: datetime, with_messages: bool) -> Moment:
    """The slowest batches between two instants, slowest first.

    Args:
        since, until: at most as far apart as samples are kept; what is older is gone.
        now: the time.
        with_messages: for people who may read messages.
    """
    first = max(since, now - KEPT_FOR)
    rows = StageSample.objects.filter(at__gte=first, at__lt=until + _SAMPLED_AFTER)
    told = rows.values_list(
        *("at", "process"),
        *(KeyTransform(name, "payload") for name in ("slow_batches", "replicas")),
    )
    traced = [
        SlowBatch(at, process, BatchTrace.from_json(batch), _triton_means(replicas))
        for at, process, batches, replicas in told
        for batch in batches or ()
    ]
    traced.sort(key=lambda slow: slow.trace.total_ms, reverse=True)
    slowest = traced[:MOST_BATCHES]
    if with_messages:
        slowest = [_with_messages(slow) for slow in slowest]
    return Moment(since, until, until > now - KEPT_FOR, slowest)


def _triton_means(replicas: Sequence[Mapping[str, Any]]) -> list[TritonMeans]:
    return [
        TritonMeans(view["name"], view["mean_queue_ms"], view["mean_batch"])
        for view in replicas or ()
        if view.get("mean_queue_ms") is not None and view.get("mean_batch") is not None
    ]


def _with_messages(slow: SlowBatch) -> SlowBatch:
    of_chunks = Q()
    for chunk in slow.trace.chunks:
        first = chunk << CHUNK_ID_BITS
        of_chunks |= Q(message_id__gte=first, message_id__lt=first + (1 << CHUNK_ID_BITS))
    if not of_chunks:
        return slow
    verdicts = Verdict.objects.filter(of_chunks).order_by("-total_ms", "message_id")
    rows = feed.rows_of_verdicts(verdicts, MESSAGES_SHOWN)
    return replace(slow, rows=rows)
