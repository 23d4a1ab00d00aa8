"""Bisection against a model that raises on given items; no network."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference import Classification
from inference.errors import (
    DeadlineExceededError,
    InferenceError,
    ModelFailedError,
    NoReplicaError,
    PoisonedInputError,
)
from inference.poison import judge_apart


class Model:
    """Raises when a range holds a bad item; remembers how often it was asked."""

    def __init__(self, bad: set[int], *, gives_up_after: int | None = None) -> None:
        self.bad = bad
        self.calls = 0
        self._gives_up_after = gives_up_after

    async def judge(self, start: int, end: int) -> list[Classification]:
        self.calls += 1
        if self._gives_up_after is not None and self.calls > self._gives_up_after:
            raise DeadlineExceededError("no time left")
        if self.bad & set(range(start, end)):
            raise ModelFailedError("INTERNAL")
        return [Classification((1.0, 0.0, 0.0, 0.0), item) for item in range(start, end)]


def apart(count: int, model: Model) -> list[Classification]:
    return asyncio.run(judge_apart(count, model.judge, ModelFailedError("INTERNAL")))


@given(st.data())
def test_one_bad_item_is_named_alone_and_all_others_are_judged(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 300))
    bad = data.draw(st.integers(0, count - 1))
    model = Model({bad})
    judged = apart(count, model)
    assert [index for index, row in enumerate(judged) if row.error] == [bad]
    assert isinstance(judged[bad].error, PoisonedInputError)
    assert all(row.undone == index for index, row in enumerate(judged) if index != bad)
    assert model.calls <= 2 * math.ceil(math.log2(count)) + 2 if count > 1 else model.calls == 1


@given(count=st.integers(2, 300), bad=st.sets(st.integers(0, 299), max_size=300))
def test_every_item_gets_an_answer_and_no_good_one_is_called_poisoned(
    count: int, bad: set[int]
) -> None:
    bad = {item for item in bad if item < count}
    model = Model(bad)
    try:
        judged = apart(count, model)
    except ModelFailedError:
        # Only when nothing at all was found out within the limit.
        assert len(bad) > 1
        return
    assert len(judged) == count
    assert model.calls <= 4 * math.ceil(math.log2(count)) + 4
    for index, row in enumerate(judged):
        if isinstance(row.error, PoisonedInputError):
            assert index in bad
        if index in bad:
            assert isinstance(row.error, InferenceError)
        elif row.error is None:
            assert row.undone == index


def test_a_model_that_raises_on_everything_is_not_asked_for_ever() -> None:
    model = Model(set(range(256)))
    judged = apart(256, model)
    assert model.calls == 4 * 8 + 4
    kinds = {type(row.error) for row in judged}
    assert kinds == {PoisonedInputError, ModelFailedError}


def test_what_the_deadline_cuts_off_says_so() -> None:
    model = Model({255}, gives_up_after=3)
    judged = apart(256, model)
    assert [row.error is None for row in judged[:192]] == [True] * 192
    assert {type(row.error) for row in judged[192:]} == {DeadlineExceededError}


def test_nothing_judged_at_all_is_a_failure_of_the_call() -> None:
    async def unreachable(start: int, end: int) -> list[Classification]:
        raise NoReplicaError("circuit open")

    with pytest.raises(NoReplicaError):
        asyncio.run(judge_apart(8, unreachable, ModelFailedError("INTERNAL")))
