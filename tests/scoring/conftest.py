"""What the scoring tests share: messages that wait, and a pipeline over a real, scripted Triton."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from apps.accounts.models import Role
from apps.chat.services import NewMessage, ingest_messages
from apps.policies.matching import RuleSpec
from apps.policies.models import Action, Label, Policy, PolicyVersion, RuleKind
from apps.policies.services import RuleChange, RuleKey, limits_of, newest_version, publish_version
from apps.scoring import rulebook, sinks
from apps.scoring.measuring import Measurements
from apps.scoring.pipeline import Pipeline
from apps.scoring.replicas import new_client
from apps.scoring.sinks import StoredVerdict
from tests.factories import UserFactory, active_release, default_policy_version

# Scores by the text's own words: see scorer/1/model.py there.
SCRIPTED_MODELS = Path(__file__).parent.parent / "inference" / "models"

Say = Callable[..., list[int]]
Publish = Callable[..., PolicyVersion]


@pytest.fixture(autouse=True)
def in_force(transactional_db: None) -> None:
    """A release and a policy, which truncating the tables takes away."""
    active_release()
    default_policy_version()


@pytest.fixture
def say(in_force: None) -> Say:
    """Sends texts as one request of a backend; answers with the messages' ids."""
    numbers = itertools.count()

    def send(*texts: str, group: str = "kitchen") -> list[int]:
        stored = ingest_messages(
            messages=[
                NewMessage(group=group, external_id=f"m{next(numbers)}", sender="ann", text=text)
                for text in texts
            ]
        )
        return [message.id for message in stored]

    return send


@pytest.fixture
def seen_by_sink() -> Iterator[list[StoredVerdict]]:
    """Everything that sinks are given."""
    seen: list[StoredVerdict] = []

    def sink(verdicts: Sequence[StoredVerdict]) -> None:
        seen.extend(verdicts)

    sinks.register_verdict_sink(sink)
    yield seen
    sinks._sinks.remove(sink)


@pytest.fixture(scope="session")
def scripted_triton(make_triton: Callable[..., Any]) -> Any:
    return make_triton(repository=SCRIPTED_MODELS)


@pytest.fixture
def pipeline(scripted_triton: Any, settings: Settings) -> Iterator[Pipeline]:
    settings.TRITON_REPLICAS = [scripted_triton.ready()["triton_replicas"]]
    with new_client() as client:
        yield Pipeline(client, Measurements("worker"))


def term(pattern: str, label: Label = Label.AD, action: Action = Action.REMOVE) -> RuleSpec:
    return RuleSpec(RuleKind.TERM, pattern, label, action)


@pytest.fixture
def publish(in_force: None, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Changes the entries of a policy, the default one unless another is named."""
    monkeypatch.setattr(rulebook, "REFRESH_EVERY_S", 0.0)
    admin = UserFactory(role=Role.ADMIN)

    def add(
        *specs: RuleSpec, policy: Policy | None = None, removed: Collection[RuleKey] = ()
    ) -> PolicyVersion:
        policy = policy or Policy.objects.get(is_default=True)
        newest = newest_version(policy)
        change = RuleChange(specs, removed)
        return publish_version(
            admin,
            policy.pk,
            limits_of(newest),
            note="",
            based_on=newest.number,
            rules=change,
        )

    return add
