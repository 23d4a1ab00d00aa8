"""The real servers that tests and `manage.py up` stand on."""

from __future__ import annotations

import urllib.request
from typing import Any

import pytest
import redis
from django.conf import settings
from django.db import connection


@pytest.mark.django_db
def test_postgres_is_version_18_and_durable() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        version = int(cursor.fetchone()[0])
        cursor.execute("SELECT current_setting('fsync'), current_setting('synchronous_commit')")
        durable = cursor.fetchone()
    assert version // 10_000 == 18
    assert durable == ("on", "on")


@pytest.mark.django_db
def test_postgres_keeps_statements_and_row_contents_out_of_its_log() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('log_min_error_statement'), "
            "current_setting('log_error_verbosity'), current_setting('log_statement')"
        )
        assert cursor.fetchone() == ("panic", "terse", "none")


def test_redis_answers_only_with_its_password(stores: dict[str, Any]) -> None:
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        assert client.ping()
        port = client.connection_pool.connection_kwargs["port"]
    with (
        redis.Redis(port=port) as stranger,
        pytest.raises(redis.exceptions.AuthenticationError),
    ):
        stranger.ping()


def test_triton_serves_the_models_of_the_repository(triton: dict[str, Any]) -> None:
    address = triton["triton"][0]["http"]
    with urllib.request.urlopen(f"http://{address}/v2/health/ready", timeout=5) as answer:
        assert answer.status == 200
