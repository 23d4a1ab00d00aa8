"""A real Celery worker: it drains on a hint, and does not need one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from django.conf import settings as django_settings

from apps.scoring.claims import has_due_chunks
from apps.scoring.hints import hint_scoring
from apps.scoring.models import Verdict
from apps.scoring.samples import live_processes
from moderation_site.local.servers_process import ServersProcess
from tests.scoring.conftest import Say

PATIENCE_S = 60.0


def wait_until(is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / 0.05)):
        if is_so():
            return
        pause.wait(0.05)
    pytest.fail("it did not happen")


def judged(ids: list[int]) -> bool:
    return Verdict.objects.filter(message_id__in=ids).count() == len(ids)


@pytest.fixture
def celery_worker(
    process_environment: dict[str, str], scripted_triton: ServersProcess
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker process that has said it lives."""
    redis.Redis.from_url(django_settings.REDIS_URL).flushdb()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "celery", "-A", "moderation_site", "worker"),
            *("-Q", "scoring,default", "--concurrency", "2", "--loglevel", "WARNING"),
            *("--without-gossip", "--without-mingle", "-n", f"test-{os.getpid()}@here"),
        ],
        env={
            **process_environment,
            "TRITON_REPLICAS": scripted_triton.ready()["triton_replicas"],
            "SCORING_LEASE_S": "3",
        },
        cwd=Path(__file__).parents[2],
    )
    try:
        wait_until(lambda: bool(live_processes("worker")))
        yield process
    finally:
        process.kill()
        process.wait()


def test_hint_makes_a_worker_judge(celery_worker: subprocess.Popen[bytes], say: Say) -> None:
    ids = say("hello", "spam")
    hint_scoring()
    wait_until(lambda: judged(ids))


def test_doubled_hints_judge_once(celery_worker: subprocess.Popen[bytes], say: Say) -> None:
    from apps.scoring.tasks import drain_pending

    ids = say(*(f"spam {n}" for n in range(200)))
    for _ in range(10):
        drain_pending.delay()
    wait_until(lambda: judged(ids))
    assert Verdict.objects.count() == 200


def test_messages_without_any_hint_are_judged_all_the_same(
    celery_worker: subprocess.Popen[bytes], say: Say
) -> None:
    ids = say("nobody said a word")
    wait_until(lambda: judged(ids))


def test_worker_goes_on_when_redis_has_cut_all_its_connections(
    celery_worker: subprocess.Popen[bytes], say: Say
) -> None:
    store = redis.Redis.from_url(django_settings.REDIS_URL)
    for kind in ("normal", "pubsub"):
        store.client_kill_filter(_type=kind, skipme=True)
    ids = say("hello", "spam", "toxic")
    wait_until(lambda: judged(ids))


def test_terminated_worker_ends_what_it_has_begun(
    celery_worker: subprocess.Popen[bytes], say: Say
) -> None:
    ids = say("hello sleep=400")
    hint_scoring()
    wait_until(lambda: not has_due_chunks())
    celery_worker.send_signal(signal.SIGTERM)
    assert celery_worker.wait(timeout=PATIENCE_S) == 0
    assert judged(ids)
