"""Real servers for a test run: started when a test first needs them, shared by all its workers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moderation_site.local.servers_process import ServersProcess
from moderation_site.local.test_plan import FOLDER, OURS, TRITON, VARIABLES, is_controller, servers


def pytest_unconfigure() -> None:
    if is_controller() and FOLDER in os.environ:
        for name in VARIABLES:
            servers(name).stop()
        shutil.rmtree(os.environ[FOLDER], ignore_errors=True)


@pytest.fixture(scope="session")
def stores() -> dict[str, Any]:
    """PostgreSQL and Redis answer. The ready file's content; empty when neither is ours."""
    ours = os.environ[OURS].split(",")
    return servers("stores").start() if set(VARIABLES["stores"]) & set(ours) else {}


@pytest.fixture(scope="session")
def triton() -> dict[str, Any]:
    """The shared Triton answers: for tests that leave it as it is."""
    return servers("triton").start() if "TRITON_REPLICAS" in os.environ[OURS] else {}


@pytest.fixture(scope="session")
def make_triton(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., ServersProcess]]:
    """Starts Triton replicas that a test may kill, freeze or give other models.

    `make_triton(replicas=3, repository=path)` returns a handle; `.ready()["triton"]` says where
    they answer, `.ready()["pids"]["triton-1"]` which process to hurt. They are restarted when they
    die, and stop at the end of the session or with `.stop()`.
    """
    made: list[ServersProcess] = []

    def make(*, replicas: int = 1, repository: Path | None = None) -> ServersProcess:
        process = ServersProcess(
            tmp_path_factory.mktemp("triton"),
            only=TRITON,
            replicas=replicas,
            settings={} if repository is None else {"MODEL_REPOSITORY": str(repository)},
        )
        made.append(process)
        process.start()
        return process

    yield make
    for process in made:
        process.stop()


@pytest.fixture
def process_environment(transactional_db: None) -> dict[str, str]:
    """The environment for a process of the product that a test starts: the test's own database."""
    return product_environment()


def product_environment() -> dict[str, str]:
    """The same for processes that outlive a test; call it once the test database exists."""
    from urllib.parse import quote, urlencode

    from django.db import connection

    settings = connection.settings_dict
    user, password = quote(settings["USER"]), quote(settings["PASSWORD"])
    where = urlencode(
        {"host": settings["HOST"], **({"port": p} if (p := settings["PORT"]) else {})}
    )
    url = f"postgresql://{user}:{password}@/{quote(settings['NAME'])}?{where}"
    return {**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "moderation_site.settings"}
