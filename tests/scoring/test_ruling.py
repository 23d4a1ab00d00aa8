"""What the lists decide in a worker: instead of the model, and never more than they should."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from apps.accounts.models import Role
from apps.chat.assignments import assign_group
from apps.chat.models import Chunk, Group
from apps.policies.models import Action, Label, Policy, PolicyVersion
from apps.scoring import rulebook
from apps.scoring.models import Source, Verdict
from apps.scoring.pipeline import Pipeline
from apps.scoring.samples import stage_of
from apps.scoring.sinks import StoredVerdict
from tests.factories import UserFactory, active_release
from tests.scoring.conftest import Publish, Say, term

PLENTY_S = 60.0


def test_entry_decides_instead_of_the_model(
    pipeline: Pipeline, say: Say, publish: Publish, seen_by_sink: list[StoredVerdict]
) -> None:
    version = publish(term("cheap pills"))
    assert version.rule_list is not None
    rule = version.rule_list.rules.get()
    ruled, judged = say("buy CHEAP pills", "spam")
    assert pipeline.drain(for_s=PLENTY_S) == 2
    verdict = Verdict.objects.get(message_id=ruled)
    assert (verdict.source, verdict.label, verdict.action) == ("rules", "ad", "remove")
    assert (verdict.acting_label, verdict.reasons) == ("ad", [f"rule:{rule.pk}"])
    assert (verdict.release_id, verdict.policy_version_id) == (active_release().pk, version.pk)
    assert (verdict.score_ok, verdict.inference_ms) == (None, 0.0)
    assert Verdict.objects.get(message_id=judged).source == Source.MODEL
    assert not Chunk.objects.exists()
    assert sorted(v.message_id for v in seen_by_sink) == sorted([ruled, judged])


def test_disguise_is_undone_and_named(pipeline: Pipeline, say: Say, publish: Publish) -> None:
    publish(term("casino"))
    (id_,) = say("c a s i n o")
    pipeline.drain(for_s=PLENTY_S)
    verdict = Verdict.objects.get(message_id=id_)
    assert verdict.reasons[1:] == ["undone:spaced_letters"]
    assert verdict.undone != 0


def test_allowing_entry_makes_ok_what_the_model_would_not(
    pipeline: Pipeline, say: Say, publish: Publish
) -> None:
    publish(term("spam sandwich", Label.OK, Action.ALLOW))
    (id_,) = say("one spam sandwich")
    pipeline.drain(for_s=PLENTY_S)
    verdict = Verdict.objects.get(message_id=id_)
    assert (verdict.label, verdict.action, verdict.acting_label) == ("ok", "allow", None)


def test_each_group_follows_its_own_policy(pipeline: Pipeline, say: Say, publish: Publish) -> None:
    other = Policy.objects.create(name="Other")
    PolicyVersion.objects.create(policy=other, number=1)
    (theirs,) = say("hello pills", group="theirs")
    (ours,) = say("hello pills", group="ours")
    assign_group(
        UserFactory(role=Role.ADMIN),
        group_id=Group.objects.get(external_id="theirs").pk,
        policy_id=other.pk,
    )
    publish(term("pills"))
    pipeline.drain(for_s=PLENTY_S)
    labels = dict(Verdict.objects.values_list("message_id", "source"))
    assert labels == {theirs: "model", ours: "rules"}


def test_changed_lists_hold_for_the_next_batch(
    pipeline: Pipeline, say: Say, publish: Publish
) -> None:
    (before,) = say("hello pills")
    pipeline.drain(for_s=PLENTY_S)
    publish(term("pills"))
    (after,) = say("hello pills")
    pipeline.drain(for_s=PLENTY_S)
    sources = dict(Verdict.objects.values_list("message_id", "source"))
    assert sources == {before: "model", after: "rules"}


def test_batch_that_the_lists_decide_whole_needs_no_triton(
    pipeline: Pipeline, say: Say, publish: Publish
) -> None:
    publish(term("pills"))
    # Else a probe would ask whether Triton is there at all.
    wait_until_triton_takes_calls(pipeline)
    say(*["pills"] * 300)
    pace = pipeline.pacer.batch
    assert pipeline.drain(for_s=PLENTY_S) == 300
    stages = {stage_of(name) for name in pipeline._measured.take_sample([]).sketches}
    assert "store" in stages
    assert "inference" not in stages
    assert pipeline.pacer.batch == pace
    assert not pipeline.pacer.paused_because


def wait_until_triton_takes_calls(pipeline: Pipeline) -> None:
    deadline_s = time.monotonic() + PLENTY_S
    while not pipeline._takes_calls():
        assert time.monotonic() < deadline_s, "Triton takes no calls"


def test_deadly_text_never_reaches_triton_when_an_entry_decides(
    pipeline: Pipeline, say: Say, publish: Publish
) -> None:
    publish(term("deadly"))
    ids = say("hello", "deadly", "spam")
    Chunk.objects.update(attempts=4)
    pipeline.drain(for_s=PLENTY_S)
    labels = dict(Verdict.objects.values_list("message_id", "label"))
    assert [labels[id_] for id_ in ids] == ["ok", "ad", "spam"]


def test_entries_of_an_older_version_can_still_be_named(
    pipeline: Pipeline, say: Say, publish: Publish
) -> None:
    publish(term("pills"))
    (id_,) = say("pills")
    pipeline.drain(for_s=PLENTY_S)
    publish(term("coins"))
    (reason,) = Verdict.objects.get(message_id=id_).reasons
    version = PolicyVersion.objects.get(pk=Verdict.objects.get(message_id=id_).policy_version_id)
    assert version.rule_list is not None
    assert version.rule_list.rules.get(pk=reason.removeprefix("rule:")).pattern == "pills"


@pytest.mark.parametrize("count", [0, 3])
def test_lists_cost_no_query_while_they_do_not_change(
    publish: Publish, django_assert_num_queries: Callable[..., object], count: int
) -> None:
    if count:
        publish(*(term(f"word {n}") for n in range(count)))
    book = rulebook.Rulebook()
    book.refresh()
    assert book.has_rules == bool(count)
    with django_assert_num_queries(4):
        book.refresh()
