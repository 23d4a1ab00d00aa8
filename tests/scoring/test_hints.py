"""Hints are merged, never wait, and never harm."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest
import redis
from django.conf import settings as django_settings
from pytest_django.fixtures import Settings

from apps.scoring.hints import Hinter, hint_scoring, hinter

# Long enough for a loaded machine; nobody waits for it when all is well.
PATIENCE_S = 20.0


@pytest.fixture
def broker(stores: object) -> redis.Redis:
    store = redis.Redis.from_url(django_settings.REDIS_URL)
    store.flushdb()
    return store


def queued(broker: redis.Redis) -> int:
    return int(broker.llen(f"{django_settings.REDIS_PREFIX}:celery:scoring"))


def wait_until(is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        if is_so():
            return
        pause.wait(0.01)
    pytest.fail("it did not happen")


def test_thousand_hints_are_one_task(broker: redis.Redis) -> None:
    for _ in range(1000):
        hint_scoring()
    wait_until(lambda: queued(broker) >= 1)
    assert queued(broker) == 1


def test_hint_after_a_worker_began_is_another_task(broker: redis.Redis) -> None:
    hint_scoring()
    wait_until(lambda: queued(broker) == 1)
    hinter().begin()
    hint_scoring()
    wait_until(lambda: queued(broker) == 2)


def test_redis_away_is_said_once_and_harms_nobody(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:9/0"
    lonely = Hinter()
    with caplog.at_level(logging.WARNING, "apps.scoring.hints"):
        lonely.begin()
        for _ in range(3):
            lonely._send()
    assert len(caplog.records) == 1
    assert "are lost" in caplog.text
