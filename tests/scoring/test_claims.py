"""Claims are exact, exclusive, in turn, and end by themselves."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone
from pytest_django.fixtures import Settings

from apps.audit.models import ActorKind
from apps.audit.services import Actor
from apps.chat.models import Chunk, Message
from apps.chat.services import delete_message
from apps.scoring.claims import (
    Claim,
    Claimer,
    fetch_messages,
    has_due_chunks,
    release_chunks,
    suspect,
)
from tests.factories import VerdictFactory, active_release
from tests.scoring.conftest import Say


def claim(messages: int = 1000) -> Claim:
    claimed = Claimer().claim(messages)
    assert claimed is not None
    return claimed


def expire_leases() -> None:
    Chunk.objects.update(lease_until=timezone.now() - timedelta(seconds=1))


def texts_of(claimed: Claim) -> set[str]:
    return {m.text for m in fetch_messages(claimed, release_id=active_release().pk)}


def test_claim_takes_whole_chunks_up_to_the_wanted_number(say: Say) -> None:
    for first in range(0, 50, 10):
        say(*(f"text {n}" for n in range(first, first + 10)))
    claimed = claim(messages=35)
    assert claimed.size == 30
    assert texts_of(claimed) == {f"text {n}" for n in range(30)}


def test_first_chunk_is_claimed_whatever_its_size(say: Say) -> None:
    say(*(f"text {n}" for n in range(20)))
    assert claim(messages=5).size == 20


def test_chunk_dated_after_the_claim_has_not_waited(say: Say) -> None:
    """Two transactions under way at once, or a clock set back: no reason to lose the claim."""
    say("hello")
    Chunk.objects.update(created_at=timezone.now() + timedelta(seconds=5))
    assert claim().chunks[0].waited_ms == 0


def test_fetching_reads_no_more_than_its_chunks_before_the_table_is_analysed(say: Say) -> None:
    [first_id] = say("hello")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO chat_message (id, group_id, external_id, revision, sender_id, text,"
            " quoted_text, reply_to) SELECT %s - 1024 * n, 1, n::text, 1, 1, 'before', '', ''"
            " FROM generate_series(1, 20000) AS n",
            [first_id],
        )
    for _ in range(20):
        say("hello")
    claimed = claim()
    with transaction.atomic(), connection.cursor() as cursor:
        assert len(fetch_messages(claimed, release_id=active_release().pk)) == len(claimed.chunks)
        cursor.execute(
            "SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'chat_message'"
        )
        assert cursor.fetchone() == (0,)


def test_nothing_due_gives_no_claim(say: Say) -> None:
    assert Claimer().claim(100) is None
    say("hello")
    assert has_due_chunks()
    claim()
    assert not has_due_chunks()
    assert Claimer().claim(100) is None


def test_workers_at_once_share_all_chunks_and_never_one_of_them(say: Say) -> None:
    for n in range(60):
        say(f"text {n}", group=f"group {n}")
    taken: list[list[int]] = []
    start = threading.Barrier(4)

    def work() -> None:
        claimer, mine = Claimer(), []
        start.wait()
        # A claim finds nothing while others look at the same rows, so ask until all are gone.
        while has_due_chunks():
            claimed = claimer.claim(5)
            mine += claimed.chunk_ids if claimed else []
        taken.append(mine)
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = sorted(id_ for mine in taken for id_ in mine)
    assert ids == sorted(Chunk.objects.values_list("id", flat=True))


def test_lease_that_ran_out_is_claimed_again(say: Say) -> None:
    say("hello")
    first = claim()
    expire_leases()
    second = claim()
    assert second.chunk_ids == first.chunk_ids
    assert second.id != first.id
    assert [chunk.attempts for chunk in second.chunks] == [2]


def test_released_chunk_waits_and_counts_no_attempt(say: Say) -> None:
    say("hello")
    first = claim()
    assert release_chunks(first, first.chunk_ids, after_s=60) == set(first.chunk_ids)
    assert not has_due_chunks()
    expire_leases()
    assert [chunk.attempts for chunk in claim().chunks] == [1]


def test_what_was_judged_of_a_released_chunk_is_not_fetched_again(say: Say) -> None:
    judged_id, _ = say("judged", "waits")
    claimed = claim()
    assert texts_of(claimed) == {"judged", "waits"}
    VerdictFactory(message=Message.objects.get(pk=judged_id))
    release_chunks(claimed, claimed.chunk_ids, after_s=-1)
    again = claim()
    assert again.chunks[0].attempts == 1  # it counts no attempt
    assert texts_of(again) == {"waits"}


def test_lost_claim_releases_nothing(say: Say) -> None:
    say("hello")
    first = claim()
    expire_leases()
    second = claim()
    assert release_chunks(first, first.chunk_ids, after_s=0) == set()
    assert Chunk.objects.get().claim_id == second.id


def test_deleted_message_is_not_fetched(say: Say) -> None:
    say("stays", "goes")
    delete_message(group="kitchen", external_id="m1", actor=Actor.system("test"))
    assert texts_of(claim()) == {"stays"}
    assert Actor.system("test").kind is ActorKind.SYSTEM


def test_chunk_that_killed_its_workers_is_claimed_alone(say: Say) -> None:
    say("deadly")
    deadly = Chunk.objects.get()
    for _ in range(3):
        claim()
        expire_leases()
    say("fine")
    alone = claim()
    assert alone.is_suspect
    assert alone.chunk_ids == [deadly.pk]
    others = claim()
    assert not others.is_suspect
    assert texts_of(others) == {"fine"}


def test_healthy_chunks_are_not_claimed_together_with_a_suspect(say: Say) -> None:
    say("fine")
    say("deadly", group="other")
    last = Chunk.objects.order_by("id").last()
    assert last is not None
    Chunk.objects.filter(pk=last.pk).update(attempts=3)
    assert texts_of(claim()) == {"fine"}
    assert claim().is_suspect


def test_message_on_trial_is_counted_and_another_starts_anew(say: Say) -> None:
    one, two = say("one", "two")
    claimed = claim()
    assert [suspect(claimed, one), suspect(claimed, one), suspect(claimed, two)] == [1, 2, 1]


def test_trial_under_a_lost_claim_is_refused(say: Say) -> None:
    (one,) = say("one")
    first = claim()
    expire_leases()
    claim()
    assert suspect(first, one) is None


@pytest.mark.parametrize("burst", [50_000])
def test_burst_of_one_group_does_not_hold_back_another(
    say: Say, settings: Settings, burst: int
) -> None:
    """Two claims are under way when the quiet group speaks; its message is in the next."""
    for first in range(0, burst, 1000):
        say(*(f"buy {n}" for n in range(first, first + 1000)), group="noisy")
    claimer = Claimer()
    for _ in range(2):
        assert claimer.claim(1024) is not None
    say("good evening", group="quiet")
    following = claimer.claim(1024)
    assert following is not None
    assert "good evening" in texts_of(following)
