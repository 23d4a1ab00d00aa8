"""One worker's loop: claim, judge, store, with the next batch on its way while one is judged.

    claim ─▶ fetch ─▶ lists ─▶ sort by length, cut into calls ─▶ Triton ─▶ judge ─▶ store
    └─ one thread, again and again ─────────────────────────┘   └─ three, a batch each ─┘

Nothing here holds truth. Killed at any line, the leases run out and another worker goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection

from apps.chat.models import CHUNK_ID_BITS
from apps.policies.judging import LABELS
from apps.policies.models import Action, Label
from apps.scoring import reasons
from apps.scoring.claims import (
    Claim,
    Claimer,
    WaitingMessage,
    fetch_messages,
    release_chunks,
    suspect,
)
from apps.scoring.fallback import Fallback
from apps.scoring.measuring import Measurements
from apps.scoring.models import Source
from apps.scoring.pacing import Pacer
from apps.scoring.replicas import call_budget_s, takes_calls
from apps.scoring.rulebook import ACTIONS, Rulebook
from apps.scoring.ruling import rule
from apps.scoring.sinks import StoredVerdict
from apps.scoring.slowest import CHUNKS_NAMED, BatchTrace, CallTrace
from apps.scoring.verdicts import Timing, store_verdicts
from inference import Classification, Deadline, InferenceError, ModerationClient
from inference.errors import BadResponseError, PoisonedInputError

log = logging.getLogger(__name__)

# Past the call's own deadline: the client answers or raises by then, or is broken.
_GRACE_S = 2.0
# Codes of `JudgedColumns.acting`: the last one is what -1 finds.
_ACTING: tuple[Label | None, ...] = (*LABELS, None)
# Batches that are awaited and stored at once, each with a database connection of its own.
LANDERS = 3
# How often a message may be on trial before it is given up as the one that kills workers.
TRIALS = 2


@dataclass(slots=True)
class _Call:
    """One ensemble call of a batch."""

    messages: Sequence[WaitingMessage]
    answer: Future[list[Classification]]
    sent_at_s: float
    answered_at_s: float = 0.0
    # Only to see whether Triton answers: the lists have decided these.
    is_probe: bool = False

    def on_answer(self, _: Future[list[Classification]]) -> None:
        self.answered_at_s = time.monotonic()

    def latency_ms(self) -> float:
        # A future wakes who waits for it before it calls back.
        return ((self.answered_at_s or time.monotonic()) - self.sent_at_s) * 1000


@dataclass(slots=True)
class _Batch:
    """A claim whose calls are in flight; `ruled` was decided by the lists and needs none."""

    claim: Claim
    ruled: list[StoredVerdict]
    calls: list[_Call]
    claimed_at_s: float
    sent_at_s: float
    size: int
    claim_ms: float

    def trace(self, *, answered_at_s: float, stored_at_s: float) -> BatchTrace:
        """Where its time went."""
        return BatchTrace(
            claim=self.claim.id.hex,
            size=self.size,
            chunks=self.claim.chunk_ids[:CHUNKS_NAMED],
            queue_ms=max(chunk.waited_ms for chunk in self.claim.chunks),
            claim_ms=self.claim_ms,
            encode_ms=(self.sent_at_s - self.claimed_at_s) * 1000,
            inference_ms=(answered_at_s - self.sent_at_s) * 1000,
            store_ms=(stored_at_s - answered_at_s) * 1000,
            calls=[
                CallTrace(
                    (call.sent_at_s - self.claimed_at_s) * 1000,
                    call.latency_ms(),
                    len(call.messages),
                )
                for call in self.calls
            ],
        )


@dataclass(slots=True)
class _Outcome:
    """What came back for a batch."""

    verdicts: list[StoredVerdict] = field(default_factory=list)
    unfinished: set[int] = field(default_factory=set)
    failure: InferenceError | None = None
    latency_ms: float = 0.0
    # When the unfinished are due again.
    again_after_s: float = 0.0
    answers: int = 0

    @property
    def has_no_answer(self) -> bool:
        """Whether calls failed and none came back."""
        return self.failure is not None and not self.answers

    def leave_to_fallback(self) -> None:
        """What the lists decided is decided again by them, as what it is: without the model."""
        self.unfinished.update(verdict.chunk_id for verdict in self.verdicts)
        self.verdicts.clear()


class Pipeline:
    """Drains the backlog. One at a time in a process: `drain` is for one thread at a time."""

    def __init__(
        self, client: ModerationClient, measurements: Measurements, pacer: Pacer | None = None
    ) -> None:
        self._client = client
        self._measured = measurements
        self.pacer = pacer or Pacer()
        self._claimer = Claimer()
        self._rulebook = Rulebook()
        self._fallback = Fallback(self._rulebook)
        self._flying: deque[tuple[_Batch, Future[int]]] = deque()
        self._landers = ThreadPoolExecutor(LANDERS, thread_name_prefix="scoring-lander")
        self._news = threading.Event()
        self.stopping = threading.Event()
        # Set while an operator wants nothing claimed; what is in flight is stored all the same.
        self.held = threading.Event()
        # Set while an operator wants the lists alone to decide, as in an outage.
        self.degraded = threading.Event()

    def drain(self, *, for_s: float) -> int:
        """Judge what is due until nothing is, Triton is away, or `for_s` seconds have passed.

        While Triton is away the lists decide what they can.

        Returns:
            How many verdicts were stored.

        Raises:
            django.db.OperationalError: the database is away. Claims are left to their leases.
        """
        until_s = time.monotonic() + for_s
        stored = 0
        try:
            while True:
                self._take_off(until_s)
                if self._flying:
                    stored += self._await_news()
                elif (decided := self._fall_back(until_s)) is None:
                    return stored
                else:
                    stored += decided
        except (OperationalError, InterfaceError):
            # The pool hands out connections of a server that is gone; this one is not to go back.
            connection.close()
            raise
        finally:
            self._flying.clear()
            self._show_flying()

    def _take_off(self, until_s: float) -> None:
        while self._may_claim(until_s):
            batch = self._claim_and_send()
            if batch is None:
                return
            landing = self._landers.submit(self._land, batch)
            landing.add_done_callback(lambda _: self._news.set())
            self._flying.append((batch, landing))
            self._show_flying()

    def look_again(self) -> None:
        """Messages came: claim them now if there is room, not when a batch has landed."""
        self._news.set()

    def _await_news(self) -> int:
        """Until a batch is stored or messages came; returns the verdicts stored meanwhile."""
        self._news.wait()
        self._news.clear()
        landed = [flight for flight in self._flying if flight[1].done()]
        for flight in landed:
            self._flying.remove(flight)
        self._show_flying()
        return sum(landing.result() for _, landing in landed)

    def _may_claim(self, until_s: float) -> bool:
        now_s = time.monotonic()
        return (
            len(self._flying) < self.pacer.in_flight_batches
            and now_s < until_s
            and not self.pacer.pause_left_s(now_s)
            and not self.stopping.is_set()
            and not self.held.is_set()
            and not self.degraded.is_set()
        )

    # ---------- without the model ----------

    def _fall_back(self, until_s: float) -> int | None:
        """Let the lists decide of some that wait; None when it is not for them or nothing is left.

        Chunks are looked at while the pause lasts that an outage brings: what comes after it is a
        small batch that tries Triton again.
        """
        now_s = time.monotonic()
        if self.stopping.is_set() or self.held.is_set() or now_s >= until_s:
            return None
        if not self.degraded.is_set() and not (self.pacer.pause_left_s(now_s) and self._is_away()):
            return None
        decided = self._fallback.decide_some()
        if decided is None:
            return None
        self._measured.fell_back(decided)
        return len(decided)

    def _is_away(self) -> bool:
        """One call that failed is no outage: nobody may be left who would take another."""
        return self.pacer.is_away and not self._takes_calls()

    def _takes_calls(self) -> bool:
        return any(map(takes_calls, self._client.replica_states()))

    # ---------- claim and send ----------

    def _claim_and_send(self) -> _Batch | None:
        started_s = time.monotonic()
        self._rulebook.refresh()
        claim = self._claimer.claim(self.pacer.batch)
        if claim is None:
            return None
        messages = fetch_messages(claim, release_id=self._rulebook.release_id)
        claimed_at_s = time.monotonic()
        claim_ms = (claimed_at_s - started_s) * 1000
        self._measured.claimed(claim, claim_ms)
        if claim.is_suspect:
            self._try_one_by_one(claim, messages, claimed_at_s)
            return self._claim_and_send()
        everything = messages
        ruled, messages = rule(everything, self._rulebook)
        batch = _Batch(claim, ruled, [], claimed_at_s, 0.0, len(messages), claim_ms)
        batch.calls = [self._send(part) for part in _cut(messages, settings.SCORING_CALL_SIZE)]
        if everything and not batch.calls and not self._takes_calls():
            # Else nobody would notice that Triton is back, or that it is gone.
            batch.calls = [self._send(everything[:1], is_probe=True)]
        batch.sent_at_s = time.monotonic()
        self._measured.encoded(claim, (batch.sent_at_s - claimed_at_s) * 1000)
        return batch

    def _send(self, messages: Sequence[WaitingMessage], *, is_probe: bool = False) -> _Call:
        texts = [message.text for message in messages]
        sent_at_s = time.monotonic()
        deadline = Deadline.after(call_budget_s(), now_s=sent_at_s)
        answer = self._client.classify_nowait(texts, deadline=deadline)
        call = _Call(messages, answer, sent_at_s, is_probe=is_probe)
        answer.add_done_callback(call.on_answer)
        return call

    def _try_one_by_one(
        self, claim: Claim, messages: Sequence[WaitingMessage], claimed_at_s: float
    ) -> None:
        """Judge a chunk that has killed workers: whoever kills again is known by then.

        The lists look at each message by itself as well, and after it was noted: reading a text is
        what kills, whoever reads it. A worker may also have been killed from outside, so a message
        is given up only when it was on trial twice before.
        """
        log.warning("Chunk %d has lost its workers; trying its messages singly", claim.chunks[0].id)
        for message in sorted(messages):
            tries = suspect(claim, message.id)
            if tries is None:
                return
            outcome = _Outcome()
            if tries > TRIALS:
                outcome.verdicts.append(self.undetermined(message, reasons.KILLED_WORKERS))
            else:
                outcome.verdicts, left = rule([message], self._rulebook)
                if left:
                    self._receive(claim, self._send(left), outcome)
            if outcome.failure is not None:
                pause_s = self._hold_off(outcome.failure)
                release_chunks(claim, claim.chunk_ids, after_s=pause_s)
                return
            self._store(claim, outcome, claimed_at_s, keep_claim=True)
        self._store(claim, _Outcome(), claimed_at_s)

    # ---------- receive and store ----------

    def _land(self, batch: _Batch) -> int:
        """In a thread of its own: storing is mostly waiting for PostgreSQL, others go on."""
        try:
            return self._receive_and_store(batch)
        except (OperationalError, InterfaceError):
            connection.close()
            raise
        finally:
            close_old_connections()

    def _receive_and_store(self, batch: _Batch) -> int:
        outcome = _Outcome(batch.ruled)
        for call in batch.calls:
            self._receive(batch.claim, call, outcome)
        answered_at_s = time.monotonic()
        if batch.calls:
            outcome.latency_ms = (answered_at_s - batch.sent_at_s) * 1000
            outcome.again_after_s = self._adapt(outcome.failure, batch, outcome.latency_ms)
        if outcome.has_no_answer and self.pacer.is_away:
            outcome.leave_to_fallback()
        stored = self._store(batch.claim, outcome, batch.claimed_at_s)
        trace = batch.trace(answered_at_s=answered_at_s, stored_at_s=time.monotonic())
        self._measured.traced(trace)
        return stored

    def _store(
        self, claim: Claim, outcome: _Outcome, claimed_at_s: float, *, keep_claim: bool = False
    ) -> int:
        started_s = time.monotonic()
        stored = store_verdicts(
            claim=claim,
            verdicts=outcome.verdicts,
            timings=_timings(claim, outcome, (started_s - claimed_at_s) * 1000),
            unfinished_chunk_ids=outcome.unfinished,
            again_after_s=outcome.again_after_s,
            keep_claim=keep_claim,
        )
        now_s = time.monotonic()
        self._measured.stored(
            claim,
            stored,
            store_ms=(now_s - started_s) * 1000,
            since_claim_ms=(now_s - claimed_at_s) * 1000,
            released=len(outcome.unfinished),
        )
        return len(stored.verdicts)

    def _receive(self, claim: Claim, call: _Call, outcome: _Outcome) -> None:
        try:
            answers = call.answer.result(timeout=call_budget_s() + _GRACE_S)
        except InferenceError as error:
            outcome.failure = error
            outcome.unfinished.update(m.id >> CHUNK_ID_BITS for m in call.messages)
            return
        outcome.answers += 1
        self._measured.answered(claim, call.latency_ms())
        if call.is_probe:
            return
        self._judge(call.messages, answers, outcome)

    def _judge(
        self,
        messages: Sequence[WaitingMessage],
        answers: Sequence[Classification],
        outcome: _Outcome,
    ) -> None:
        self._rulebook.refresh()
        if not all(map(_is_judged, answers)):
            messages, answers = self._set_apart(messages, answers, outcome)
            if not messages:
                return
        scores = np.array([answer.scores for answer in answers], np.float64)
        judged = self._rulebook.judge([message.group_id for message in messages], scores)
        columns = zip(
            messages,
            answers,
            map(LABELS.__getitem__, judged.labels.tolist()),
            map(ACTIONS.__getitem__, judged.actions.tolist()),
            map(_ACTING.__getitem__, judged.acting.tolist()),
            judged.version_ids.tolist(),
            strict=True,
        )
        release_id = self._rulebook.release_id
        outcome.verdicts += [
            StoredVerdict(
                message.id,
                message.group_id,
                release_id,
                version_id,
                Source.MODEL,
                label,
                action,
                acting_label,
                answer.scores,
                reasons.model_reasons(acting_label, answer.undone),
                answer.undone,
            )
            for message, answer, label, action, acting_label, version_id in columns
        ]

    def _set_apart(
        self,
        messages: Sequence[WaitingMessage],
        answers: Sequence[Classification],
        outcome: _Outcome,
    ) -> tuple[list[WaitingMessage], list[Classification]]:
        """Take out what the client could not get judged: for good, or for this time."""
        fine: list[tuple[WaitingMessage, Classification]] = []
        for message, answer in zip(messages, answers, strict=True):
            if answer.error is None:
                fine.append((message, answer))
            elif isinstance(answer.error, PoisonedInputError):
                outcome.verdicts.append(self.undetermined(message, reasons.POISONED))
            elif isinstance(answer.error, BadResponseError):
                outcome.verdicts.append(self.undetermined(message, reasons.NOT_FINITE))
            else:
                outcome.failure = answer.error
                outcome.unfinished.add(message.id >> CHUNK_ID_BITS)
        return [message for message, _ in fine], [answer for _, answer in fine]

    def undetermined(self, message: WaitingMessage, reason: str) -> StoredVerdict:
        """No label, held, for people."""
        return StoredVerdict(
            message.id,
            message.group_id,
            self._rulebook.release_id,
            self._rulebook.version_id(message.group_id),
            Source.MODEL,
            None,
            Action.HOLD,
            None,
            None,
            (reason,),
        )

    def _adapt(self, failure: InferenceError | None, batch: _Batch, latency_ms: float) -> float:
        """Set the pace by what came back; returns how long unfinished chunks shall wait."""
        if failure is not None:
            return self._hold_off(failure)
        queue_ms = min(chunk.waited_ms for chunk in batch.claim.chunks)
        self.pacer.on_answer(batch.size, latency_ms, queue_ms)
        return 0.0

    def _hold_off(self, failure: InferenceError) -> float:
        was_paused = bool(self.pacer.paused_because)
        hold_off: Callable[[str, float], float] = (
            self.pacer.on_overload if failure.is_overload else self.pacer.on_outage
        )
        pause_s = hold_off(failure.kind, time.monotonic())
        if not was_paused:
            log.warning("Scoring holds off: %s", failure.kind)
        return pause_s

    def _show_flying(self) -> None:
        self._measured.flying(len(self._flying), sum(b.size for b, _ in self._flying), self.pacer)


def _cut(messages: list[WaitingMessage], size: int) -> list[list[WaitingMessage]]:
    """Calls of messages of like length: the model pads each call to its longest."""
    messages.sort(key=_length)
    return [messages[start : start + size] for start in range(0, len(messages), size)]


def _is_judged(answer: Classification) -> bool:
    return answer.error is None


def _length(message: WaitingMessage) -> int:
    return len(message.text)


def _timings(claim: Claim, outcome: _Outcome, since_claim_ms: float) -> list[Timing]:
    of_chunk = {
        chunk.id: Timing(chunk.waited_ms, outcome.latency_ms, chunk.waited_ms + since_claim_ms)
        for chunk in claim.chunks
    }
    # What the lists decided was in no model.
    return [
        of_chunk[verdict.message_id >> CHUNK_ID_BITS]
        if verdict.source is Source.MODEL
        else of_chunk[verdict.message_id >> CHUNK_ID_BITS]._replace(inference_ms=0.0)
        for verdict in outcome.verdicts
    ]
