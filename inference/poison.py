"""Finding the item on which a model raises.

One exception in Triton's python backend fails every request that was merged into its batch
(INTERNAL), so a batch that failed is judged again in halves, and halves of halves. They go one
after the other: sent together, the server's dynamic batcher would merge them again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable

from inference.errors import InferenceError, ModelFailedError, PoisonedInputError
from inference.values import Classification, refused

__all__ = ["judge_apart"]

Judge = Callable[[int, int], Awaitable[list[Classification]]]
"""Classify items ``start`` to ``end`` (exclusive), or raise."""


async def judge_apart(count: int, judge: Judge, cause: ModelFailedError) -> list[Classification]:
    """Judge ``count`` items whose batch made the model raise.

    A lone item is called poisoned only when it has failed twice, since a stranger's item in the
    same server batch fails it too. When the model raises on everything, it is the model: calls
    stop after ``4 log2(count) + 4`` and what is left gets ``ModelFailedError``.

    Args:
        count: How many items, at least 1.
        judge: Asks the model about a range; it may prefer another replica than before.
        cause: What the whole batch failed with.

    Returns:
        One entry an item: judged, or with the error that concerns it.

    Raises:
        InferenceError: nothing was judged and nothing found out: the last failure.
    """
    results: list[Classification | None] = [None] * count
    ranges = deque([(0, count)] if count == 1 else _halves(0, count))
    calls_left = 4 * math.ceil(math.log2(count) if count > 1 else 0) + 4
    failure: InferenceError = cause
    while ranges and calls_left:
        start, end = ranges.popleft()
        calls_left -= 1
        try:
            results[start:end] = await judge(start, end)
        except ModelFailedError as error:
            if end - start == 1:
                results[start] = refused(_poisoned(error))
            else:
                ranges.extendleft(reversed(_halves(start, end)))
        except InferenceError as error:
            failure = error
            results[start:end] = [refused(error)] * (end - start)
    judged = [row if row is not None else refused(failure) for row in results]
    if not any(_is_found_out(row) for row in judged):
        failure.with_traceback(None)
        try:
            raise failure
        finally:
            del failure  # else frame and error hold each other, and with them the call
    return judged


def _halves(start: int, end: int) -> list[tuple[int, int]]:
    middle = (start + end) // 2
    return [(start, middle), (middle, end)]


def _poisoned(error: ModelFailedError) -> PoisonedInputError:
    return PoisonedInputError("the model raises on this item", replica=error.replica)


def _is_found_out(row: Classification) -> bool:
    return row.error is None or isinstance(row.error, PoisonedInputError)
