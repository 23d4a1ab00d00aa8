"""While Triton is away the lists decide what they can, and the model has its say afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from django.db import connection
from django.utils import timezone
from pytest_django.fixtures import Settings

from apps.audit.services import Actor
from apps.chat.models import Chunk
from apps.chat.services import delete_message
from apps.policies.matching import RuleSpec
from apps.policies.models import Action, Label
from apps.review.models import ReviewItem
from apps.scoring.claims import Claimer
from apps.scoring.fallback import Fallback
from apps.scoring.measuring import Measurements
from apps.scoring.models import Verdict
from apps.scoring.pipeline import Pipeline
from apps.scoring.replicas import new_client
from apps.scoring.rulebook import Rulebook
from apps.scoring.sinks import StoredVerdict
from moderation_site.local.servers_process import ServersProcess
from tests.factories import active_release, rules_release
from tests.scoring.conftest import Publish, Say, term

PLENTY_S = 60.0


def only_away(pattern: str, action: Action = Action.REMOVE) -> RuleSpec:
    """An entry that is kept for an outage."""
    return term(pattern, action=action)._replace(only_away=True)


@pytest.fixture
def cut_off(say: Say, settings: Settings) -> Iterator[Pipeline]:
    """A pipeline whose only replica does not answer, as it knows from a message that waits."""
    settings.TRITON_REPLICAS = ["gone=127.0.0.1:9"]
    settings.SCORING_LEASE_S = 3
    with new_client() as client:
        pipeline = Pipeline(client, Measurements("worker"))
        say("waiting", group="waiting")
        pipeline.drain(for_s=PLENTY_S)
        assert pipeline.pacer.is_away
        yield pipeline


def sources() -> dict[int, list[str]]:
    """Of each message with a verdict, who judged it, in that order."""
    found: dict[int, list[str]] = {}
    for id_, source in Verdict.objects.order_by("created_at").values_list("message_id", "source"):
        found.setdefault(id_, []).append(source)
    return found


def make_due() -> None:
    """The pause that released chunks wait for is over."""
    Chunk.objects.filter(claim_id=None).update(lease_until=None)


def drain(pipeline: Pipeline) -> None:
    """Once as the pause lasts, once with the small batch that comes after it."""
    for _ in range(2):
        pipeline.drain(for_s=PLENTY_S)
        make_due()
        pipeline.pacer.paused_until_s = 0.0


def test_blocking_entries_decide_while_triton_is_away_and_all_else_waits(
    cut_off: Pipeline, say: Say, publish: Publish, seen_by_sink: list[StoredVerdict]
) -> None:
    (before,) = say("hello pills")
    version = publish(term("coins"), term("hello", Label.OK, Action.ALLOW))
    say("hello", "spam")
    publish(term("pills", action=Action.HOLD))
    after, _ = say("free coins", "hello again")
    drain(cut_off)
    assert sources() == {before: ["fallback"], after: ["fallback"]}
    verdict = Verdict.objects.get(message_id=after)
    assert (verdict.label, verdict.action, verdict.release_id) == (
        "ad",
        "remove",
        rules_release().pk,
    )
    assert version.rule_list is not None
    assert verdict.policy_version_id > version.pk
    assert ReviewItem.objects.get().message_id == before
    assert sorted(v.message_id for v in seen_by_sink) == sorted([before, after])
    assert sum(Chunk.objects.values_list("size", flat=True)) == 6, "all of them still wait"


def test_nothing_is_decided_twice_while_the_outage_lasts(
    cut_off: Pipeline, say: Say, publish: Publish, seen_by_sink: list[StoredVerdict]
) -> None:
    publish(term("coins"))
    say("free coins", "coins")
    drain(cut_off)
    drain(cut_off)
    for _ in range(3):
        assert Fallback(Rulebook()).decide_some() is None
    assert len(seen_by_sink) == Verdict.objects.count() == 2


def test_entry_added_during_the_outage_decides_of_what_waits(
    cut_off: Pipeline, say: Say, publish: Publish
) -> None:
    publish(term("coins"))
    coins, pills = say("coins", "pills")
    drain(cut_off)
    assert set(sources()) == {coins}
    publish(term("pills"))
    drain(cut_off)
    assert sources() == {coins: ["fallback"], pills: ["fallback"]}


def test_model_judges_them_when_it_is_back(
    cut_off: Pipeline,
    pipeline_after: Callable[[], Pipeline],
    say: Say,
    publish: Publish,
    seen_by_sink: list[StoredVerdict],
) -> None:
    coins, ok, held = say("coins spam", "hello", "chips")
    publish(only_away("coins"), only_away("chips", action=Action.HOLD))
    drain(cut_off)
    assert set(sources()) == {coins, held}
    assert pipeline_after().drain(for_s=PLENTY_S) == 4
    found = sources()
    assert [found[id_] for id_ in (coins, ok, held)] == [
        ["fallback", "model"],
        ["model"],
        ["fallback", "model"],
    ]
    assert Verdict.objects.get(message_id=coins, source="model").label == "spam"
    assert not Chunk.objects.exists()
    assert len(seen_by_sink) == 6
    # The model allows what the list held for people.
    assert ReviewItem.objects.get(message_id=held).state == "withdrawn"


def test_entry_kept_for_an_outage_leaves_the_rest_to_the_model(
    pipeline: Pipeline, say: Say, publish: Publish
) -> None:
    publish(only_away("coins"))
    (id_,) = say("coins")
    pipeline.drain(for_s=PLENTY_S)
    assert sources() == {id_: ["model"]}


def test_triton_is_tried_again_though_the_lists_decide_all_that_waits(
    cut_off: Pipeline, pipeline_after: Callable[[], Pipeline], say: Say, publish: Publish
) -> None:
    publish(term("coins"))
    Chunk.objects.all().delete()
    (id_,) = say("coins")
    drain(cut_off)
    assert sources() == {id_: ["fallback"]}
    # The probe that failed was sent for the sake of seeing whether it does.
    assert cut_off._measured.take_sample(()).counters.released > 1
    pipeline_after().drain(for_s=PLENTY_S)
    assert sources() == {id_: ["fallback", "rules"]}


def test_entry_that_still_stands_goes_over_the_model_afterwards(
    cut_off: Pipeline, pipeline_after: Callable[[], Pipeline], say: Say, publish: Publish
) -> None:
    (id_,) = say("coins")
    publish(term("coins"))
    drain(cut_off)
    pipeline_after().drain(for_s=PLENTY_S)
    assert sources()[id_] == ["fallback", "rules"]
    assert Verdict.objects.get(source="rules").release_id == active_release().pk


@pytest.fixture
def pipeline_after(
    cut_off: Pipeline, scripted_triton: ServersProcess, settings: Settings
) -> Iterator[Callable[[], Pipeline]]:
    """A worker that has a Triton again, after the one that had none."""
    clients = []

    def make() -> Pipeline:
        settings.TRITON_REPLICAS = [str(scripted_triton.ready()["triton_replicas"])]
        make_due()
        # A process has one at a time.
        cut_off._client.close()
        clients.append(new_client())
        return Pipeline(clients[-1], Measurements("worker"))

    yield make
    for client in clients:
        client.close()


def test_one_failed_call_is_no_outage(
    cut_off: Pipeline, say: Say, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(term("coins"))
    say("hello coins", "hello")
    monkeypatch.setattr("apps.scoring.pipeline.takes_calls", lambda _: True)
    drain(cut_off)
    assert cut_off.pacer.is_away
    assert sources() == {}


def test_chunk_that_a_worker_has_claimed_is_left_to_it(say: Say, publish: Publish) -> None:
    publish(term("coins"))
    say("coins")
    assert Claimer().claim(10) is not None
    assert Fallback(Rulebook()).decide_some() is None
    Chunk.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    decided = Fallback(Rulebook()).decide_some()
    assert decided is not None
    assert len(decided) == 1


def test_message_deleted_meanwhile_is_not_decided(say: Say, publish: Publish) -> None:
    publish(term("coins"))
    stays, _ = say("coins", "coins")
    delete_message(group="kitchen", external_id="m1", actor=Actor.system("test"))
    Fallback(Rulebook()).decide_some()
    assert set(sources()) == {stays}


def test_looks_cost_nothing_without_entries(
    say: Say, django_assert_num_queries: Callable[..., object]
) -> None:
    say("coins")
    fallback = Fallback(Rulebook())
    assert fallback.decide_some() is None
    with django_assert_num_queries(0):
        assert fallback.decide_some() is None


def test_backlog_larger_than_a_look_is_gone_through(say: Say, publish: Publish) -> None:
    publish(term("coins"))
    for number in range(150):
        say("coins", group=f"g{number}")
    fallback = Fallback(Rulebook())
    sizes = []
    while (decided := fallback.decide_some()) is not None:
        sizes.append(len(decided))
    assert sizes == [64, 64, 22]


def test_operator_degrades_to_the_lists_and_back(
    pipeline: Pipeline, say: Say, publish: Publish
) -> None:
    publish(term("coins"))
    pipeline.degraded.set()
    coins, plain = say("coins", "hello")
    pipeline.drain(for_s=PLENTY_S)
    assert sources() == {coins: ["fallback"]}
    assert pipeline._measured.take_sample(()).counters.by_source == {"fallback": 1}
    pipeline.degraded.clear()
    pipeline.drain(for_s=PLENTY_S)
    assert sources() == {coins: ["fallback", "rules"], plain: ["model"]}


def test_paused_claiming_pauses_the_lists_too(
    pipeline: Pipeline, say: Say, publish: Publish
) -> None:
    publish(term("coins"))
    say("coins")
    pipeline.degraded.set()
    pipeline.held.set()
    assert pipeline.drain(for_s=PLENTY_S) == 0
    assert sources() == {}


def test_worker_killed_in_the_middle_of_a_look_leaves_nothing_half_done(
    process_environment: dict[str, str],
    say: Say,
    publish: Publish,
    seen_by_sink: list[StoredVerdict],
) -> None:
    """Killed after its verdicts are written and before they are committed."""
    publish(term("coins"))
    ids = say("coins", "hello", "coins")
    program = [sys.executable, "-m", "tests.scoring.programs.fall_back_and_hang"]
    with subprocess.Popen(
        program,
        env=process_environment,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "written\n"
        assert Fallback(Rulebook()).decide_some() is None, "its chunk is locked"
        psutil.Process(victim.pid).kill()
    wait_until_unlocked()
    assert sources() == {}
    decided = Fallback(Rulebook()).decide_some()
    assert decided is not None
    assert set(sources()) == {ids[0], ids[2]}
    assert len(seen_by_sink) == 2


def wait_until_unlocked() -> None:
    """PostgreSQL has noticed that the client is gone."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM chat_chunk FOR UPDATE")
