"""Real servers for a test run: started when a test first needs them, shared by all its workers.

Loaded with `-p`, hence before pytest-django reads the settings: they find DATABASE_URL, REDIS_URL
and TRITON_REPLICAS of servers that don't run yet. Variables that are set already are kept, and then
nothing of ours is started in their place.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moderation_site.local.servers_process import ServersProcess

FOLDER, CONTROLLER = "CHATWARDEN_TEST_FOLDER", "CHATWARDEN_TEST_CONTROLLER"
STORES, TRITON = frozenset({"postgres", "redis"}), frozenset({"triton"})
VARIABLES = {"stores": ("DATABASE_URL", "REDIS_URL"), "triton": ("TRITON_REPLICAS",)}
OURS = "CHATWARDEN_TEST_OURS"  # which of the variables name servers of ours


def _is_controller() -> bool:
    return "PYTEST_XDIST_WORKER" not in os.environ


def _servers(name: str) -> ServersProcess:
    return ServersProcess(
        Path(os.environ[FOLDER]) / name,
        only=STORES if name == "stores" else TRITON,
        stop_with=int(os.environ[CONTROLLER]),
    )


def _plan() -> None:
    os.environ[FOLDER] = tempfile.mkdtemp(prefix="chatwarden-test-")
    os.environ[CONTROLLER] = str(os.getpid())
    ours = []
    for name, variables in VARIABLES.items():
        if any(variable not in os.environ for variable in variables):
            planned = _servers(name).plan()
            for variable in variables:
                if variable not in os.environ:
                    os.environ[variable] = planned[variable]
                    ours.append(variable)
    os.environ[OURS] = ",".join(ours)
    os.environ.setdefault("SECRET_KEY", "for-tests-only-" + "0" * 40)
    os.environ["DATA_DIR"] = os.environ[FOLDER]


def _share_redis(worker: int) -> None:
    """Gives each worker a Redis database and a prefix of its own (0 stays free)."""
    if "REDIS_URL" in os.environ[OURS].split(","):
        os.environ["REDIS_URL"] = re.sub(r"/\d+$", f"/{worker + 1}", os.environ["REDIS_URL"])
    os.environ["REDIS_PREFIX"] = f"test-{worker}"


if _is_controller():
    _plan()
    _share_redis(0)
else:
    _share_redis(int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) + 1)


def pytest_unconfigure() -> None:
    if _is_controller():
        for name in VARIABLES:
            _servers(name).stop()
        shutil.rmtree(os.environ[FOLDER], ignore_errors=True)


@pytest.fixture(scope="session")
def stores() -> dict[str, Any]:
    """PostgreSQL and Redis answer. The ready file's content; empty when neither is ours."""
    ours = os.environ[OURS].split(",")
    return _servers("stores").start() if set(VARIABLES["stores"]) & set(ours) else {}


@pytest.fixture(scope="session")
def triton() -> dict[str, Any]:
    """The shared Triton answers: for tests that leave it as it is."""
    return _servers("triton").start() if "TRITON_REPLICAS" in os.environ[OURS] else {}


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
    from urllib.parse import quote, urlencode

    from django.db import connection

    settings = connection.settings_dict
    user, password = quote(settings["USER"]), quote(settings["PASSWORD"])
    where = urlencode(
        {"host": settings["HOST"], **({"port": p} if (p := settings["PORT"]) else {})}
    )
    url = f"postgresql://{user}:{password}@/{quote(settings['NAME'])}?{where}"
    return {**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "moderation_site.settings"}
