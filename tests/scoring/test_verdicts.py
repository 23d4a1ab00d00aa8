"""Verdicts are stored once, by whoever holds the claim, together with what follows from them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from apps.audit.services import Actor
from apps.chat.models import CHUNK_ID_BITS, Chunk, Message
from apps.chat.services import delete_message
from apps.policies.models import Action, Label
from apps.scoring import sinks
from apps.scoring.claims import Claim, Claimer, fetch_messages
from apps.scoring.models import Source, Verdict
from apps.scoring.sinks import StoredVerdict
from apps.scoring.verdicts import Stored, Timing, store_verdicts
from tests.factories import active_release, default_policy_version, rules_release
from tests.review.test_waves import is_waited_for
from tests.scoring.conftest import Say


def claim() -> Claim:
    claimed = Claimer().claim(1000)
    assert claimed is not None
    return claimed


def steal(claimed: Claim) -> Claim:
    """Its lease runs out and another worker claims."""
    Chunk.objects.filter(pk__in=claimed.chunk_ids).update(
        lease_until=timezone.now() - timedelta(seconds=1)
    )
    return claim()


def spam(message_id: int) -> StoredVerdict:
    return StoredVerdict(
        message_id=message_id,
        group_id=Message.objects.get(pk=message_id).group_id,
        release_id=active_release().pk,
        policy_version_id=default_policy_version().pk,
        source=Source.MODEL,
        label=Label.SPAM,
        action=Action.HOLD,
        acting_label=Label.SPAM,
        scores=(0.2, 0.7, 0.06, 0.04),
        undone=3,
        reasons=("model:spam", "undone:look_alikes"),
    )


def store(claimed: Claim, ids: Sequence[int], unfinished: Collection[int] = ()) -> Stored:
    return store_verdicts(
        claim=claimed,
        verdicts=[spam(id_) for id_ in ids],
        timings=[Timing(1.0, 2.0, 3.5)] * len(ids),
        unfinished_chunk_ids=unfinished,
    )


def judged_ids() -> set[int]:
    return set(Verdict.objects.values_list("message_id", flat=True))


def test_verdict_is_stored_as_it_was_given_and_its_chunk_ends(say: Say) -> None:
    (id_,) = say("cheap pills")
    store(claim(), [id_])
    verdict = Verdict.objects.get()
    assert (verdict.message_id, verdict.label, verdict.action) == (id_, "spam", "hold")
    assert (verdict.score_spam, verdict.undone) == (0.7, 3)
    assert verdict.reasons == ["model:spam", "undone:look_alikes"]
    assert (verdict.queue_ms, verdict.inference_ms, verdict.total_ms) == (1.0, 2.0, 3.5)
    assert not Chunk.objects.exists()


def test_undetermined_verdict_has_neither_label_nor_scores(say: Say) -> None:
    (id_,) = say("who knows")
    verdict = StoredVerdict(
        id_,
        Message.objects.get().group_id,
        active_release().pk,
        default_policy_version().pk,
        Source.MODEL,
        None,
        Action.HOLD,
        None,
        None,
        ("undetermined:poisoned_input",),
    )
    store_verdicts(claim=claim(), verdicts=[verdict], timings=[Timing(1.0, 2.0, 3.0)])
    stored = Verdict.objects.get()
    assert (stored.label, stored.acting_label, stored.score_ok, stored.action) == (
        None,
        None,
        None,
        "hold",
    )


def test_worker_that_was_frozen_past_its_lease_writes_nothing(
    say: Say, seen_by_sink: list[StoredVerdict]
) -> None:
    ids = say("one", "two")
    frozen = claim()
    awake = steal(frozen)
    assert store(frozen, ids).fenced == 1
    assert judged_ids() == set()
    assert seen_by_sink == []
    store(awake, ids)
    assert judged_ids() == set(ids)


def test_worker_that_wakes_after_the_other_has_stored_writes_nothing(
    say: Say, seen_by_sink: list[StoredVerdict]
) -> None:
    ids = say("one", "two")
    frozen = claim()
    store(steal(frozen), ids)
    assert store(frozen, ids).fenced == 1
    assert [verdict.message_id for verdict in seen_by_sink] == ids


def test_lease_that_ran_out_without_another_claim_still_stores(say: Say) -> None:
    ids = say("one")
    late = claim()
    Chunk.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert store(late, ids).fenced == 0
    assert judged_ids() == set(ids)


def test_only_the_chunks_still_held_are_stored(say: Say) -> None:
    mine = say("one")
    lost = say("two", group="other")
    claimed = claim()
    Chunk.objects.filter(pk=lost[0] >> 10).update(claim_id=None)
    assert store(claimed, mine + lost).fenced == 1
    assert judged_ids() == set(mine)


def test_message_deleted_while_it_was_judged_gets_no_verdict(
    say: Say, seen_by_sink: list[StoredVerdict]
) -> None:
    stays, goes = say("stays", "goes")
    claimed = claim()
    delete_message(group="kitchen", external_id="m1", actor=Actor.system("test"))
    store(claimed, [stays, goes])
    assert judged_ids() == {stays}
    assert [verdict.message_id for verdict in seen_by_sink] == [stays]


def test_verdict_that_is_there_already_stays_and_the_others_are_stored(
    say: Say, seen_by_sink: list[StoredVerdict]
) -> None:
    first, second = say("one", "two")
    claimed = claim()
    store_verdicts(
        claim=claimed, verdicts=[spam(first)], timings=[Timing(9.0, 9.0, 9.0)], keep_claim=True
    )
    store(claimed, [first, second])
    assert judged_ids() == {first, second}
    assert Verdict.objects.get(message_id=first).total_ms == 9.0
    assert [verdict.message_id for verdict in seen_by_sink] == [first, second]


def test_unfinished_chunk_stays_for_what_has_no_verdict(say: Say) -> None:
    done, open_ = say("done", "open")
    claimed = claim()
    store(claimed, [done], unfinished=claimed.chunk_ids)
    again = claim()
    waiting = fetch_messages(again, release_id=active_release().pk)
    # The release took the attempt back, so this looks like a first claim, which trusts storing.
    assert open_ in {message.id for message in waiting}
    store(again, [message.id for message in waiting])
    assert judged_ids() == {done, open_}
    assert not Chunk.objects.exists()


def test_chunks_are_locked_by_their_ids_those_that_stay_included(say: Say) -> None:
    """As whoever deletes their messages does, or each would wait for the other."""
    (first_id,), (second_id,) = say("first"), say("second")
    claimed = claim()
    first, second = (id_ >> CHUNK_ID_BITS for id_ in (first_id, second_id))
    lock = "SELECT FROM chat_chunk WHERE id = %s FOR UPDATE"

    def work() -> Stored:
        try:
            return store(claimed, [second_id], unfinished={first})
        finally:
            connection.close()

    parameters = connection.get_connection_params()
    with psycopg.connect(**parameters) as deleting, ThreadPoolExecutor(1) as pool:
        deleting.execute(lock, [first])
        storing = pool.submit(work)
        while not is_waited_for(deleting):
            assert not storing.done()
        deleting.execute(f"{lock} NOWAIT", [second])
        deleting.rollback()
        assert [v.message_id for v in storing.result().verdicts] == [second_id]
    assert set(Chunk.objects.values_list("pk", flat=True)) == {first}


def test_what_a_sink_raises_rolls_the_batch_back(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Sequence[StoredVerdict]) -> None:
        raise LookupError("a review item could not be opened")

    monkeypatch.setattr(sinks, "_sinks", [broken])
    ids = say("one")
    claimed = claim()
    with pytest.raises(LookupError):
        store(claimed, ids)
    assert judged_ids() == set()
    assert Chunk.objects.get().claim_id == claimed.id


def test_verdict_of_the_second_release_in_a_batch_that_is_there_already_is_left_out(
    say: Say,
) -> None:
    """Another release came into force between the lists' turn and the model's."""
    other = rules_release()
    ruled, judged = say("by the lists", "by the model")
    first = claim()
    second_release = spam(judged)._replace(release_id=other.pk)
    timing = Timing(1.0, 2.0, 3.5)
    store_verdicts(claim=first, verdicts=[second_release], timings=[timing], keep_claim=True)
    stored = store_verdicts(
        claim=first, verdicts=[spam(ruled), second_release], timings=[timing, timing]
    )
    assert [verdict.message_id for verdict in stored.verdicts] == [ruled]
    assert Verdict.objects.count() == 2
