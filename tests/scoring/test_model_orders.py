"""Models are loaded and unloaded once, on every replica, by whichever worker comes first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from pytest_django.fixtures import Settings

from apps.accounts.models import Role, User
from apps.audit.models import AuditEvent
from apps.scoring.controls import UnknownTargetError, known_models, newest_samples, set_model
from apps.scoring.measuring import Measurements
from apps.scoring.model_orders import carry_out_orders
from apps.scoring.models import Control, ModelWish
from apps.scoring.replicas import new_client
from apps.scoring.samples import write_sample
from inference import ModerationClient
from moderation_site.local.servers_process import ServersProcess
from tests.factories import UserFactory
from tests.inference.support import replicas_of
from tests.scoring.conftest import SCRIPTED_MODELS

MODEL = "counter"


@pytest.fixture(scope="module")
def own_pair(make_triton: Callable[..., ServersProcess]) -> ServersProcess:
    """Two replicas whose models may be taken away."""
    return make_triton(replicas=2, repository=SCRIPTED_MODELS)


@pytest.fixture
def client(own_pair: ServersProcess, settings: Settings) -> Iterator[ModerationClient]:
    settings.TRITON_REPLICAS = [f"{each.name}={each.grpc}" for each in replicas_of(own_pair)]
    with new_client() as made:
        yield made


@pytest.fixture
def operator(in_force: None) -> User:
    return UserFactory(role=Role.OPERATOR)


def report(client: ModerationClient) -> None:
    """What a worker's next sample says."""
    client.check_health()
    write_sample(Measurements("worker").take_sample(client.replica_states()))


def ready_on(client: ModerationClient) -> int:
    report(client)
    return sum(map(bool, known_models(newest_samples())[MODEL].values()))


def test_model_is_unloaded_from_every_replica_and_loaded_again(
    client: ModerationClient, operator: User
) -> None:
    report(client)
    for wish, ready in ((ModelWish.UNLOADED, 0), (ModelWish.LOADED, 2)):
        asked = set_model(operator, MODEL, wish)
        assert asked.done_version < asked.version
        assert carry_out_orders(client) == 1
        assert ready_on(client) == ready
        asked.refresh_from_db()
        assert (asked.done_version, asked.failure) == (asked.version, "")
        assert carry_out_orders(client) == 0


def test_what_failed_is_said_and_not_tried_for_ever(
    client: ModerationClient, operator: User
) -> None:
    report(client)
    asked = set_model(operator, MODEL, ModelWish.LOADED)
    # Gone from the repository since it was asked for.
    Control.objects.filter(pk=asked.pk).update(target="gone")
    assert carry_out_orders(client) == 1
    asked.refresh_from_db()
    assert asked.failure != ""
    assert carry_out_orders(client) == 0


def test_while_one_is_at_it_others_leave_it(client: ModerationClient, operator: User) -> None:
    report(client)
    set_model(operator, MODEL, ModelWish.LOADED)
    done: list[int] = []

    def carry_out() -> None:
        try:
            done.append(carry_out_orders(client))
        finally:
            connection.close()

    threads = [threading.Thread(target=carry_out) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [0, 0, 1]


def test_only_operators_act_on_models_that_there_are(
    client: ModerationClient, operator: User
) -> None:
    report(client)
    with pytest.raises(PermissionDenied):
        set_model(UserFactory(role=Role.LEAD), MODEL, ModelWish.UNLOADED)
    with pytest.raises(UnknownTargetError):
        set_model(operator, "phlogiston", ModelWish.LOADED)
    assert not Control.objects.exists()
    set_model(operator, MODEL, ModelWish.LOADED)
    assert AuditEvent.objects.get().action == "model.asked"
