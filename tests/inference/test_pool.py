"""Connections, counted and hurt for real."""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
import statistics
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from inference import (
    AsyncModerationClient,
    BalancerConfig,
    BalancerPolicy,
    HealthConfig,
    PoolConfig,
    ReplicaConfig,
    TlsConfig,
)
from inference.errors import MisconfiguredError, OverloadedError, UnreachableError
from inference.health import server_load
from inference.pool import ServerLoad
from tests.inference.fault_proxy import BLACKHOLE, DROP, NONE, FaultProxy
from tests.inference.support import quiet, sleep_for, until


def established(replica: ReplicaConfig) -> int:
    """Sockets of this process that are connected to the replica."""
    port = int(replica.grpc.rpartition(":")[2])
    return sum(
        each.status == psutil.CONN_ESTABLISHED and bool(each.raddr) and each.raddr.port == port
        for each in psutil.Process().net_connections("tcp")
    )


async def test_the_pool_is_as_many_sockets_as_it_says(pair: list[ReplicaConfig]) -> None:
    config = quiet(pair[:1], pool=PoolConfig(connections_per_replica=3))
    async with AsyncModerationClient(config) as client:
        await until(lambda: established(pair[0]) == 0)  # what earlier tests left closes in a while
        assert client.replica_states()
        assert established(pair[0]) == 0, "nothing is connected before the first call"
        await client.classify(["one"])
        assert established(pair[0]) == 1
        await asyncio.gather(*(client.classify(["sleep=50"]) for _ in range(12)))
        assert established(pair[0]) == 3
    await until(lambda: established(pair[0]) == 0)


async def test_calls_go_to_the_least_busy_connection(
    pair: list[ReplicaConfig], proxy_for: Callable[[ReplicaConfig], FaultProxy]
) -> None:
    proxy = proxy_for(pair[0])
    config = quiet(
        [ReplicaConfig("proxied", grpc=proxy.address)], pool=PoolConfig(connections_per_replica=2)
    )
    async with AsyncModerationClient(config) as client:
        await asyncio.gather(*(client.infer("sleeper", [sleep_for(20)]) for _ in range(4)))
        assert proxy.accepted == 2


async def test_a_proxy_in_the_environment_is_not_used(
    pair: list[ReplicaConfig], monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{unused_tcp_port}")
    monkeypatch.delenv("no_proxy", raising=False)
    async with AsyncModerationClient(quiet(pair, health=HealthConfig())) as client:
        await client.check_health()
        assert all(each.queue_depth is not None for each in client.replica_states())
        (row,) = await client.classify(["spam"])
        assert row.error is None


async def test_bytes_in_flight_are_capped_however_many_wait(
    pair: list[ReplicaConfig], proxy_for: Callable[[ReplicaConfig], FaultProxy]
) -> None:
    """A server that answers nothing: 10,000 submits, and memory stays under the limit."""
    proxy = proxy_for(pair[0])
    limit = 1024 * 1024
    config = quiet(
        [ReplicaConfig("stalled", grpc=proxy.address)],
        pool=PoolConfig(max_message_bytes=limit, max_in_flight_bytes=limit),
    )
    async with AsyncModerationClient(config) as client:
        await client.classify(["text"])
        proxy.set(BLACKHOLE)
        calls = [asyncio.ensure_future(client.classify(["x" * 4000])) for _ in range(10_000)]
        await until(lambda: sum(call.done() for call in calls) > 9_000)
        refused = [call for call in calls if call.done()]
        assert {type(call.exception()) for call in refused} == {OverloadedError}
        (state,) = client.replica_states()
        assert state.in_flight == len(calls) - len(refused)
        assert state.in_flight <= limit // 4000
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_bytes_are_given_back_when_a_call_ends(pair: list[ReplicaConfig]) -> None:
    limit = 64 * 1024
    pool = PoolConfig(max_message_bytes=limit, max_in_flight_bytes=limit)
    async with AsyncModerationClient(quiet(pair, pool=pool)) as client:
        for _ in range(50):
            await client.classify(["x" * 4000])  # three times the limit in all


async def test_a_replica_is_used_again_soon_after_it_returns(
    pair: list[ReplicaConfig], proxy_for: Callable[[ReplicaConfig], FaultProxy]
) -> None:
    proxy = proxy_for(pair[0])
    flaky = ReplicaConfig("flaky", grpc=proxy.address)
    config = quiet([flaky, pair[1]], health=HealthConfig(every_s=0.05, down_every_s=0.05))
    async with AsyncModerationClient(config) as client:

        def state() -> str:
            return next(e.state for e in client.replica_states() if e.name == "flaky")

        await client.classify(["text"])
        proxy.set(DROP)
        proxy.reset_all()
        await until(lambda: state() == "down")
        proxy.set(NONE)
        await until(lambda: state() == "ready")


async def test_a_replica_that_stays_away_is_dialled_as_often_as_at_first(
    pair: list[ReplicaConfig], proxy_for: Callable[[ReplicaConfig], FaultProxy]
) -> None:
    """Its return is noticed within half a second, however long it was away: gRPC's own pauses would
    have grown to seconds by the tenth time. The median, so that a busy machine decides nothing."""
    proxy = proxy_for(pair[0])
    flaky = ReplicaConfig("flaky", grpc=proxy.address)
    async with AsyncModerationClient(quiet([flaky, pair[1]], health=HealthConfig())) as client:
        await client.classify(["text"])
        proxy.set(DROP)
        proxy.reset_all()
        await until(lambda: proxy.accepted > 30)
    late = proxy.accepted_at_s[-20:]
    assert statistics.median(b - a for a, b in pairwise(late)) < 0.5


async def test_one_connection_asks_whether_a_replica_is_back_and_the_others_dial_anew(
    pair: list[ReplicaConfig], proxy_for: Callable[[ReplicaConfig], FaultProxy]
) -> None:
    proxy = proxy_for(pair[0])
    flaky = ReplicaConfig("flaky", grpc=proxy.address)
    config = quiet([flaky], health=HealthConfig(every_s=0.05, down_every_s=0.05))
    async with AsyncModerationClient(config) as client:
        sleep = client.infer("sleeper", [sleep_for(200)]), client.infer("sleeper", [sleep_for(200)])
        await asyncio.gather(*sleep)
        connections = client._pool.replicas["flaky"].connections
        assert len(connections) == 2
        proxy.set(DROP)
        proxy.reset_all()
        await until(lambda: client._pool.replicas["flaky"].connections == connections[:1])
        proxy.set(NONE)
        await until(lambda: client.replica_states()[0].state == "ready")
        sleep = client.infer("sleeper", [sleep_for(200)]), client.infer("sleeper", [sleep_for(200)])
        await asyncio.gather(*sleep)
        assert client._pool.replicas["flaky"].connections[1] is not connections[1]


async def test_two_loops_in_one_process_are_refused_with_a_sentence(
    pair: list[ReplicaConfig],
) -> None:
    async with AsyncModerationClient(quiet(pair)) as client:
        await client.classify(["text"])

        def on_another_loop() -> None:
            asyncio.run(AsyncModerationClient(quiet(pair)).classify(["text"]))

        with pytest.raises(MisconfiguredError, match="another event loop"):
            await asyncio.to_thread(on_another_loop)


def test_a_closed_client_gives_its_loop_up(pair: list[ReplicaConfig]) -> None:
    async def once() -> None:
        async with AsyncModerationClient(quiet(pair)) as client:
            await client.classify(["text"])

    for _ in range(3):
        asyncio.run(once())


async def test_gevent_without_its_grpc_support_is_refused(
    pair: list[ReplicaConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkey = types.ModuleType("gevent.monkey")
    monkey.is_module_patched = lambda name: name == "threading"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gevent.monkey", monkey)
    with pytest.raises(MisconfiguredError, match="init_gevent"):
        await AsyncModerationClient(quiet(pair)).classify(["text"])


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_clients_made_and_closed_leak_neither_files_nor_memory(
    pair: list[ReplicaConfig],
) -> None:
    process = psutil.Process()

    async def churn(times: int) -> None:
        for _ in range(times):
            async with AsyncModerationClient(quiet(pair[:1])) as client:
                await client.classify(["text"])

    await churn(50)  # what is allocated once is allocated now
    gc.collect()
    files, rss = open_files(), process.memory_info().rss
    await churn(500)
    gc.collect()
    assert open_files() <= files + 5
    assert process.memory_info().rss - rss < 500 * 20_000, "more than 20 kB a client"


async def test_breaker_reopenings_and_reconnects_leak_no_files(
    pair: list[ReplicaConfig], proxy_for: Callable[[ReplicaConfig], FaultProxy]
) -> None:
    proxy = proxy_for(pair[0])
    only = ReplicaConfig("only", grpc=proxy.address)
    pool = PoolConfig(reconnect_first_ms=1, reconnect_max_ms=2)
    async with AsyncModerationClient(quiet([only], pool=pool)) as client:
        await client.classify(["text"])
        files = open_files()
        for _ in range(1_000):
            proxy.reset_all()
            client.reset_breaker("only")
            try:
                await client.classify(["text"])
            except UnreachableError:
                client.readmit("only")
        assert open_files() <= files + 8


async def test_health_checks_go_on_after_one_went_wrong(
    pair: list[ReplicaConfig], caplog: pytest.LogCaptureFixture
) -> None:
    asked = 0

    async def resolver(host: str, port: int) -> list[str]:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise RuntimeError("a resolver of one's own may do anything")
        return [pair[0].grpc]

    config = quiet(
        "dns:///triton.example:8001",  # type: ignore[arg-type]
        health=HealthConfig(every_s=0.02, resolve_every_s=0.02),
    )
    async with AsyncModerationClient(config, resolver=resolver) as client:
        await client.classify(["text"])
        await until(lambda: asked > 4)
        await client.classify(["text"])
    assert "a health check went wrong" in caplog.text


async def test_unreachable_dns_members_leave_and_new_ones_are_used(
    pair: list[ReplicaConfig],
) -> None:
    """Pods come and go behind one name (grpc#30015): it is looked up again."""
    answers = [pair[0].grpc]
    asked: list[tuple[str, int]] = []

    async def resolver(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return list(answers)

    config = quiet(
        "dns:///triton.example:8001",  # type: ignore[arg-type]
        health=HealthConfig(every_s=0.02, resolve_every_s=0.02),
        balancer=BalancerConfig(policy=BalancerPolicy.ROUND_ROBIN),
    )
    async with AsyncModerationClient(config, resolver=resolver) as client:
        await client.classify(["text"])
        assert [each.name for each in client.replica_states()] == [pair[0].grpc]
        answers.append(pair[1].grpc)
        await until(lambda: len(client.replica_states()) == 2)
        for _ in range(4):
            await client.classify(["text"])
        assert established(pair[1]) >= 1
        answers.remove(pair[0].grpc)
        await until(lambda: [each.name for each in client.replica_states()] == [pair[1].grpc])
        await until(lambda: established(pair[0]) == 0)
        answers.clear()  # an empty answer is no reason to drop the last replica
        seen = len(asked)
        await until(lambda: len(asked) > seen + 2)
        await client.classify(["text"])
    assert asked[0] == ("triton.example", 8001)


# ---------------------------------------------------------------- TLS


class Authority:
    """Certificates made by openssl for the length of a test."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.ca = folder / f"{name}-ca.pem"
        self._key = folder / f"{name}-ca.key"
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", f"/CN={name} authority"),
            *("-keyout", str(self._key), "-out", str(self.ca)),
        )

    def issue(self, name: str) -> tuple[Path, Path]:
        """Certificate and key for ``name``."""
        base = self.folder / f"{self.name}-{name}"
        cert, key, request = (base.with_suffix(suffix) for suffix in (".pem", ".key", ".csr"))
        extension = base.with_suffix(".ext")
        extension.write_text(f"subjectAltName=DNS:{name},IP:127.0.0.1\n")
        self._openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request)),
        )
        self._openssl(
            *("x509", "-req", "-in", str(request), "-days", "2", "-extfile", str(extension)),
            *("-CA", str(self.ca), "-CAkey", str(self._key), "-out", str(cert)),
        )
        return cert, key

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def server_context(authority: Authority, *, wants_client: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("triton"))
    context.set_alpn_protocols(["h2"])
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.ca)
    return context


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[Authority]:
    return Authority(tmp_path, "old")


async def test_mutual_tls_from_files(
    pair: list[ReplicaConfig],
    proxy_for: Callable[..., FaultProxy],
    authority: Authority,
) -> None:
    proxy = proxy_for(pair[0], ssl_context=server_context(authority, wants_client=True))
    replica = ReplicaConfig("secure", grpc=proxy.address)
    cert, key = authority.issue("client")
    mutual = TlsConfig(ca_file=authority.ca, cert_file=cert, key_file=key)
    async with AsyncModerationClient(quiet([replica], tls=mutual)) as client:
        (row,) = await client.classify(["spam"])
        assert row.error is None
    async with AsyncModerationClient(
        quiet([replica], tls=TlsConfig(ca_file=authority.ca))
    ) as client:
        with pytest.raises((UnreachableError, MisconfiguredError)):
            await client.classify(["spam"])


async def test_a_certificate_nobody_vouches_for_is_a_wrong_setting(
    pair: list[ReplicaConfig],
    proxy_for: Callable[..., FaultProxy],
    authority: Authority,
    tmp_path: Path,
) -> None:
    proxy = proxy_for(pair[0], ssl_context=server_context(authority, wants_client=False))
    stranger = Authority(tmp_path, "stranger")
    config = quiet(
        [ReplicaConfig("secure", grpc=proxy.address)], tls=TlsConfig(ca_file=stranger.ca)
    )
    async with AsyncModerationClient(config) as client:
        with pytest.raises(MisconfiguredError):
            await client.classify(["spam"])


async def test_certificates_are_exchanged_without_a_restart(
    pair: list[ReplicaConfig],
    proxy_for: Callable[..., FaultProxy],
    authority: Authority,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The server's authority changes; the client's file is replaced; calls go on."""
    proxy = proxy_for(pair[0], ssl_context=server_context(authority, wants_client=False))
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(authority.ca.read_bytes())
    config = quiet(
        [ReplicaConfig("secure", grpc=proxy.address)],
        tls=TlsConfig(ca_file=trusted, check_files_every_s=0.02),
        health=HealthConfig(every_s=0.02, down_every_s=0.02),
    )
    async with AsyncModerationClient(config) as client:
        await client.classify(["text"])
        before = proxy.accepted
        renewed = Authority(tmp_path, "new")
        # Half written: whoever exchanges it is not done yet.
        caplog.clear()
        trusted.write_bytes(renewed.ca.read_bytes()[:200])
        await until(lambda: "not usable yet" in caplog.text)
        trusted.unlink()
        caplog.clear()
        await until(lambda: "not usable yet" in caplog.text)
        await client.classify(["text"])
        assert proxy.accepted == before
        trusted.write_bytes(authority.ca.read_bytes() + renewed.ca.read_bytes())
        await until(lambda: proxy.accepted > before)
        await client.classify(["text"])
        await until(lambda: proxy.open_connections == 1)


def test_load_of_a_server_is_read_from_its_metrics() -> None:
    page = """# HELP nv_cpu_utilization CPU utilization rate [0.0 - 1.0]
# TYPE nv_cpu_utilization gauge
nv_cpu_utilization 0.25
nv_cpu_memory_total_bytes 8000
nv_cpu_memory_used_bytes 2000
nv_gpu_utilization{gpu_uuid="a"} 0.5
nv_gpu_utilization{gpu_uuid="b"} 0.75
nv_gpu_memory_total_bytes{gpu_uuid="a"} 100
nv_gpu_memory_total_bytes{gpu_uuid="b"} 300
nv_gpu_memory_used_bytes{gpu_uuid="a"} 100
nv_gpu_memory_used_bytes{gpu_uuid="b"} 100
"""
    assert server_load(page) == ServerLoad(0.25, 0.25, 0.75, 0.5)
    assert server_load("nv_inference_count 3") == ServerLoad()
