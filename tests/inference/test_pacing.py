"""How many batches should be in flight, and so in how many parts a crowd travels, depends on the
servers. It is found out by trying: here against simulated ones, by a simulated clock, so that each
run is the same."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from inference.batching import Batch, BatchPolicy, Waiter
from inference.config import CollectorConfig
from inference.pacing import Pacing

CALL_S, TEXT_S = 1.8e-3, 18e-6  # what the embedded Triton needs for a call and for each text in it
TURN_S = 15e-6  # what callers need for each answer before they ask again


@dataclass
class ClosedLoop:
    """Callers that ask again when they are answered, and servers with `cores` processors.

    A batch keeps one processor busy; more batches than processors share them evenly. Callers run
    in the collector's event loop: while they do, nothing is decided.
    """

    policy: BatchPolicy[str]
    cores: float
    now_s: float = 0.0
    busy_until_s: float = 0.0
    answered: int = 0
    _work_s: dict[Batch[str], float] = field(default_factory=dict)
    _returning: list[tuple[float, int]] = field(default_factory=list)

    def run(self, callers: int, batches: int) -> float:
        """Answers a second, after a third of the batches has passed."""
        self._ask(callers)
        self._look()
        for _ in range(batches // 3):
            self._until_a_batch_ends()
        since_s, before = self.now_s, self.answered
        for _ in range(batches - batches // 3):
            self._until_a_batch_ends()
        return (self.answered - before) / (self.now_s - since_s)

    def _until_a_batch_ends(self) -> None:
        done = self._step()
        while not done:
            done = self._step()

    def _step(self) -> bool:
        pace = min(1.0, self.cores / len(self._work_s)) if self._work_s else 1.0
        wake_s = max(self.policy.wake_s(self.now_s), self.busy_until_s) - self.now_s
        passes_s = min(
            [work_s / pace for work_s in self._work_s.values()]
            + [at_s - self.now_s for at_s, _ in self._returning]
            + [wake_s]
        )
        passes_s = max(0.0, passes_s) + 1e-9
        self.now_s += passes_s
        for batch in self._work_s:
            self._work_s[batch] -= passes_s * pace
        ended = [batch for batch, left_s in self._work_s.items() if left_s <= 0]
        for batch in ended:
            self._end(batch)
        self._let_return()
        if self.now_s >= self.busy_until_s:
            self._look()
        return bool(ended)

    def _end(self, batch: Batch[str]) -> None:
        del self._work_s[batch]
        count = len(batch.waiters)
        self.answered += count
        self.policy.succeeded(batch, self.now_s)
        self._look(only_full=True)
        self.busy_until_s = max(self.busy_until_s, self.now_s) + TURN_S * count
        self._returning.append((self.busy_until_s, count))

    def _let_return(self) -> None:
        for at_s, count in [each for each in self._returning if each[0] <= self.now_s]:
            self._returning.remove((at_s, count))
            self._ask(count)

    def _ask(self, calls: int) -> None:
        for _ in range(calls):
            self.policy.offer(Waiter("", 0, self.now_s, math.inf))

    def _look(self, *, only_full: bool = False) -> None:
        while batch := self.policy.next_batch(self.now_s, only_full=only_full):
            self._work_s[batch] = CALL_S + TEXT_S * len(batch.waiters)


class Fixed(Pacing):
    """A number that nothing is learnt about."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit, first=limit)

    def observe(self, limit: int, now_s: float, answered: int, *, was_full: bool = False) -> None:
        pass


def policy_for(max_batch: int, fixed: int | None = None) -> BatchPolicy[str]:
    policy: BatchPolicy[str] = BatchPolicy(CollectorConfig(max_batch=max_batch))
    if fixed is not None:
        policy.pacing = Fixed(fixed)
    return policy


def throughput(callers: int, max_batch: int, cores: float, fixed: int | None = None) -> float:
    return ClosedLoop(policy_for(max_batch, fixed), cores).run(callers, batches=800)


@pytest.mark.parametrize("cores", [0.5, 1, 1.5, 2, 4])
@pytest.mark.parametrize(("callers", "max_batch"), [(50, 64), (100, 64), (100, 256), (1000, 64)])
def test_a_crowd_travels_about_as_fast_as_at_the_best_fixed_number(callers, max_batch, cores):
    best = max(throughput(callers, max_batch, cores, fixed) for fixed in (1, 2, 4))
    assert throughput(callers, max_batch, cores) > 0.87 * best


def test_the_number_matters_both_ways():
    """Else the test above would prove nothing."""
    assert throughput(50, 64, 1, fixed=1) > 1.3 * throughput(50, 64, 1, fixed=3)
    assert throughput(100, 256, 4, fixed=4) > 1.15 * throughput(100, 256, 4, fixed=1)


def test_a_herd_of_more_than_a_batch_is_split_evenly():
    """100 callers as 64 and 36: when the 64 are back, 100 wait again, and the servers idle."""
    policy = policy_for(max_batch=64, fixed=2)
    for _ in range(100):
        policy.offer(Waiter("", 0, 0.0, math.inf))
    first, second = policy.next_batch(0.0), policy.next_batch(0.0)
    assert [len(batch.waiters) for batch in (first, second) if batch] == [50, 50]


# ---- what it learns, batch by batch


class Times:
    """Batches that end one after the other, each of one call."""

    def __init__(self, pacing: Pacing) -> None:
        self.pacing = pacing
        self.now_s = 0.0

    def settle(
        self, pace_s: Callable[[int], float], batches: int, *, was_full: bool = False
    ) -> list[int]:
        """The limit after each batch, when a call is answered every `pace_s(limit)` seconds."""
        seen = []
        for _ in range(batches):
            limit = self.pacing.limit
            self.now_s += pace_s(limit)
            self.pacing.observe(limit, self.now_s, 1, was_full=was_full)
            seen.append(self.pacing.limit)
        return seen


def settle(
    pacing: Pacing, pace_s: Callable[[int], float], batches: int, *, was_full: bool = False
) -> list[int]:
    return Times(pacing).settle(pace_s, batches, was_full=was_full)


@pytest.mark.parametrize("servers", [1, 2, 3, 4, 8, 11])
def test_it_finds_as_many_as_the_servers_work_on(servers):
    seen = settle(Pacing(16), lambda n: max(1 / n, 1 / servers) + 0.001 * n, 8_000)
    usual = statistics.mode(seen[-4_000:])
    assert 0.75 * servers <= usual <= 1.25 * servers


def test_where_several_at_once_only_harm_they_travel_one_by_one():
    seen = settle(Pacing(16), lambda n: n**0.5, 3_000)
    assert seen.count(1) > 0.9 * len(seen)
    assert 2 in seen[-1_500:], "tried again, in case the servers have got better"


def test_full_batches_are_first_tried_in_larger_numbers_and_others_in_smaller() -> None:
    """One that was full could not have been larger: fewer at once would save nothing."""
    for was_full, first_trial in ((True, 4), (False, 1)):
        pacing = Pacing(16, first=2)
        for batch in range(100):
            pacing.observe(pacing.limit, float(batch), 1, was_full=was_full)
            if pacing.limit != 2:
                break
        assert pacing.limit == first_trial


def test_it_grows_by_doubling_until_a_trial_has_failed() -> None:
    seen = settle(Pacing(16, first=1), lambda n: max(1 / n, 1 / 5), 2_000)
    numbers = [number for number, _ in itertools.groupby(seen)]
    assert numbers[:6] == [1, 2, 1, 2, 4, 2], "a trial, a check, its number kept; the next trial"
    after_failure = numbers[numbers.index(16) + 1 :]
    assert after_failure[:2] == [8, 10], "then by a third, in the same direction first"
    assert all(b <= a + max(1, a // 3) for a, b in itertools.pairwise(after_failure))
    assert statistics.mode(seen[-500:]) == 5


def test_most_full_batches_may_leave_until_something_is_learnt() -> None:
    policy = policy_for(max_batch=64)
    for _ in range(1_000):
        policy.offer(Waiter("", 0, 0.0, math.inf))
    leaving = list(iter(lambda: policy.next_batch(0.0), None))
    assert [len(batch.waiters) for batch in leaving if batch] == [64] * 12
    pacing = Pacing(16)
    pacing.begin_with(8)
    settle(pacing, lambda _: 1.0, 10, was_full=True)
    pacing.begin_with(12)
    assert pacing.limit == 8


def test_of_two_as_good_full_batches_keep_the_larger_number_and_others_the_smaller() -> None:
    for was_full, kept in ((True, 16), (False, 1)):
        pacing = Pacing(16, first=4)
        settle(pacing, lambda _: 1.0, 1_000, was_full=was_full)
        assert pacing.limit == kept


def test_full_batches_grow_only_as_far_as_all_are_full() -> None:
    """Beyond, what waits could have been sorted, or shared fewer calls: that must be worth it."""
    pacing = Pacing(16, first=2)
    times, seen = Times(pacing), []
    for _ in range(1_000):
        seen += times.settle(lambda n: 1.0 if n <= 6 else 0.95, 1, was_full=pacing.limit <= 6)
    assert statistics.mode(seen[-500:]) == 6


def test_a_hopeless_trial_ends_after_a_glimpse():
    seen = settle(Pacing(16, first=1), lambda n: 1.0 if n == 1 else 10.0, 1_000)
    tried = seen.count(2)
    assert 0 < tried < 50


def test_one_more_must_be_worth_it():
    seen = settle(Pacing(16, first=2), lambda n: 1.0 - 0.01 * n, 4_000)
    assert max(seen) <= 3


def test_what_the_times_did_is_not_put_down_to_the_trial() -> None:
    """The machine gets quicker in the middle of a trial: back at the usual number it is, too."""
    pacing = Pacing(16, first=2)
    times = Times(pacing)
    while pacing.limit == 2:
        times.settle(lambda _: 1.0, 1)
    seen = times.settle(lambda _: 0.5, 40)
    assert seen[0] != 2
    assert seen[-1] == 2


def test_a_pause_is_not_put_down_to_the_number() -> None:
    pacing = Pacing(16, first=1)
    times = Times(pacing)
    times.settle(lambda n: 1 / min(n, 2), 2_000)
    assert statistics.mode(times.settle(lambda n: 1 / min(n, 2), 100)) == 2
    for _ in range(200):  # calls come in crowds of a few batches, with pauses of any length between
        times.settle(lambda n: 1 / min(n, 2), 8)
        pacing.pause()
        times.now_s += 1_000 if pacing.limit == 2 else 1
    assert statistics.mode(times.settle(lambda n: 1 / min(n, 2), 100)) == 2


def test_it_keeps_to_its_ceiling():
    assert max(settle(Pacing(6), lambda n: 1 / n, 3_000)) == 6


def test_overload_halves_it_and_other_failures_do_not():
    pacing = Pacing(16, first=8)
    pacing.failed(is_overload=False)
    assert pacing.limit == 8
    pacing.failed(is_overload=True)
    assert pacing.limit == 4
    for _ in range(5):
        pacing.failed(is_overload=True)
    assert pacing.limit == 1


def test_an_overload_that_has_passed_leaves_no_trace():
    pacing = Pacing(16)
    for _ in range(5):
        pacing.failed(is_overload=True)
    assert statistics.mode(settle(pacing, lambda n: max(1 / n, 1 / 6), 2_000)[-500:]) >= 4


def test_a_stalled_batch_hardly_moves_what_is_expected():
    pacing = Pacing(16)
    pacing.succeeded(64, 0.010)
    pacing.succeeded(64, 5.0)
    assert pacing.expected_s(64) <= 0.011
    assert pacing.expected_s(1) == pacing.expected_s(64), "of a size not seen yet"
