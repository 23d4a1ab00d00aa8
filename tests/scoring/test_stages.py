"""Latencies by stage and class: merged from sketches, never averaged."""

from __future__ import annotations

import base64
import random
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.chat.models import CHUNK_ID_BITS
from apps.policies.models import Action, Label
from apps.scoring.claims import Claim, ClaimedChunk
from apps.scoring.measuring import Measurements
from apps.scoring.models import Source
from apps.scoring.samples import BACKLOG_AFTER_MS, MessageClass, Sample, class_of, write_sample
from apps.scoring.sinks import StoredVerdict
from apps.scoring.stages import latencies_of, stage_latencies
from apps.scoring.verdicts import Stored
from inference.stats import RELATIVE_ERROR, LatencySketch

MINUTE = timedelta(minutes=1)


def sample(values: Mapping[str, Sequence[float]], process: str = "worker-1") -> Sample:
    sketches = {}
    for name, each in values.items():
        sketch = LatencySketch()
        sketch.add_many(each)
        sketches[name] = base64.b64encode(sketch.to_bytes()).decode()
    return Sample(timezone.now(), process, "worker", sketches=sketches)


@pytest.mark.parametrize(
    ("size", "waited_ms", "expected"),
    [
        (1, 3.0, MessageClass.SINGLE),
        (63, BACKLOG_AFTER_MS, MessageClass.SINGLE),
        (64, 3.0, MessageClass.BATCH),
        (256, 0.0, MessageClass.BATCH),
        (1, BACKLOG_AFTER_MS + 1, MessageClass.BACKLOG),
        (256, 60_000.0, MessageClass.BACKLOG),
    ],
)
def test_class_is_how_a_message_came_and_how_long_it_waited(
    size: int, waited_ms: float, expected: MessageClass
) -> None:
    assert class_of(size, waited_ms) is expected


def chunk(id_: int, size: int, waited_ms: float) -> ClaimedChunk:
    return ClaimedChunk(id_, size, 1, waited_ms, None, 0, is_fresh=True)


def verdicts(*chunks: ClaimedChunk) -> list[StoredVerdict]:
    """One for each message of these."""
    return [
        StoredVerdict(
            message_id=one.id << CHUNK_ID_BITS | at,
            group_id=1,
            release_id=1,
            policy_version_id=1,
            source=Source.MODEL,
            label=Label.OK,
            action=Action.ALLOW,
            acting_label=None,
            scores=None,
            reasons=(),
        )
        for one in chunks
        for at in range(one.size)
    ]


def totals(measured: Measurements) -> dict[MessageClass | None, int]:
    found = latencies_of([measured.take_sample(())])
    return {each.message_class: each.count for each in found if each.stage == "total"}


def test_batch_that_stored_nothing_took_no_time_to_a_verdict() -> None:
    """Given back in an outage, or taken over by another worker."""
    claim = Claim(uuid.uuid4(), [chunk(1, 1, 5.0), chunk(2, 200, 7.0)])
    measured = Measurements("worker")
    measured.stored(claim, Stored([], 1), store_ms=4.0, since_claim_ms=30.0, released=1)
    sample = measured.take_sample(())
    assert {each.stage for each in latencies_of([sample])} == set()
    counters = sample.counters
    assert (counters.batches, counters.verdicts, counters.fenced, counters.released) == (0, 0, 1, 1)


def test_only_messages_with_a_verdict_count_as_through() -> None:
    single, batch = chunk(1, 3, 5.0), chunk(2, 200, 7.0)
    claim = Claim(uuid.uuid4(), [single, batch])
    measured = Measurements("worker")
    stored = Stored([*verdicts(single)[:2], *verdicts(batch)[:150]], 0)
    measured.stored(claim, stored, store_ms=4.0, since_claim_ms=30.0, released=1)
    assert totals(measured) == {None: 152, MessageClass.SINGLE: 2, MessageClass.BATCH: 150}


def test_messages_that_are_tried_singly_count_once_each() -> None:
    suspect = chunk(1, 20, 5_000.0)
    claim = Claim(uuid.uuid4(), [suspect])
    measured = Measurements("worker")
    for verdict in verdicts(suspect):
        measured.stored(claim, Stored([verdict], 0), store_ms=1, since_claim_ms=2, released=0)
    assert totals(measured) == {None: 20, MessageClass.BACKLOG: 20}


def test_each_stage_is_recorded_for_the_classes_in_a_batch() -> None:
    claim = Claim(
        uuid.uuid4(), [chunk(1, 1, 5.0), chunk(2, 200, 7.0), chunk(3, 2, 9.0), chunk(4, 1, 5_000.0)]
    )
    measured = Measurements("worker")
    measured.claimed(claim, 2.0)
    measured.encoded(claim, 1.0)
    measured.answered(claim, 20.0)
    stored = Stored(verdicts(*claim.chunks), 0)
    measured.stored(claim, stored, store_ms=4.0, since_claim_ms=30.0, released=0)
    measured.pushed(0.5)
    found = {
        (each.stage, each.message_class): each for each in latencies_of([measured.take_sample(())])
    }
    counts = {key: each.count for key, each in found.items() if key[0] in {"queue", "total"}}
    assert counts == {
        ("queue", None): 4,
        ("queue", MessageClass.SINGLE): 2,
        ("queue", MessageClass.BATCH): 1,
        ("queue", MessageClass.BACKLOG): 1,
        ("total", None): 204,
        ("total", MessageClass.SINGLE): 3,
        ("total", MessageClass.BATCH): 200,
        ("total", MessageClass.BACKLOG): 1,
    }
    assert found["total", MessageClass.BACKLOG].max_ms == 5_030.0
    assert found["total", MessageClass.BATCH].p50_ms == pytest.approx(37.0, rel=RELATIVE_ERROR)
    for stage, value_ms in (("claim", 2.0), ("encode", 1.0), ("inference", 20.0), ("store", 4.0)):
        for message_class in MessageClass:
            each = found[stage, message_class]
            assert (each.count, each.max_ms) == (1, value_ms)
    # Pushes are of events, which have no class.
    assert [key for key in found if key[0] == "push"] == [("push", None)]


def test_percentiles_of_several_processes_are_those_of_all_values() -> None:
    chance = random.Random(4)
    parts = [[chance.lognormvariate(3, 1) for _ in range(500)] for _ in range(4)]
    samples = [sample({"total:batch": part}, f"worker-{n}") for n, part in enumerate(parts)]
    every = sorted(value for part in parts for value in part)
    overall, of_class = latencies_of(samples)
    assert (overall.message_class, of_class.message_class) == (None, MessageClass.BATCH)
    for quantile, told in ((0.5, overall.p50_ms), (0.99, overall.p99_ms)):
        exact = every[int(quantile * (len(every) - 1))]
        assert told == pytest.approx(exact, rel=2 * RELATIVE_ERROR)
    assert overall.count == of_class.count == 2000


@pytest.mark.django_db
def test_only_the_window_counts_and_samples_of_older_workers_do() -> None:
    write_sample(sample({"total": [1.0], "total:single": [3.0]}))
    overall, single = stage_latencies(MINUTE)
    assert (overall.count, single.count) == (2, 1)
    assert stage_latencies(timedelta(0)) == []
