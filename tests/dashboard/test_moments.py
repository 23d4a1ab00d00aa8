"""A spike is opened: its slowest batches, their stages, and messages for those allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import Role
from apps.chat.models import CHUNK_ID_BITS
from apps.dashboard.moments import MOST_BATCHES, TritonMeans, read_moment
from apps.scoring.slowest import KEPT_A_SECOND, BatchTrace, CallTrace, Slowest
from tests.dashboard.samples import replica, sample, store
from tests.factories import UserFactory, VerdictFactory

MOMENT = "/operate/moment/"


def trace(total_ms: float = 100.0, chunks: Sequence[int] = (7,), **parts: float) -> BatchTrace:
    rest = {"claim_ms": 1.0, "encode_ms": 2.0, "inference_ms": 30.0, "store_ms": 7.0, **parts}
    return BatchTrace(
        claim="ab" * 16,
        size=256,
        chunks=chunks,
        queue_ms=total_ms - sum(rest.values()),
        calls=[CallTrace(0.5, 29.0, 256)],
        **rest,
    )


class TestSlowest:
    def test_the_slowest_of_all_offered_are_kept_and_taken_once(self) -> None:
        slowest = Slowest()
        for total_ms in (50, 900, 60, 70, 800, 40, 700):
            slowest.offer(trace(float(total_ms)))
        taken = [round(each.total_ms) for each in slowest.take()]
        assert taken == [900, 800, 700][:KEPT_A_SECOND]
        assert slowest.take() == []

    def test_a_trace_survives_its_way_through_the_sample(self) -> None:
        assert BatchTrace.from_json(trace(chunks=[7]).to_json()) == trace(chunks=[7])


@pytest.mark.django_db
class TestReading:
    def test_the_slowest_of_all_processes_come_first_and_no_others(self) -> None:
        now = timezone.now()
        for process, totals in (("worker-1", (5, 90)), ("worker-2", (70, 80))):
            batches = [trace(float(ms)).to_json() for ms in totals]
            store(sample(now - timedelta(seconds=30), process, slow_batches=batches))
        store(sample(now - timedelta(seconds=300), slow_batches=[trace(999.0).to_json()]))
        moment = read_moment(now - timedelta(seconds=60), now, now=now, with_messages=False)
        found = [(slow.process, round(slow.trace.total_ms)) for slow in moment.batches]
        assert found == [
            ("worker-1", 90),
            ("worker-2", 80),
            ("worker-2", 70),
            ("worker-1", 5),
        ]

    def test_what_triton_adds_up_stands_beside_a_batch_as_means(self) -> None:
        now = timezone.now()
        knows = replica("triton-1", mean_queue_ms=12.5, mean_batch=3.0)
        says_nothing = replica("triton-2", mean_queue_ms=None, mean_batch=None)
        batches = [trace().to_json()]
        store(sample(now, replicas=[knows, says_nothing], slow_batches=batches))
        (slow,) = read_moment(now, now, now=now, with_messages=False).batches
        assert slow.triton == [TritonMeans("triton-1", queue_ms=12.5, batch=3.0)]

    def test_never_more_than_a_few(self) -> None:
        now = timezone.now()
        batches = [trace(float(ms + 50)).to_json() for ms in range(3 * MOST_BATCHES)]
        store(sample(now, slow_batches=batches))
        moment = read_moment(now - timedelta(seconds=9), now, now=now, with_messages=False)
        assert len(moment.batches) == MOST_BATCHES

    def test_what_is_older_than_samples_are_kept_says_so(self) -> None:
        now = timezone.now()
        long_ago = now - timedelta(hours=2)
        moment = read_moment(long_ago, long_ago, now=now, with_messages=False)
        assert not moment.is_kept

    def test_stages_make_up_the_whole(self) -> None:
        now = timezone.now()
        store(sample(now, slow_batches=[trace(100.0).to_json()]))
        (slow,) = read_moment(now, now, now=now, with_messages=False).batches
        assert sum(share for _, _, share in slow.segments) == pytest.approx(1.0)
        assert next(stage for stage, _, _ in slow.segments) == "queue"


@pytest.fixture
def slow_message() -> None:
    verdict = VerdictFactory(message__text="why so \u202eslow", total_ms=1234.0)
    VerdictFactory(message__text="of another batch")
    chunk = verdict.message_id >> CHUNK_ID_BITS
    store(sample(timezone.now(), slow_batches=[trace(1300.0, chunks=(chunk,)).to_json()]))


@pytest.mark.django_db
@pytest.mark.parametrize(("role", "reads"), [(Role.MODERATOR, True), (Role.OPERATOR, False)])
def test_messages_are_for_those_who_may_read_them(
    client: Client, slow_message: None, role: Role, reads: bool
) -> None:
    client.force_login(UserFactory(role=role))
    page = client.get(MOMENT).content.decode()
    assert "Infer (Triton)" in page
    assert ("why so" in page) is reads
    assert "\u202e" not in page


@pytest.mark.django_db
def test_part_of_a_page_and_a_page_of_its_own(client: Client) -> None:
    client.force_login(UserFactory(role=Role.OPERATOR))
    store(sample(timezone.now(), slow_batches=[trace().to_json()]))
    whole = client.get(MOMENT).content.decode()
    part = client.get(MOMENT, headers={"HX-Request": "true"}).content.decode()
    assert "<html" in whole
    assert "<html" not in part
    assert "abababab" in whole
    assert "abababab" in part
    assert client.get(MOMENT, {"from": "x"}).status_code == 400


@pytest.mark.django_db
def test_strangers_are_asked_to_sign_in(client: Client) -> None:
    assert client.get(MOMENT)["Location"].startswith("/sign-in/")


@pytest.mark.django_db
def test_no_more_queries_for_more_samples(
    client: Client, django_assert_max_num_queries: Callable[[int], Any]
) -> None:
    client.force_login(UserFactory(role=Role.OPERATOR))
    now = timezone.now()
    store(*(sample(now, f"w{n}", slow_batches=[trace().to_json()]) for n in range(30)))
    with django_assert_max_num_queries(5):
        client.get(MOMENT)
