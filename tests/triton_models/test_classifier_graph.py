"""The exported graph computes what training fitted, exactly, whatever the batch looks like."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from apps.releases.training import export
from apps.releases.training.features import BUCKETS, feature_matrix
from apps.releases.training.paths import load_ngrams

rng = np.random.default_rng(11)
WEIGHTS = rng.normal(0, 0.5, (BUCKETS, 4)).astype(np.float32)
BIAS = np.array([0.4, -1.0, 0.2, -0.3], dtype=np.float32)


def session_of(weights: NDArray[np.float32]) -> onnxruntime.InferenceSession:
    model = export.build_model(weights, BIAS, temperature=1.5)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


SESSION = session_of(WEIGHTS)


def run(
    session: onnxruntime.InferenceSession, rows: list[list[int]], extra: int = 0
) -> NDArray[np.float32]:
    width = max(1, *(len(row) for row in rows)) + extra
    ids = np.zeros((len(rows), width), dtype=np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = row, 1
    logits: NDArray[np.float32] = session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
    return logits


def expected(rows: list[list[int]]) -> NDArray[np.float64]:
    quantised, steps = export.quantise(WEIGHTS)
    features = feature_matrix([np.array(row, dtype=np.int64) for row in rows])
    flagged = features @ (quantised * steps) / 1.5 + (BIAS[1:] - BIAS[0]) / 1.5
    return np.hstack([np.zeros((len(rows), 1)), flagged])


ROWS = st.lists(st.lists(st.integers(1, 0x10FFFF), max_size=30), min_size=1, max_size=8)


@given(ROWS)
@settings(max_examples=150, deadline=None)
def test_logits_are_the_sums_of_the_quantised_weights(rows: list[list[int]]) -> None:
    assert run(SESSION, rows) == pytest.approx(expected(rows), abs=1e-4)


@given(ROWS, st.integers(0, 40))
@settings(max_examples=100, deadline=None)
def test_logits_do_not_depend_on_padding_or_siblings(rows: list[list[int]], extra: int) -> None:
    together = run(SESSION, rows, extra)
    for i, row in enumerate(rows):
        assert run(SESSION, [row])[0].tolist() == together[i].tolist()


def test_the_largest_sums_do_not_spill_into_each_other() -> None:
    extreme = np.tile(np.array([[0, 3, -3, 3]], dtype=np.float32), (BUCKETS, 1))
    logits = run(session_of(extreme), [[7] * 2_000] * 300)
    offsets = (BIAS[1:] - BIAS[0]) / 1.5
    per_label = 5 * 2_000 * np.array([3, -3, 3]) / np.sqrt(2_000) / 1.5 + offsets
    assert logits[0, 1:] == pytest.approx(per_label, rel=1e-4)
    assert (logits == logits[0]).all()


def test_packing_loses_nothing() -> None:
    ngrams = load_ngrams()
    limits = np.array(ngrams.LARGEST_WEIGHTS)
    weights = rng.integers(-limits, limits + 1, (1_000, 3))
    assert (ngrams.unpack(ngrams.pack(weights)) == weights).all()


def test_garbage_under_the_mask_changes_nothing() -> None:
    ids = np.array([[97, 98, 99, 12345, 6]], dtype=np.int64)
    mask = np.array([[1, 1, 1, 0, 0]], dtype=np.int64)
    logits = SESSION.run(None, {"input_ids": ids, "attention_mask": mask})[0]
    assert logits.tolist() == run(SESSION, [[97, 98, 99]]).tolist()
