"""Sketches keep their stated error, merge like one, and lose nothing between threads."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from ddsketch import DDSketch
from hypothesis import given
from hypothesis import strategies as st

from inference.stats import (
    LARGEST_MS,
    RELATIVE_ERROR,
    SMALLEST_MS,
    LatencySketch,
    Series,
    Snapshot,
    Stage,
    StageStats,
    merge_snapshots,
)

durations_ms = st.floats(min_value=SMALLEST_MS, max_value=LARGEST_MS)
samples_ms = st.lists(durations_ms, min_size=1, max_size=300)
shares = st.floats(min_value=0, max_value=1)


def sketch_of(values_ms: list[float]) -> LatencySketch:
    sketch = LatencySketch()
    for value_ms in values_ms:
        sketch.add(value_ms)
    return sketch


def value_at(values_ms: list[float], q: float) -> float:
    return sorted(values_ms)[math.floor(q * (len(values_ms) - 1))]


@given(samples_ms, shares)
def test_quantile_is_within_the_stated_error_of_the_true_one(values_ms, q):
    true = value_at(values_ms, q)
    found = sketch_of(values_ms).quantile(q)
    assert abs(found - true) <= true * RELATIVE_ERROR * (1 + 1e-9)


@given(samples_ms, shares)
def test_quantile_agrees_with_ddsketch(values_ms, q):
    reference = DDSketch(RELATIVE_ERROR)
    for value_ms in values_ms:
        reference.add(value_ms)
    found = sketch_of(values_ms).quantile(q)
    # Each is within 1 % of the same true value.
    assert found == pytest.approx(reference.get_quantile_value(q), rel=2.1 * RELATIVE_ERROR)


@given(samples_ms, samples_ms, shares)
def test_merged_sketches_answer_like_one_that_saw_everything(left, right, q):
    merged = sketch_of(left)
    merged.merge(sketch_of(right))
    whole = sketch_of(left + right)
    assert merged.quantile(q) == whole.quantile(q)
    assert merged.count == whole.count
    assert merged.sum_ms == pytest.approx(whole.sum_ms)
    assert (merged.min_ms, merged.max_ms) == (whole.min_ms, whole.max_ms)


@given(samples_ms, shares)
def test_values_added_one_by_one_or_at_once_give_the_same_sketch(values_ms, q):
    at_once, one_by_one = LatencySketch(), sketch_of(values_ms)
    at_once.add_many(values_ms)
    assert at_once.quantile(q) == one_by_one.quantile(q)
    assert at_once.count == one_by_one.count
    assert at_once.sum_ms == pytest.approx(one_by_one.sum_ms)


@given(st.lists(durations_ms, max_size=300), shares)
def test_bytes_bring_back_the_same_sketch(values_ms, q):
    original = sketch_of(values_ms)
    read = LatencySketch.from_bytes(original.to_bytes())
    assert read.quantile(q) == original.quantile(q)
    assert (read.count, read.sum_ms) == (original.count, original.sum_ms)
    assert (read.min_ms, read.max_ms) == (original.min_ms, original.max_ms)


def test_bytes_of_a_busy_stage_stay_under_a_kilobyte():
    sketch = LatencySketch()
    sketch.add_many(np.random.default_rng(1).lognormal(1, 1.2, 200_000))
    assert len(sketch.to_bytes()) < 1024


@given(st.binary(max_size=200))
def test_damaged_bytes_are_refused(data):
    with pytest.raises(ValueError, match="latency sketch"):
        LatencySketch.from_bytes(data)


def test_cut_bytes_are_refused_at_every_length():
    whole = sketch_of([0.5, 1.0, 20.0]).to_bytes()
    for length in range(len(whole)):
        with pytest.raises(ValueError, match="latency sketch"):
            LatencySketch.from_bytes(whole[:length])


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, -math.inf])
def test_a_misread_clock_is_refused(bad):
    sketch = LatencySketch()
    with pytest.raises(ValueError, match="finite"):
        sketch.add(bad)
    with pytest.raises(ValueError, match="finite"):
        sketch.add_many([1.0, bad])
    assert sketch.count == 0


def test_an_empty_sketch_has_no_quantiles():
    empty = LatencySketch()
    assert empty.quantile(0.5) is None
    assert (empty.count, empty.mean_ms, empty.max_ms) == (0, None, None)


@pytest.mark.parametrize("value_ms", [0.0, 1e-9, 1e12])
def test_values_outside_the_range_are_kept_as_the_extremes(value_ms):
    sketch = sketch_of([value_ms])
    assert sketch.quantile(0.5) == value_ms
    assert sketch.count == 1


def test_no_value_is_lost_between_adding_threads_and_draining_ones():
    sketch, taken, done = LatencySketch(), [], threading.Event()

    def drain() -> None:
        while not done.is_set():
            taken.append(sketch.drain().count)

    drainer = threading.Thread(target=drain)
    drainer.start()
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda _: [sketch.add(1.0) for _ in range(20_000)], range(4)):
            pass
    done.set()
    drainer.join()
    assert sum(taken) + sketch.count == 80_000


def test_deltas_of_two_processes_merge_to_the_whole():
    stats = [StageStats(), StageStats()]
    for shift, each in enumerate(stats):
        each.record_many(Stage.COMPUTE, [1.0 + shift, 2.0 + shift], replica="a")
        each.record(Stage.COMPUTE, 100.0, replica="b")
        each.count("refused", 3)
    deltas = [Snapshot.from_bytes(each.snapshot_and_reset().to_bytes()) for each in stats]
    whole = merge_snapshots(deltas)
    assert whole.sketch(Stage.COMPUTE, "a").count == 4
    assert whole.sketch(Stage.COMPUTE).count == 6
    assert whole.sketch(Stage.COMPUTE, "b").max_ms == 100.0
    assert whole.counter("refused") == 6
    assert whole.from_s <= whole.to_s


def test_a_reset_starts_anew_and_a_plain_snapshot_does_not():
    stats = StageStats()
    stats.record(Stage.STORE, 5.0)
    stats.count("batches")
    assert stats.snapshot().sketch(Stage.STORE).count == 1
    assert stats.snapshot_and_reset().counter("batches") == 1
    emptied = stats.snapshot()
    assert emptied.sketches == {}
    assert emptied.counters == {}


def test_json_names_stage_replica_and_quantiles():
    stats = StageStats()
    stats.record(Stage.NETWORK, 4.0, replica="a")
    stats.count("attempts", replica="a")
    told = stats.snapshot().as_json()
    assert told["counters"] == [{"name": "attempts", "replica": "a", "value": 1}]
    (stage,) = told["stages"]
    assert (stage["stage"], stage["replica"], stage["count"]) == ("network", "a", 1)
    assert stage["p99_ms"] == pytest.approx(4.0, rel=RELATIVE_ERROR)


@pytest.mark.parametrize("data", [b"", b"\x05\x00\x00\x00{}", b"\x02\x00\x00\x00{}", b"[]"])
def test_damaged_snapshots_are_refused(data):
    with pytest.raises(ValueError, match="damaged snapshot"):
        Snapshot.from_bytes(data)


def test_snapshots_know_their_series():
    stats = StageStats()
    stats.record("triage", 1.0, replica="a")
    assert list(stats.snapshot().sketches) == [Series("triage", "a")]


def test_count_upto_a_bound_is_exact_to_a_bucket_and_never_falls() -> None:
    values = np.random.default_rng(7).lognormal(1.0, 2.0, 20_000)
    sketch, previous = LatencySketch(), 0
    for part in np.split(values, 4):
        sketch.add_many(part)
        assert sketch.count_upto(5.0) >= previous
        previous = sketch.count_upto(5.0)
    for bound_ms in (0.01, 1.0, 5.0, 250.0):
        least, most = (values <= bound_ms).sum(), (values <= bound_ms * 1.021).sum()
        assert least <= sketch.count_upto(bound_ms) <= most
    assert LatencySketch().count_upto(1.0) == 0
    assert sketch.count_upto(1e9) == sketch.count
