"""How many batches to have in flight at once: found out by trying, not by a model of the servers.

It knows no clock: the tests run it against simulated servers.
"""

from __future__ import annotations

import statistics
from collections import deque
from enum import Enum, auto

__all__ = ["Pacing"]

_SMOOTHING = 0.1  # weight of the newest latency in a moving average


class _Phase(Enum):
    RUN = auto()  # at the usual number; its last batches are what a trial is held against
    TRIAL = auto()  # at another one
    CHECK = auto()  # back again, if that looked better: was it, or were the times?


class Pacing:
    """How many batches may be in flight, which is also into how many parts a crowd is split.

    One at a time, a crowd that fits one batch travels together: fixed costs are paid once, and the
    servers idle while callers turn round. In several, servers work in parallel and never run dry.
    Which is quicker differs by server and by hour: with two processors of its own twice as many
    answers come from two at a time, on a busy machine they only push each other out. So one more
    or one fewer is tried for a few batches, now and then, and kept if it was better than both what
    came before it and what came after it: load that comes and goes must not decide.

    What counts is the pace: seconds for each call answered, while there are calls. Each is taken
    over as many batches as may be in flight, since those that left together end together.

    Of two numbers that are as good, the larger one is kept where its batches are full: those of the
    smaller one would be no larger, and the servers never run dry. Elsewhere it is the smaller one:
    calls that travel together pay a batch's fixed costs once. The other must be clearly better.

    A trial is paid for by its callers. So a few batches are enough to give up a hopeless one, and
    trials become rare while nothing better is found: the first comes after a dozen batches, since
    nothing is known yet, in the end there is one in a thousand.
    """

    _WINDOW = 24  # batches that are compared
    _GLIMPSE, _CLEARLY = 4, 1.25  # so few are enough to reject what is slower by such a ratio
    _FIRST_RUN, _LONGEST_RUN = 12, 1024  # batches between trials
    _LONGEST_FULL_RUN = 128  # where batches are full, a trial costs next to nothing
    _BETTER, _AS_GOOD = 0.9, 1.03  # times the usual pace: what a trial must reach

    def __init__(self, ceiling: int, *, first: int = 2) -> None:
        self._ceiling = ceiling
        self._usual = min(first, ceiling)
        self._is_growing: bool | None = None  # the direction of the next trial
        self._has_erred = False  # until then it grows by doubling
        self._was_full = False  # most batches at the usual number, before the trial
        self._latency_s: dict[int, float] = {}
        self._ends: deque[tuple[float, int]] = deque()  # when, and how many were answered by then
        self._answered = 0
        self._start_run(self._FIRST_RUN)

    def _start_run(self, run: int) -> None:
        longest = self._LONGEST_FULL_RUN if self._was_full else self._LONGEST_RUN
        self._run = max(self._FIRST_RUN, min(run, longest))
        self._enter(_Phase.RUN, self._usual)

    def _enter(self, phase: _Phase, limit: int) -> None:
        self._phase = phase
        self.limit = limit
        self._paces_s: list[float] = []
        self._full = 0  # of the batches that were compared
        self._unsettled = max(limit, self._usual)  # until none is in flight beside others'

    def begin_with(self, full_batches: int) -> None:
        """So many could leave, all of them full. Until something is learnt, they may."""
        if self._is_growing is None and full_batches > self._usual:
            self._usual = min(full_batches, self._ceiling)
            self._start_run(self._FIRST_RUN)

    def expected_s(self, size: int) -> float:
        """What a batch of this size takes at present; 0 before anything was measured."""
        latency_s = self._latency_s.get(size.bit_length())
        if latency_s is not None:
            return latency_s
        return max(self._latency_s.values(), default=0.0)

    def succeeded(self, size: int, latency_s: float) -> None:
        """A batch was answered. One that stalled moves the average by a tenth at most."""
        size_class = size.bit_length()
        known_s = self._latency_s.setdefault(size_class, latency_s)
        self._latency_s[size_class] += _SMOOTHING * (min(latency_s, 2 * known_s) - known_s)

    def pause(self) -> None:
        """For want of calls nothing was in flight."""
        self._ends.clear()

    def observe(self, limit: int, now_s: float, answered: int, *, was_full: bool = False) -> None:
        """Learn from a batch that has ended.

        Args:
            limit: the limit when it left.
            now_s: the time.
            answered: how many calls were answered since the last one.
            was_full: it could not have been larger. Then having fewer in flight saves nothing,
                and the first trial is of more.
        """
        if self._is_growing is None and not self._unsettled:
            self._is_growing = was_full
        self._answered += answered
        self._ends.append((now_s, self._answered))
        while len(self._ends) > self.limit + 1:
            self._ends.popleft()
        if limit != self.limit:
            return
        if self._unsettled:
            self._unsettled -= 1
            return
        if len(self._ends) <= self.limit:
            return
        since_s, before = self._ends[0]
        self._paces_s.append((now_s - since_s) / (self._answered - before))
        self._full += was_full
        match self._phase:
            case _Phase.RUN if len(self._paces_s) >= self._run:
                self._before_s, self._was_full = self._pace_s(), self._are_full
                self._try_another()
            case _Phase.TRIAL if self._has_seen_enough(self._pace_s(), self._before_s):
                self._end_trial()
            case _Phase.CHECK if self._has_seen_enough(self._tried_s, self._pace_s()):
                self._judge(self._pace_s())

    def _pace_s(self) -> float:
        """The median: one stalled batch says nothing."""
        return statistics.median(self._paces_s[-self._WINDOW :])

    @property
    def _are_full(self) -> bool:
        """Most batches of this phase."""
        return 2 * self._full > len(self._paces_s)

    def _has_seen_enough(self, tried_s: float, usual_s: float) -> bool:
        """A number is kept after a whole window only; a hopeless one is given up at a glimpse."""
        if len(self._paces_s) >= self._WINDOW:
            return True
        return len(self._paces_s) >= self._GLIMPSE and tried_s > usual_s * self._CLEARLY

    def _try_another(self) -> None:
        step = max(1, self._usual // 3) if self._has_erred else self._usual
        more = min(self._ceiling, self._usual + step)
        fewer = max(1, self._usual - max(1, self._usual // 4))
        if more == self._usual:
            self._is_growing = False
        elif fewer == self._usual:
            self._is_growing = True
        other = more if self._is_growing else fewer
        if other == self._usual:
            self._start_run(self._run)
        else:
            self._enter(_Phase.TRIAL, other)

    def _end_trial(self) -> None:
        self._tried, self._tried_s = self.limit, self._pace_s()
        is_more_full = self._are_full if self._is_growing else self._was_full
        self._is_preferred = self._is_growing == is_more_full
        if self._is_better_than(self._before_s):
            self._enter(_Phase.CHECK, self._usual)
        else:
            self._reject()

    def _is_better_than(self, usual_s: float) -> bool:
        return self._tried_s < usual_s * (self._AS_GOOD if self._is_preferred else self._BETTER)

    def _judge(self, usual_s: float) -> None:
        if self._is_better_than(usual_s):
            self._usual = self._tried
            self._start_run(self._run // 4)
        else:
            self._reject()

    def _reject(self) -> None:
        if self._is_growing and not self._has_erred:
            # Twice as many were too many; a few more may not be.
            self._has_erred = True
            self._start_run(self._run)
            return
        self._is_growing = not self._is_growing
        self._has_erred = True
        self._start_run(2 * self._run)

    def failed(self, *, is_overload: bool) -> None:
        """A batch failed. Overload halves the limit; other failures say nothing about it."""
        if is_overload:
            self._usual = max(1, self._usual // 2)
            self._start_run(self._FIRST_RUN)
