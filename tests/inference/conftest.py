"""Real replicas for the client: a pair that tests leave as it is, a pair they may hurt."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from inference import AsyncModerationClient, ReplicaConfig
from moderation_site.local.probes import http_ok
from moderation_site.local.servers_process import ServersProcess
from tests.inference.fault_proxy import FaultProxy
from tests.inference.scripted_server import Script, ScriptedServer
from tests.inference.support import Witness, quiet, replicas_of, until

MODELS = Path(__file__).with_name("models")


@pytest.fixture(scope="session")
def pair(make_triton: Callable[..., ServersProcess]) -> list[ReplicaConfig]:
    """Two replicas with the fixture models, for tests that leave them as they are."""
    return replicas_of(make_triton(replicas=2, repository=MODELS))


class Fragile:
    """Two replicas that may be killed, stopped and frozen; the supervisor brings them back."""

    def __init__(self, process: ServersProcess) -> None:
        self._process = process
        self.replicas = replicas_of(process)
        self._frozen: list[int] = []

    def pids(self) -> dict[str, int]:
        pids = self._process.ready()["pids"]
        return {each.name: int(pids[each.name]) for each in self.replicas}

    def signal(self, name: str, number: signal.Signals) -> None:
        pid = self.pids()[name]
        if number is signal.SIGSTOP:
            self._frozen.append(pid)
        os.kill(pid, number)

    def thaw(self) -> None:
        for pid in self._frozen:
            os.kill(pid, signal.SIGCONT)
        self._frozen.clear()

    async def all_ready(self) -> None:
        # A restarted server answers a moment before the ready file names its new process.
        await until(lambda: all(psutil.pid_exists(pid) for pid in self.pids().values()))
        for replica in self.replicas:
            assert replica.http is not None
            host, _, port = replica.http.rpartition(":")
            is_ready = http_ok(host, int(port), "/v2/health/ready")
            await until(is_ready)


@pytest.fixture(scope="session")
def _fragile_process(make_triton: Callable[..., ServersProcess]) -> ServersProcess:
    return make_triton(replicas=2, repository=MODELS)


@pytest.fixture
async def fragile(_fragile_process: ServersProcess) -> AsyncIterator[Fragile]:
    """The pair to hurt, whole at the start and thawed at the end of each test."""
    subject = Fragile(_fragile_process)
    await subject.all_ready()
    yield subject
    subject.thaw()
    await subject.all_ready()


@pytest.fixture
def witness() -> Witness:
    return Witness()


@pytest.fixture
def proxy_for() -> Iterator[Callable[..., FaultProxy]]:
    """Makes fault proxies that are closed at the end of the test."""
    made: list[FaultProxy] = []

    def make(replica: ReplicaConfig, **options: Any) -> FaultProxy:
        made.append(FaultProxy(replica.grpc, **options))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


@pytest.fixture
def scripted() -> Iterator[Callable[[Script], ReplicaConfig]]:
    """Serves scripts; the replica's name is `scripted`."""
    servers: list[ScriptedServer] = []

    def serve(script: Script) -> ReplicaConfig:
        servers.append(ScriptedServer(script))
        return servers[-1].replica

    yield serve
    for server in servers:
        server.close()


@pytest.fixture
async def client(
    pair: list[ReplicaConfig], witness: Witness
) -> AsyncIterator[AsyncModerationClient]:
    """One client of both steady replicas."""
    async with AsyncModerationClient(quiet(pair), witness.hooks) as subject:
        yield subject
