"""Where the servers of a test run will answer, settled before any of them runs.

`test_settings.py` plans them before it loads the product's settings, which so find DATABASE_URL,
REDIS_URL and TRITON_REPLICAS. Variables that are set already are kept, and then nothing of ours is
started in their place.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from moderation_site.local.servers_process import ServersProcess

FOLDER, CONTROLLER = "CHATWARDEN_TEST_FOLDER", "CHATWARDEN_TEST_CONTROLLER"
STORES, TRITON = frozenset({"postgres", "redis"}), frozenset({"triton"})
VARIABLES = {"stores": ("DATABASE_URL", "REDIS_URL"), "triton": ("TRITON_REPLICAS",)}
OURS = "CHATWARDEN_TEST_OURS"  # which of the variables name servers of ours


def is_controller() -> bool:
    return "PYTEST_XDIST_WORKER" not in os.environ


def servers(name: str) -> ServersProcess:
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
            planned = servers(name).plan()
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


def plan_once() -> None:
    """Sets the environment of this process of the test run; xdist's workers inherit the plan."""
    if is_controller():
        if FOLDER not in os.environ:
            _plan()
        _share_redis(0)
    else:
        _share_redis(int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) + 1)
