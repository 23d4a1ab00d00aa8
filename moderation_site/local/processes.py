"""The product's own processes: web, Celery worker, Celery beat, and the demo's traffic."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import redis.exceptions
from celery import Celery
from kombu.exceptions import OperationalError

from moderation_site.local.datadir import DataDir
from moderation_site.local.probes import Probe, http_ok
from moderation_site.local.program import Program

QUEUES = "scoring,default"
CELERY = (sys.executable, "-m", "celery", "-A", "moderation_site")
PING_TIMEOUT_S = 1.0
# They import the product, and do so at once: minutes on a machine that is busy with other things.
READY_TIMEOUT_S = 240.0


def product_programs(
    data_dir: DataDir,
    environment: Mapping[str, str],
    *,
    host: str,
    own_host: str,
    port: int,
    web_processes: int,
    workers: int,
) -> list[Program]:
    """Web, worker and beat, in the order in which their names should be shown."""
    return [
        web_program(environment, host, own_host, port, web_processes),
        *(worker_program(environment, data_dir.stack_id, i + 1) for i in range(workers)),
        beat_program(environment, data_dir.path / "beat"),
    ]


def web_program(
    environment: Mapping[str, str], host: str, own_host: str, port: int, processes: int
) -> Program:
    return Program(
        name="web",
        argv=[
            *(sys.executable, "-m", "uvicorn", "moderation_site.asgi:application"),
            *("--host", host, "--port", str(port), "--workers", str(processes)),
            *("--no-access-log", "--no-server-header", "--timeout-graceful-shutdown", "5"),
            *("--ws", "moderation_site.sockets:WireProtocol", "--ws-per-message-deflate", "false"),
            # A process busy with a full core is not a dead one.
            *("--timeout-worker-healthcheck", "30"),
        ],
        probe=http_ok(own_host, port, "/healthz"),
        env=environment,
        ready_timeout_s=READY_TIMEOUT_S,
    )


def worker_program(environment: Mapping[str, str], stack_id: str, number: int) -> Program:
    name = "worker" if number == 1 else f"worker-{number}"
    # Several stacks may share a Redis, and a ping must reach this one.
    node = f"{name}-{stack_id}@{os.uname().nodename}"
    return Program(
        name=name,
        argv=[
            *(*CELERY, "worker", "-Q", QUEUES, "-n", node),
            *("--loglevel", "INFO", "--without-gossip", "--without-mingle"),
        ],
        probe=_worker_answers(environment, node),
        env=environment,
        ready_timeout_s=READY_TIMEOUT_S,
        stop_timeout_s=20.0,
    )


def beat_program(environment: Mapping[str, str], folder: Path) -> Program:
    schedule = folder / "schedule"

    def clear() -> None:
        folder.mkdir(exist_ok=True)
        for file in folder.glob("schedule*"):
            file.unlink()

    return Program(
        name="beat",
        argv=[*CELERY, "beat", "--loglevel", "INFO", "--schedule", str(schedule)],
        # Beat answers nobody; it writes its schedule when it begins to tick.
        probe=_exists(folder, "schedule*"),
        env=environment,
        ready_timeout_s=READY_TIMEOUT_S,
        before_start=clear,
    )


def demo_program(environment: Mapping[str, str], url: str, api_key: str) -> Program:
    """The traffic of `up --demo`, sent as a chat backend would send it."""
    return Program(
        name="demo",
        argv=[sys.executable, "-m", "moderation_site.local.demo", url],
        probe=_always,
        # Not on the command line, where every user of the machine could read it.
        env={**environment, "DEMO_API_KEY": api_key},
        stop_timeout_s=5.0,
    )


async def _always() -> bool:
    return True


def _exists(folder: Path, pattern: str) -> Probe:
    async def probe() -> bool:
        return any(folder.glob(pattern))  # noqa: ASYNC240 (one folder, two files)

    return probe


def _worker_answers(environment: Mapping[str, str], node: str) -> Probe:
    async def probe() -> bool:
        return await asyncio.to_thread(_ping, environment, node)

    return probe


def _ping(environment: Mapping[str, str], node: str) -> bool:
    # An app of its own, not `celery inspect`: that would load the product once more at each try,
    # just when the worker needs the cores. Broker and prefix are those of `settings.py`.
    prefix = environment.get("REDIS_PREFIX") or os.environ.get("REDIS_PREFIX") or "chatwarden"
    with Celery(set_as_current=False, broker=environment["REDIS_URL"]) as app:
        app.conf.broker_transport_options = {"global_keyprefix": f"{prefix}:celery:"}
        try:
            return bool(app.control.ping(destination=[node], timeout=PING_TIMEOUT_S))
        except (OperationalError, redis.exceptions.ConnectionError):
            return False
