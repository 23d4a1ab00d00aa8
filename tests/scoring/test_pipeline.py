"""The loop against a real Triton whose model scores by the words of a text."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from apps.chat.models import CHUNK_ID_BITS, Chunk
from apps.policies.models import Action, Label, Policy, PolicyVersion, Threshold
from apps.scoring import rulebook
from apps.scoring.claims import Claimer, has_due_chunks
from apps.scoring.measuring import Measurements
from apps.scoring.models import Verdict
from apps.scoring.pipeline import Pipeline
from apps.scoring.replicas import new_client
from apps.scoring.sinks import StoredVerdict
from moderation_site.local.servers_process import ServersProcess
from tests.scoring.conftest import Publish, Say, term

PLENTY_S = 60.0


def labels() -> dict[int, str | None]:
    return dict(Verdict.objects.values_list("message_id", "label"))


def publish_spam_threshold(hold: float, remove: float) -> PolicyVersion:
    policy = Policy.objects.get(is_default=True)
    newest = policy.versions.order_by("-number").first()
    assert newest is not None
    version = PolicyVersion.objects.create(policy=policy, number=newest.number + 1)
    Threshold.objects.create(version=version, label=Label.SPAM, hold=hold, remove=remove)
    return version


def test_each_message_gets_the_verdict_of_its_own_text(pipeline: Pipeline, say: Say) -> None:
    words = ["hello", "spam", "toxic", "ad"]
    # Of all lengths, so that sorting by length shuffles them.
    texts = [f"{words[n % 4]} {'.' * (n * 37 % 211)}" for n in range(700)]
    ids = say(*texts)
    assert pipeline.drain(for_s=PLENTY_S) == 700
    expected = {"hello": "ok", "spam": "spam", "toxic": "toxic", "ad": "ad"}
    assert labels() == {
        id_: expected[text.split()[0]] for id_, text in zip(ids, texts, strict=True)
    }
    assert not Chunk.objects.exists()


def test_verdict_says_why(pipeline: Pipeline, say: Say) -> None:
    (id_,) = say("spam xx")  # seven characters: the scripted model says bits 0, 1 and 2
    pipeline.drain(for_s=PLENTY_S)
    verdict = Verdict.objects.get(message_id=id_)
    assert (verdict.action, verdict.acting_label) == (Action.REMOVE, Label.SPAM)
    assert verdict.reasons == [
        "model:spam",
        "undone:invisible_chars",
        "undone:look_alikes",
        "undone:spaced_letters",
    ]
    assert 0 < verdict.inference_ms <= verdict.total_ms


def test_poisoned_text_is_undetermined_and_its_siblings_are_judged(
    pipeline: Pipeline, say: Say, seen_by_sink: list[StoredVerdict]
) -> None:
    ids = say("spam one", "a poison", "hello", "toxic two", "notanumber", "ad three")
    pipeline.drain(for_s=PLENTY_S)
    assert [labels()[id_] for id_ in ids] == ["spam", None, "ok", "toxic", None, "ad"]
    poisoned = Verdict.objects.get(message_id=ids[1])
    assert (poisoned.action, poisoned.reasons) == (Action.HOLD, ["undetermined:poisoned_input"])
    not_finite = Verdict.objects.get(message_id=ids[4])
    assert (not_finite.action, not_finite.reasons) == (Action.HOLD, ["undetermined:not_finite"])
    assert sorted(verdict.message_id for verdict in seen_by_sink) == sorted(ids)


def test_new_thresholds_hold_for_the_next_batch(
    pipeline: Pipeline, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rulebook, "REFRESH_EVERY_S", 0.0)
    (before,) = say("spam before")
    pipeline.drain(for_s=PLENTY_S)
    version = publish_spam_threshold(hold=0.98, remove=0.99)
    (after,) = say("spam after")
    pipeline.drain(for_s=PLENTY_S)
    assert Verdict.objects.get(message_id=before).action == Action.REMOVE
    verdict = Verdict.objects.get(message_id=after)
    assert (verdict.action, verdict.policy_version_id) == (Action.ALLOW, version.pk)


def test_triton_away_leaves_all_pending_and_stops_claiming(
    settings: Settings, say: Say, seen_by_sink: list[StoredVerdict]
) -> None:
    settings.TRITON_REPLICAS = ["gone=127.0.0.1:9"]
    settings.SCORING_LEASE_S = 3
    say("hello", "spam")
    with new_client() as client:
        pipeline = Pipeline(client, Measurements("worker"))
        assert pipeline.drain(for_s=PLENTY_S) == 0
        assert pipeline.pacer.paused_because
        assert not has_due_chunks(), "released with a pause"
    assert not Verdict.objects.exists()
    assert seen_by_sink == []
    chunk = Chunk.objects.get()
    assert (chunk.claim_id, chunk.attempts) == (None, 0)


def test_backlog_is_judged_once_triton_is_back(
    settings: Settings, scripted_triton: ServersProcess, say: Say
) -> None:
    settings.SCORING_LEASE_S = 3
    settings.TRITON_REPLICAS = ["gone=127.0.0.1:9"]
    ids = say("hello", "spam")
    with new_client() as client:
        Pipeline(client, Measurements("worker")).drain(for_s=PLENTY_S)
    settings.TRITON_REPLICAS = [str(scripted_triton.ready()["triton_replicas"])]
    Chunk.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    with new_client() as client:
        Pipeline(client, Measurements("worker")).drain(for_s=PLENTY_S)
    assert labels() == dict(zip(ids, ["ok", "spam"], strict=True))


def test_stopping_pipeline_claims_nothing(pipeline: Pipeline, say: Say) -> None:
    say("hello")
    pipeline.stopping.set()
    assert pipeline.drain(for_s=PLENTY_S) == 0
    assert has_due_chunks()


def test_measurements_count_what_was_judged(pipeline: Pipeline, say: Say) -> None:
    say("hello", "spam", "spam again", "a poison")
    pipeline.drain(for_s=PLENTY_S)
    sample = pipeline._measured.take_sample(())
    assert sample.counters.verdicts == sample.counters.claimed == 4
    assert sample.counters.by_label == {"ok": 1, "spam": 2, "": 1}
    assert sample.counters.by_action == {"allow": 1, "remove": 2, "hold": 1}
    assert {"queue", "claim", "encode", "inference", "store", "total"} <= {
        name.partition(":")[0] for name in sample.sketches
    }
    assert pipeline._measured.take_sample(()).counters.verdicts == 0


# ---------- processes that die ----------


def start_worker(environment: dict[str, str], triton: Any, program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.scoring.programs.{program}"],
        env={**environment, "TRITON_REPLICAS": triton.ready()["triton_replicas"]},
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def test_batch_of_a_killed_worker_is_judged_by_another_each_message_once(
    process_environment: dict[str, str],
    scripted_triton: ServersProcess,
    pipeline: Pipeline,
    say: Say,
    seen_by_sink: list[StoredVerdict],
) -> None:
    ids = say("hello sleep=1500", "spam", "toxic")
    with start_worker(process_environment, scripted_triton, "drain") as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "claimed\n"
        psutil.Process(victim.pid).kill()
    assert Claimer().claim(100) is None, "the lease of the dead still holds"
    Chunk.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    pipeline.drain(for_s=PLENTY_S)
    assert labels() == dict(zip(ids, ["ok", "spam", "toxic"], strict=True))
    assert sorted(verdict.message_id for verdict in seen_by_sink) == sorted(ids)


def test_frozen_worker_that_wakes_up_writes_nothing(
    process_environment: dict[str, str],
    scripted_triton: ServersProcess,
    pipeline: Pipeline,
    say: Say,
) -> None:
    ids = say("hello sleep=800", "spam")
    with start_worker(process_environment, scripted_triton, "drain") as frozen:
        assert frozen.stdout is not None
        assert frozen.stdout.readline() == "claimed\n"
        process = psutil.Process(frozen.pid)
        process.suspend()
        Chunk.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        assert pipeline.drain(for_s=PLENTY_S) == 2
        process.resume()
        assert frozen.stdout.read() == "stored 0\n"
    assert set(labels()) == set(ids)


@pytest.mark.parametrize("program", ["drain_until_deadly", "read_until_deadly"])
def test_message_that_kills_its_workers_is_found_and_its_chunk_is_judged(
    process_environment: dict[str, str],
    scripted_triton: ServersProcess,
    say: Say,
    publish: Publish,
    program: str,
) -> None:
    """Three deaths of the whole chunk, two more on trial, then it is given up."""
    publish(term("coins"))  # so that there is something to read for
    ids = say("hello", "spam", "deadly", "toxic")
    deaths = 0
    while Chunk.objects.exists():
        Chunk.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        with start_worker(process_environment, scripted_triton, program) as worker:
            worker.communicate()
        deaths += worker.returncode != 0
        assert deaths <= 5
    assert [labels()[id_] for id_ in ids] == ["ok", "spam", None, "toxic"]
    given_up = Verdict.objects.get(label=None)
    assert (given_up.action, given_up.reasons) == ("hold", ["undetermined:killed_workers"])
    assert deaths == 5
    assert {id_ >> CHUNK_ID_BITS for id_ in ids} == {ids[0] >> CHUNK_ID_BITS}
