"""Each change stands on the time line once, however many processes saw it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from apps.accounts.models import Role
from apps.alerts.models import Alert, AlertRule
from apps.alerts.services import ensure_rules
from apps.audit.models import ActorKind
from apps.audit.services import Actor, record
from apps.dashboard.events import KEPT_FOR, read_events, record_events
from apps.dashboard.models import OperationalEvent
from apps.dashboard.standing import standing
from tests.dashboard.samples import replica, sample, store
from tests.factories import UserFactory

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def written(kind: str) -> list[tuple[str, str]]:
    events = OperationalEvent.objects.filter(kind=kind).order_by("at", "id")
    return list(events.values_list("subject", "state"))


def look(seconds: float, *breakers: str, **view: Any) -> None:
    """One worker for each breaker state, all calling triton-1; then the task looks."""
    for number, breaker in enumerate(breakers):
        seen = replica(breaker=breaker, **view)
        store(sample(at(seconds), f"worker-{number}", replicas=[seen]))
    record_events(now=at(seconds))


@pytest.mark.django_db
class TestWriting:
    def test_a_breaker_is_told_once_by_its_worst_view(self) -> None:
        look(0, "closed", "closed")
        look(1, "closed", "open", breaker_reason="9 of 12 failed")
        look(2, "open", "open", breaker_reason="9 of 12 failed")
        look(3, "half_open", "closed")
        look(4, "closed", "closed")
        states = ["open", "half_open", "closed"]
        assert written("breaker") == [("triton-1", state) for state in states]
        assert OperationalEvent.objects.get(state="open").reason == "9 of 12 failed"

    def test_looking_again_writes_nothing(self) -> None:
        look(0, "open")
        assert record_events(now=at(0)) == 0
        assert record_events(now=at(1)) == 0

    def test_replicas_come_fall_out_return_and_leave(self) -> None:
        look(0, "closed")
        look(1, "closed", state="ejected", reason="unavailable")
        look(2, "closed")
        store(sample(at(3), "worker-0", replicas=[replica("triton-2")]))
        record_events(now=at(3))
        assert written("replica") == [
            ("triton-1", "ready"),
            ("triton-1", "ejected"),
            ("triton-1", "ready"),
            ("triton-2", "ready"),
            ("triton-1", "left"),
        ]

    def test_workers_start_and_stop_and_start_anew(self) -> None:
        look(0, "closed")
        record_events(now=at(4))
        record_events(now=at(30))
        look(40, "closed")
        states = ["started", "stopped", "started"]
        assert written("worker") == [("worker-0", state) for state in states]

    def test_without_workers_nothing_is_said_of_replicas(self) -> None:
        look(0, "closed")
        record_events(now=at(30))
        assert written("replica") == [("triton-1", "ready")]

    def test_what_a_breaker_went_through_between_two_samples_is_told(self) -> None:
        look(0, "open", "open")
        changes = [
            {"ago_s": 0.9, "replica": "triton-1", "state": "half_open", "reason": "probing"},
            {"ago_s": 0.8, "replica": "triton-1", "state": "ramping", "reason": "it answered"},
        ]
        for number in range(2):
            store(
                sample(
                    at(1 + 0.05 * number),
                    f"worker-{number}",
                    replicas=[replica(breaker="ramping", breaker_reason="it answered")],
                    breaker_changes=changes,
                )
            )
        record_events(now=at(1.1))
        record_events(now=at(2))
        events = OperationalEvent.objects.filter(kind="breaker").order_by("at")
        # The second worker was 50 ms later: the worst view is the replica's.
        assert [(e.state, e.at) for e in events] == [
            ("open", at(0)),
            ("half_open", at(0.15)),
            ("ramping", at(0.25)),
        ]

    def test_a_worker_that_died_with_its_breaker_open_does_not_hold_it_open(self) -> None:
        look(0, "open", "closed")
        for second in (2, 4, 6):
            store(sample(at(second), "worker-1", replicas=[replica()]))
            record_events(now=at(second))
        assert written("breaker") == [("triton-1", "open"), ("triton-1", "closed")]

    def test_web_processes_start_and_stop(self) -> None:
        store(sample(at(0), "web-7", role="web"))
        record_events(now=at(0))
        record_events(now=at(30))
        assert written("web") == [("web-7", "started"), ("web-7", "stopped")]
        assert written("worker") == []

    def test_a_new_version_is_told_once_while_the_old_one_still_runs(self) -> None:
        def run(second: float, **versions: str) -> None:
            for process, version in versions.items():
                started_s = 100.0 + ("1" in process)
                gauges = {"version": version, "started_s": started_s}
                store(sample(at(second), process, gauges=gauges))
            record_events(now=at(second))

        run(0, web_0="1.0")
        run(1, web_0="1.0", web_1="1.1")
        run(2, web_0="1.0", web_1="1.1")
        run(30, web_0="1.0")
        assert written("deploy") == [(v, "deployed") for v in ("1.0", "1.1", "1.0")]

    def test_old_events_go_and_what_still_holds_stays(self) -> None:
        look(0, "open")
        look(1, "closed")
        record_events(now=at(1) + KEPT_FOR + timedelta(seconds=1))
        assert written("breaker") == [("triton-1", "closed")]
        assert ("worker-0", "started") not in written("worker")

    def test_a_process_that_lives_for_months_is_told_to_start_once(self) -> None:
        look(0, "closed")
        later = KEPT_FOR.total_seconds() + 1
        OperationalEvent.objects.update(at=at(-1))
        for seconds in (later, later + 1):
            look(seconds, "closed")
        assert written("worker") == [("worker-0", "started")]

    def test_looking_costs_the_same_however_many_processes_came_and_went(
        self, django_assert_num_queries: Callable[[int], Any]
    ) -> None:
        for number in range(50):
            gone = sample(at(number * 10), f"worker-of-before-{number}", replicas=[replica()])
            store(gone)
            record_events(now=gone.at)
        record_events(now=at(600))
        look(601, "closed")
        assert len(written("worker")) == 101
        known = {(event.kind, event.subject) for event in standing(*OperationalEvent.Kind)}
        assert known == {("worker", "worker-0"), ("replica", "triton-1")}
        with django_assert_num_queries(6):
            record_events(now=at(602))


@pytest.mark.django_db(transaction=True)
def test_two_tasks_at_once_write_each_change_once() -> None:
    store(sample(at(0), "worker-0", replicas=[replica(breaker="open")]))

    def run(_: int) -> None:
        try:
            record_events(now=at(0))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(8)))
    assert OperationalEvent.objects.count() == 3


@pytest.mark.django_db
class TestReading:
    def test_an_event_lasts_until_the_next_of_the_same_thing(self) -> None:
        look(0, "open")
        look(10, "half_open")
        shown = [e for e in read_events(at(0), at(60)) if e.lane == "breaker"]
        assert [(e.at_s, e.until_s, e.look) for e in shown] == [
            (at(0).timestamp(), at(10).timestamp(), "down"),
            (at(10).timestamp(), None, "half-open"),
        ]
        assert [e.words for e in shown] == ["triton-1 open", "triton-1 half-open"]

    def test_published_thresholds_come_from_the_audit_record(self) -> None:
        record(
            actor=Actor(ActorKind.SYSTEM, None, "test"),
            action="policy.published",
            target_type="policy",
            target_id=1,
            after={"version": 42},
        )
        now = timezone.now()
        (event,) = read_events(now - timedelta(minutes=5), now + timedelta(seconds=5))
        assert (event.lane, event.words) == ("policy", "version 42 published")

    def test_what_operators_asked_for_comes_from_the_audit_record(self) -> None:
        record(
            actor=Actor(ActorKind.USER, 7, "ann"),
            action="replica.asked",
            target_type="control",
            target_id="triton-1",
            after={"value": "draining", "version": 1},
        )
        now = timezone.now()
        (event,) = read_events(now - timedelta(minutes=5), now + timedelta(seconds=5))
        assert (event.lane, event.words, event.reason) == ("act", "triton-1: Drain", "by ann")

    def test_alerts_that_hold_or_held_in_the_window_are_told(self) -> None:
        ensure_rules()
        rule = AlertRule.objects.get(figure="p99_ms")
        for fired, resolved in ((-900, -800), (-700, 30), (10, 20)):
            Alert.objects.create(
                rule=rule, fired_at=at(fired), resolved_at=at(resolved), value=1200, limit=1000
            )
        told = [(e.lane, e.at_s, e.until_s) for e in read_events(at(0), at(60))]
        assert told == [
            ("alert", at(a).timestamp(), at(b).timestamp()) for a, b in ((-700, 30), (10, 20))
        ]

    def test_only_what_lies_in_the_window_is_told(self) -> None:
        look(0, "open")
        assert read_events(at(1), at(60)) == []


@pytest.fixture
def signed_in(client: Client) -> Callable[[Role], Client]:
    def sign_in(role: Role) -> Client:
        client.force_login(UserFactory(role=role))
        return client

    return sign_in


@pytest.mark.django_db
def test_operators_read_events_in_their_language(signed_in: Callable[[Role], Client]) -> None:
    look(0, "open", breaker_reason="9 of 12 failed")
    client = signed_in(Role.OPERATOR)
    query = {"from": int(at(-300).timestamp()), "to": int(at(60).timestamp())}
    answer = client.get("/operate/events.json", query, headers={"Accept-Language": "zh-hans"})
    words = {event["words"] for event in answer.json()["events"] if event["lane"] == "breaker"}
    assert words == {"triton-1 断开"}
    assert client.get("/operate/events.json", {"from": "x"}).status_code == 400


@pytest.mark.django_db
def test_strangers_do_not_read_events(client: Client) -> None:
    assert client.get("/operate/events.json")["Location"].startswith("/sign-in/")
