"""Whatever somebody changes is on record, and what can't be put on record is not changed.

Every service that takes who is asking is in the table here, or a test fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest
from django.db import IntegrityError, connection
from django.utils import timezone

import apps.alerts.services
import apps.audit.people
import apps.chat.assignments
import apps.chat.services.deletion
import apps.console.keys
import apps.policies.services
import apps.scoring.controls
from apps.accounts.models import Role, User
from apps.accounts.services import create_api_key
from apps.alerts.figures import Figure
from apps.alerts.services import change_rule, ensure_rules, silence
from apps.audit.models import AuditEvent
from apps.audit.people import add_key, set_user
from apps.audit.services import Actor
from apps.chat.assignments import assign_group
from apps.chat.services.deletion import delete_message
from apps.console.keys import create_key, revoke_key
from apps.policies.judging import Limits
from apps.policies.models import Policy
from apps.policies.services import TUNED, create_policy, publish_version
from apps.scoring.controls import (
    BreakerWish,
    Claiming,
    Judging,
    Standing,
    set_breaker,
    set_claiming,
    set_judging,
    set_limits,
    set_model,
    set_standing,
)
from apps.scoring.models import ModelWish
from tests.dashboard.samples import replica, sample, store
from tests.factories import GroupFactory, MessageFactory, UserFactory, default_policy_version

MODULES: list[ModuleType] = [
    apps.alerts.services,
    apps.audit.people,
    apps.chat.assignments,
    apps.chat.services.deletion,
    apps.console.keys,
    apps.policies.services,
    apps.scoring.controls,
]
WHO = {"user", "actor", "by"}
MODEL, REPLICA = "moderation", "triton-1"
# Makes what is there before, and gives the change.
Prepare = Callable[[User], Callable[[], object]]


def publishing(user: User) -> Callable[[], object]:
    version = default_policy_version()
    limits = {label: Limits(0.11, 0.99) for label in TUNED}
    return lambda: publish_version(
        user, version.policy_id, limits, note="", based_on=version.number
    )


def creating(user: User) -> Callable[[], object]:
    like = default_policy_version().policy_id
    return lambda: create_policy(user, name="Another", like=like)


def assigning(user: User) -> Callable[[], object]:
    group, policy = GroupFactory(), Policy.objects.create(name="Stricter")
    return lambda: assign_group(user, group.pk, policy.pk)


def revoking(user: User) -> Callable[[], object]:
    key, _ = create_api_key(name="backend")
    return lambda: revoke_key(user, key.pk)


def changing_a_rule(user: User) -> Callable[[], object]:
    ensure_rules()
    numbers = {"limit": 77.0, "clear_at": 7.0, "for_s": 7, "clear_for_s": 7}
    return lambda: change_rule(user, Figure.BACKLOG, is_on=True, **numbers)


def silencing(user: User) -> Callable[[], object]:
    ensure_rules()
    return lambda: silence(user, Figure.BACKLOG, minutes=10)


def deleting(user: User) -> Callable[[], object]:
    message = MessageFactory()
    return lambda: delete_message(
        group=message.group.external_id,
        external_id=message.external_id,
        actor=Actor.of_user(user),
    )


def ordering_a_model(user: User) -> Callable[[], object]:
    store(sample(timezone.now(), replicas=[replica(models=[[f"{MODEL}:1", True]])]))
    return lambda: set_model(user, MODEL, ModelWish.UNLOADED)


def standing(user: User) -> Callable[[], object]:
    store(sample(timezone.now(), replicas=[replica(REPLICA)]))
    return lambda: set_standing(user, REPLICA, Standing.DRAINING)


def breaking(user: User) -> Callable[[], object]:
    store(sample(timezone.now(), replicas=[replica(REPLICA)]))
    return lambda: set_breaker(user, REPLICA, BreakerWish.FORCED_OPEN)


def at_once(change: Callable[[User], object]) -> Prepare:
    return lambda user: lambda: change(user)


CHANGES: dict[Callable[..., object], Prepare] = {
    publish_version: publishing,
    create_policy: creating,
    assign_group: assigning,
    create_key: at_once(lambda user: create_key(user, name="backend", expires_at=None)),
    revoke_key: revoking,
    change_rule: changing_a_rule,
    silence: silencing,
    delete_message: deleting,
    set_user: at_once(
        lambda user: set_user(
            username="new", role=Role.LEAD, password="a long one", by=Actor.of_user(user)
        )
    ),
    add_key: at_once(lambda user: add_key(name="backend", by=Actor.of_user(user))),
    set_standing: standing,
    set_breaker: breaking,
    set_claiming: at_once(lambda user: set_claiming(user, Claiming.PAUSED)),
    set_judging: at_once(lambda user: set_judging(user, Judging.RULES)),
    set_limits: at_once(lambda user: set_limits(user, largest_batch=100, most_in_flight_batches=1)),
    set_model: ordering_a_model,
}


def services() -> Iterator[Callable[..., object]]:
    for module in MODULES:
        for name, function in vars(module).items():
            is_public = inspect.isfunction(function) and not name.startswith("_")
            if not is_public or function.__module__ != module.__name__:
                continue
            if WHO & set(inspect.signature(function).parameters):
                yield function


def everything() -> dict[str, str]:
    """A digest of each table's rows, but for the record itself."""
    tables = sorted(set(connection.introspection.table_names()) - {AuditEvent._meta.db_table})
    digests = {}
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(
                f"SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM \"{table}\" t"
            )
            digests[table] = cursor.fetchone()[0]
    return digests


@contextmanager
def a_record_that_takes_nothing() -> Iterator[None]:
    name, table = "takes_nothing", AuditEvent._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK (false) NOT VALID")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")


def test_the_table_has_every_service_and_no_other() -> None:
    assert set(services()) == set(CHANGES)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("service", CHANGES, ids=lambda service: service.__name__)
def test_a_change_is_on_record_or_is_not_made(service: Callable[..., object]) -> None:
    user = UserFactory(role=Role.ADMIN, username="ada")
    change = CHANGES[service](user)
    before = everything()
    with a_record_that_takes_nothing(), pytest.raises(IntegrityError):
        change()
    assert everything() == before

    change()
    assert everything() != before
    event = AuditEvent.objects.get()
    assert (event.actor_id, event.actor_name) == (user.pk, "ada")
