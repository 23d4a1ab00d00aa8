"""What operators want is written once, carried out by workers, and outlives them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from pytest_django.fixtures import Settings

from apps.accounts.models import Role, User
from apps.audit.models import AuditEvent
from apps.scoring.applying import ControlApplier
from apps.scoring.controls import (
    BATCH_BOUNDS,
    BreakerWish,
    Claiming,
    Judging,
    OutOfBoundsError,
    Standing,
    UnknownTargetError,
    effects,
    set_breaker,
    set_claiming,
    set_judging,
    set_limits,
    set_standing,
)
from apps.scoring.measuring import Measurements
from apps.scoring.models import Control, Verdict
from apps.scoring.pacing import Limits, Pacer
from apps.scoring.pipeline import Pipeline
from apps.scoring.replicas import new_client
from apps.scoring.samples import BY_HAND, DEGRADED
from apps.scoring.worker import Worker
from inference import BreakerState, ModerationClient, ReplicaStatus
from moderation_site.local.servers_process import ServersProcess
from tests.factories import UserFactory
from tests.inference.support import replicas_of
from tests.scoring.conftest import SCRIPTED_MODELS, Publish, Say, term

FIRST, SECOND = "triton-1", "triton-2"


@pytest.fixture(scope="session")
def pair_of_tritons(make_triton: Callable[..., ServersProcess]) -> ServersProcess:
    return make_triton(replicas=2, repository=SCRIPTED_MODELS)


@pytest.fixture
def operator(in_force: None) -> User:
    return UserFactory(role=Role.OPERATOR)


@pytest.fixture
def replicas(pair_of_tritons: ServersProcess, settings: Settings) -> None:
    settings.TRITON_REPLICAS = [f"{each.name}={each.grpc}" for each in replicas_of(pair_of_tritons)]


@pytest.fixture
def client(replicas: None) -> Iterator[ModerationClient]:
    with new_client() as made:
        yield made


def applier(client: ModerationClient) -> ControlApplier:
    """As a worker that has just started has it."""
    return ControlApplier(client, Pipeline(client, Measurements("worker")))


def state_of(client: ModerationClient, name: str) -> Any:
    return {state.name: state for state in client.replica_states()}[name]


def classify_many(client: ModerationClient, calls: int = 30) -> None:
    for _ in range(calls):
        client.classify(["hello"])


# ---------- replicas ----------


def test_drained_replica_gets_nothing_until_it_is_readmitted(
    client: ModerationClient, operator: User
) -> None:
    worker = applier(client)
    set_standing(operator, FIRST, Standing.DRAINING)
    worker.apply()
    assert state_of(client, FIRST).state == ReplicaStatus.DRAINING
    classify_many(client)
    assert state_of(client, FIRST).latency_ms is None
    assert state_of(client, SECOND).latency_ms is not None
    set_standing(operator, FIRST, Standing.SERVING)
    worker.apply()
    classify_many(client)
    assert state_of(client, FIRST).latency_ms is not None


def test_replica_stays_drained_for_a_worker_that_starts_later(
    client: ModerationClient, operator: User
) -> None:
    set_standing(operator, FIRST, Standing.DRAINING)
    applier(client).apply()
    with new_client() as later:
        applier(later).apply()
        assert state_of(later, FIRST).state == ReplicaStatus.DRAINING


def test_replica_goes_from_drained_to_ejected_and_back(
    client: ModerationClient, operator: User
) -> None:
    worker = applier(client)
    for standing, state in (
        (Standing.DRAINING, ReplicaStatus.DRAINING),
        (Standing.EJECTED, ReplicaStatus.EJECTED),
        (Standing.DRAINING, ReplicaStatus.DRAINING),
        (Standing.SERVING, ReplicaStatus.READY),
    ):
        set_standing(operator, FIRST, standing)
        worker.apply()
        assert state_of(client, FIRST).state == state


def test_what_was_undone_behind_its_back_is_done_again(
    client: ModerationClient, operator: User
) -> None:
    """As after a name server took a replica away and gave it back."""
    worker = applier(client)
    set_standing(operator, FIRST, Standing.EJECTED)
    set_breaker(operator, SECOND, BreakerWish.FORCED_OPEN)
    worker.apply()
    client.readmit(FIRST)
    client.reset_breaker(SECOND)
    worker.apply()
    assert state_of(client, FIRST).reason == "by hand"
    assert state_of(client, SECOND).breaker == BreakerState.FORCED_OPEN


def test_breaker_is_held_open_then_reset(client: ModerationClient, operator: User) -> None:
    worker = applier(client)
    set_breaker(operator, FIRST, BreakerWish.FORCED_OPEN)
    worker.apply()
    assert state_of(client, FIRST).breaker == BreakerState.FORCED_OPEN
    set_breaker(operator, FIRST, BreakerWish.AUTO)
    worker.apply()
    assert state_of(client, FIRST).breaker == BreakerState.CLOSED


def test_reset_is_for_now_and_does_not_hold_the_breaker_closed(
    client: ModerationClient, operator: User
) -> None:
    worker = applier(client)
    set_breaker(operator, FIRST, BreakerWish.AUTO)
    worker.apply()
    client.force_breaker(FIRST, BreakerState.FORCED_OPEN)  # it opened later, for its own reasons
    worker.apply()
    assert state_of(client, FIRST).breaker == BreakerState.FORCED_OPEN
    set_breaker(operator, FIRST, BreakerWish.AUTO)
    worker.apply()
    assert state_of(client, FIRST).breaker == BreakerState.CLOSED


def test_replica_that_a_worker_does_not_know_is_said_to_be_not_carried_out(
    client: ModerationClient, operator: User, settings: Settings
) -> None:
    settings.TRITON_REPLICAS = [*settings.TRITON_REPLICAS, "triton-9=127.0.0.1:9"]
    unknown = set_standing(operator, "triton-9", Standing.DRAINING)
    known = set_standing(operator, FIRST, Standing.DRAINING)
    assert applier(client).apply() == {known.key: known.version}
    assert unknown.version == 1


# ---------- claiming and limits ----------


def test_paused_worker_claims_nothing_and_says_why(
    replicas: None, operator: User, say: Say
) -> None:
    ids = say("hello", "spam")
    set_claiming(operator, Claiming.PAUSED)
    worker = Worker()
    try:
        assert worker.drain() == 0  # it has read what is wanted before its first claim
        worker._sample()
        assert worker.measurements.take_sample([]).gauges.paused_because == BY_HAND
        set_claiming(operator, Claiming.RUNNING)
        worker._sample()
        assert worker.drain() == 2
        assert worker.measurements.take_sample([]).gauges.paused_because == ""
    finally:
        worker.client.close()
    assert Verdict.objects.filter(message_id__in=ids).count() == 2


def test_degraded_worker_lets_the_lists_alone_decide_and_says_so(
    replicas: None, operator: User, say: Say, publish: Publish
) -> None:
    publish(term("coins"))
    coins, hello = say("coins", "hello")
    wish = set_judging(operator, Judging.RULES)
    worker = Worker()
    try:
        assert worker.drain() == 1
        worker._sample()
        gauges = worker.measurements.take_sample([]).gauges
        assert (gauges.paused_because, gauges.applied[wish.key]) == (DEGRADED, wish.version)
        assert dict(Verdict.objects.values_list("message_id", "source")) == {coins: "fallback"}
        set_judging(operator, Judging.MODEL)
        worker._sample()
        assert worker.drain() == 2
        assert worker.measurements.take_sample([]).gauges.paused_because == ""
    finally:
        worker.client.close()
    assert Verdict.objects.get(message_id=hello).source == "model"
    after = AuditEvent.objects.latest("pk").after
    assert after is not None
    assert after["value"] == "by_model"


def test_limits_bound_the_pace_at_once_and_later() -> None:
    pacer = Pacer()
    pacer.limit(largest_batch=64, most_in_flight_batches=1)
    assert (pacer.batch, pacer.in_flight_batches) == (64, 1)
    pacer.on_answer(64, 1.0, 0.0)
    assert (pacer.batch, pacer.in_flight_batches) == (64, 1)
    pacer.limit(largest_batch=2048, most_in_flight_batches=4)
    for _ in range(20):
        pacer.on_answer(pacer.batch, 1.0, 0.0)
    assert (pacer.batch, pacer.in_flight_batches) == (2048, 4)


def test_wished_limits_reach_the_pacer(client: ModerationClient, operator: User) -> None:
    pipeline = Pipeline(client, Measurements("worker"))
    set_limits(operator, largest_batch=200, most_in_flight_batches=3)
    ControlApplier(client, pipeline).apply()
    limits: Limits = pipeline.pacer.limits
    assert (limits.largest_batch, limits.most_in_flight_batches) == (200, 3)


@pytest.mark.parametrize(
    ("batch", "in_flight"), [(BATCH_BOUNDS[0] - 1, 2), (BATCH_BOUNDS[1] + 1, 2), (256, 0), (256, 9)]
)
def test_limits_out_of_bounds_are_refused(operator: User, batch: int, in_flight: int) -> None:
    with pytest.raises(OutOfBoundsError):
        set_limits(operator, largest_batch=batch, most_in_flight_batches=in_flight)
    assert not Control.objects.exists()


# ---------- the wish itself ----------


def test_only_operators_and_admins_may_act(replicas: None) -> None:
    for role in (Role.MODERATOR, Role.LEAD):
        user = UserFactory(role=role)
        for act in (
            lambda user=user: set_standing(user, FIRST, Standing.DRAINING),
            lambda user=user: set_breaker(user, FIRST, BreakerWish.FORCED_OPEN),
            lambda user=user: set_claiming(user, Claiming.PAUSED),
            lambda user=user: set_judging(user, Judging.RULES),
            lambda user=user: set_limits(user, largest_batch=256, most_in_flight_batches=2),
        ):
            with pytest.raises(PermissionDenied):
                act()
    assert not Control.objects.exists()
    assert not AuditEvent.objects.exists()


def test_asking_twice_is_asking_once(replicas: None, operator: User) -> None:
    first = set_standing(operator, FIRST, Standing.DRAINING)
    again = set_standing(operator, FIRST, Standing.DRAINING)
    assert (again.pk, again.version) == (first.pk, first.version)
    assert AuditEvent.objects.count() == 1


def test_each_wish_is_audited_with_what_was_wanted_before(replicas: None, operator: User) -> None:
    set_standing(operator, FIRST, Standing.DRAINING)
    set_standing(operator, FIRST, Standing.SERVING)
    event = AuditEvent.objects.latest("id")
    assert (event.action, event.target_id) == ("replica.asked", FIRST)
    assert event.actor_name == operator.get_username()
    assert event.before == {"value": "draining"}
    assert event.after == {"value": "serving", "version": 2}


def test_unknown_replica_is_refused(replicas: None, operator: User) -> None:
    with pytest.raises(UnknownTargetError):
        set_standing(operator, "triton-77", Standing.DRAINING)
    assert not Control.objects.exists()


def test_wishes_at_the_same_time_are_both_counted(replicas: None, operator: User) -> None:
    from django.db import connection

    def ask(standing: Standing) -> None:
        try:
            set_standing(operator, FIRST, standing)
        finally:
            connection.close()

    threads = [
        threading.Thread(target=ask, args=(standing,))
        for standing in (Standing.DRAINING, Standing.EJECTED)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Control.objects.get().version == 2
    assert AuditEvent.objects.count() == 2


def test_effect_counts_the_workers_that_carried_the_newest_wish_out(
    client: ModerationClient, operator: User
) -> None:
    control = set_standing(operator, FIRST, Standing.DRAINING)
    early, late = Measurements("worker"), Measurements("worker")
    early.controlled(applier(client).apply(), is_held=False, is_degraded=False)
    samples = [m.take_sample([]) for m in (early, late)]
    effect = effects([control], samples)[control.key]
    assert (effect.applied, effect.workers, effect.is_everywhere) == (1, 2, False)
    newer = set_standing(operator, FIRST, Standing.EJECTED)
    assert effects([newer], samples)[control.key].applied == 0
