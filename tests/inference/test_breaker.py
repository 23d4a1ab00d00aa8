from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from inference import BreakerConfig, BreakerState
from inference.breaker import Breaker, BreakerChange, Permit

CONFIG = BreakerConfig(
    window_s=10, min_volume=10, failure_rate=0.5, open_first_s=1, open_growth=2, open_max_s=8
)


def breaker(config: BreakerConfig = CONFIG, chance: float = 0.0) -> Breaker:
    return Breaker(config, lambda: chance)


def permit_of(subject: Breaker, now_s: float) -> Permit:
    permit = subject.try_acquire(now_s)
    assert permit is not None
    return permit


def fail(subject: Breaker, now_s: float, times: int = 1) -> None:
    for _ in range(times):
        subject.on_failure(permit_of(subject, now_s), now_s)


def succeed(subject: Breaker, now_s: float, times: int = 1) -> None:
    for _ in range(times):
        subject.on_success(permit_of(subject, now_s), now_s)


def test_it_opens_at_the_rate_and_not_below_the_volume() -> None:
    subject = breaker()
    fail(subject, 0.0, 9)
    assert subject.state is BreakerState.CLOSED
    fail(subject, 0.0)
    assert subject.state is BreakerState.OPEN
    assert subject.reason == "10 of 10 failed in 10 s"
    assert subject.try_acquire(0.5) is None
    assert subject.seconds_to_probe(0.25) == pytest.approx(0.75)


def test_failures_below_the_rate_leave_it_closed() -> None:
    subject = breaker()
    succeed(subject, 0.0, 11)
    fail(subject, 0.0, 9)
    assert subject.state is BreakerState.CLOSED


def test_failures_that_left_the_window_do_not_count() -> None:
    subject = breaker()
    fail(subject, 0.0, 9)
    fail(subject, 10.5)
    assert subject.state is BreakerState.CLOSED


def test_the_open_time_grows_with_each_failed_probe_up_to_its_limit() -> None:
    subject = breaker()
    fail(subject, 0.0, 10)
    now_s, waits = 0.0, []
    for _ in range(6):
        wait_s = subject.seconds_to_probe(now_s)
        assert wait_s is not None
        waits.append(wait_s)
        now_s += wait_s
        fail(subject, now_s)
    assert waits == [1, 2, 4, 8, 8, 8]


def test_fifty_threads_at_half_open_get_one_probe() -> None:
    subject = breaker()
    fail(subject, 0.0, 10)
    barrier, permits = threading.Barrier(50), []

    def ask() -> None:
        barrier.wait()
        permits.append(subject.try_acquire(1.0))

    threads = [threading.Thread(target=ask) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    granted = [permit for permit in permits if permit is not None]
    assert len(permits) == 50
    assert len(granted) == 1
    assert granted[0].is_probe


def test_a_probe_that_said_nothing_makes_room_for_the_next() -> None:
    subject = breaker()
    fail(subject, 0.0, 10)
    probe = permit_of(subject, 1.0)
    assert subject.try_acquire(1.0) is None
    subject.on_neither(probe)
    assert permit_of(subject, 1.0).is_probe


def test_after_the_probe_traffic_comes_back_by_a_ramp() -> None:
    config = BreakerConfig(min_volume=10, open_first_s=1, ramp_s=2, ramp_first_share=0.1)
    draws = iter([i / 100 for i in range(100)] * 4)
    subject = Breaker(config, lambda: next(draws))
    fail(subject, 0.0, 10)
    subject.on_success(permit_of(subject, 1.0), 1.0)
    assert subject.state is BreakerState.RAMPING
    shares = [
        sum(subject.try_acquire(now_s) is not None for _ in range(100)) for now_s in (1.0, 2.0, 2.9)
    ]
    assert shares == [10, 55, 96]
    subject.on_success(permit_of(subject, 3.0), 3.0)
    assert subject.state is BreakerState.CLOSED


def test_a_relapse_in_the_ramp_opens_it_for_longer() -> None:
    subject = breaker()
    fail(subject, 0.0, 10)
    subject.on_success(permit_of(subject, 1.0), 1.0)
    fail(subject, 1.0, 10)
    assert subject.state is BreakerState.OPEN
    assert subject.seconds_to_probe(1.0) == pytest.approx(2.0)


def test_results_from_before_a_change_say_nothing_about_the_new_state() -> None:
    subject = breaker()
    early = [permit_of(subject, 0.0) for _ in range(20)]
    fail(subject, 0.0, 10)
    for permit in early[:10]:
        subject.on_success(permit, 0.1)
    assert subject.state is BreakerState.OPEN
    probe = permit_of(subject, 1.0)
    for permit in early[10:]:
        subject.on_failure(permit, 1.0)
    subject.on_success(probe, 1.0)
    assert subject.state is BreakerState.RAMPING


def test_a_replica_without_an_answer_is_out_and_comes_back_by_probe_and_ramp() -> None:
    subject = breaker()
    subject.on_unreachable(0.0, "no answer")
    assert (subject.state, subject.reason) == (BreakerState.OPEN, "no answer")
    subject.on_unreachable(0.5, "no answer")
    assert subject.seconds_to_probe(0.5) == pytest.approx(0.5)
    subject.on_reachable(0.6)
    assert subject.state is BreakerState.HALF_OPEN
    succeed(subject, 0.7)
    assert subject.state is BreakerState.RAMPING
    subject.on_reachable(0.8)
    assert subject.state is BreakerState.RAMPING
    subject.on_reachable(0.7 + CONFIG.ramp_s)
    assert subject.state is BreakerState.CLOSED


def test_without_calls_a_health_check_is_the_probe_but_not_beside_one() -> None:
    idle, busy = breaker(), breaker()
    for subject in (idle, busy):
        subject.on_unreachable(0.0, "no answer")
        subject.on_reachable(0.1)
    permit_of(busy, 0.2)
    for subject in (idle, busy):
        subject.on_reachable(0.3)
    assert (idle.state, busy.state) == (BreakerState.RAMPING, BreakerState.HALF_OPEN)


def test_health_checks_do_not_excuse_failed_calls() -> None:
    subject = breaker()
    fail(subject, 0.0, 10)
    subject.on_reachable(0.5)
    assert subject.state is BreakerState.OPEN
    subject.force(BreakerState.FORCED_OPEN, 0.6)
    subject.on_unreachable(0.7, "no answer")
    subject.on_reachable(0.8)
    assert subject.state is BreakerState.FORCED_OPEN


def test_an_operator_holds_it_until_reset() -> None:
    subject = breaker()
    subject.force(BreakerState.FORCED_OPEN, 0.0)
    assert subject.try_acquire(1000.0) is None
    subject.reset(1000.0)
    succeed(subject, 1000.0)
    subject.force(BreakerState.FORCED_CLOSED, 1000.0)
    fail(subject, 1000.0, 100)
    assert subject.state is BreakerState.FORCED_CLOSED
    with pytest.raises(ValueError, match="cannot be forced"):
        subject.force(BreakerState.OPEN, 0.0)


def test_each_change_is_told_once_with_its_reason() -> None:
    changes: list[BreakerChange] = []
    subject = Breaker(CONFIG, lambda: 0.0, changes.append)
    fail(subject, 0.0, 10)
    subject.on_success(permit_of(subject, 1.0), 1.0)
    assert [(each.old, each.new) for each in changes] == [
        (BreakerState.CLOSED, BreakerState.OPEN),
        (BreakerState.OPEN, BreakerState.HALF_OPEN),
        (BreakerState.HALF_OPEN, BreakerState.RAMPING),
    ]
    assert changes[0].open_s == 1.0


@given(outcomes=st.lists(st.booleans(), min_size=1, max_size=200))
def test_it_opens_exactly_when_the_window_says_so(outcomes: list[bool]) -> None:
    """Against the definition, computed naively; all within one window."""
    subject, failures = breaker(), 0
    for volume, failed in enumerate(outcomes, start=1):
        permit = permit_of(subject, 1.0)
        (subject.on_failure if failed else subject.on_success)(permit, 1.0)
        failures += failed
        if failed and volume >= 10 and failures >= 0.5 * volume:
            assert subject.state is BreakerState.OPEN
            return
        assert subject.state is BreakerState.CLOSED


class BreakerMachine(RuleBasedStateMachine):
    """Any order of calls, results and time: never two probes, never a call while open."""

    def __init__(self) -> None:
        super().__init__()
        self.subject = breaker()
        self.now_s = 0.0
        self.out: list[Permit] = []

    @rule(step=st.floats(min_value=0, max_value=5))
    def time_passes(self, step: float) -> None:
        self.now_s += step

    @rule()
    def call(self) -> None:
        could = self.subject.is_callable(self.now_s)
        permit = self.subject.try_acquire(self.now_s)
        # chance is 0.0: a ramp never refuses, so the two must agree.
        assert (permit is not None) == could
        if permit is not None:
            self.out.append(permit)

    @rule(outcome=st.sampled_from(["success", "failure", "neither"]), pick=st.integers(0, 1000))
    def finish(self, outcome: str, pick: int) -> None:
        if not self.out:
            return
        permit = self.out.pop(pick % len(self.out))
        if outcome == "neither":
            self.subject.on_neither(permit)
        elif outcome == "success":
            self.subject.on_success(permit, self.now_s)
        else:
            self.subject.on_failure(permit, self.now_s)

    @invariant()
    def at_most_one_live_probe(self) -> None:
        if self.subject.state is BreakerState.HALF_OPEN:
            epochs = [permit.epoch for permit in self.out if permit.is_probe]
            assert len(epochs) == len(set(epochs))

    @invariant()
    def open_means_waiting(self) -> None:
        wait_s = self.subject.seconds_to_probe(self.now_s)
        assert (wait_s is not None) == (self.subject.state is BreakerState.OPEN)
        assert wait_s is None or wait_s <= CONFIG.open_max_s


TestBreakerMachine = BreakerMachine.TestCase
