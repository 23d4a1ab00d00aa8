"""One of two real replicas is killed under load: operators see it go, why, and come back."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import Role
from moderation_site.local.servers_process import ServersProcess
from tests.e2e.conftest import Processes, SignIn
from tests.e2e.test_operate import Backend, link, row

A_REQUEST = 20


@pytest.fixture
def replicas(make_triton: Callable[..., ServersProcess]) -> ServersProcess:
    return make_triton(replicas=2)


@pytest.fixture
def pipeline_on_two(processes: Processes, replicas: ServersProcess) -> Processes:
    """A worker whose replicas are the two, and beat."""
    processes.environment["TRITON_REPLICAS"] = ",".join(
        f"{each['name']}={each['grpc']}:{each['http'].rpartition(':')[2]}"
        f":{each['metrics'].rpartition(':')[2]}"
        for each in replicas.ready()["triton"]
    )
    celery, quiet = ("celery", "-A", "moderation_site"), ("--loglevel", "WARNING")
    processes.start("worker", *celery, "worker", "-Q", "scoring,default", *quiet)
    schedule = str(processes.folder / "schedule")
    processes.start("beat", *celery, "beat", "--schedule", schedule, *quiet)
    return processes


@pytest.fixture
def backend(own_site: str) -> Backend:
    return Backend(own_site)


@pytest.fixture
def load(backend: Backend) -> Iterator[None]:
    """Messages all the time: each request when the last is answered."""
    is_over = threading.Event()
    failures: list[httpx.HTTPError] = []

    def send() -> None:
        try:
            for number in itertools.count():
                if is_over.wait(0.05):
                    return
                backend.send(*(f"load {number} of many, line {line}" for line in range(A_REQUEST)))
        except httpx.HTTPError as error:  # told below, in the test's own thread
            failures.append(error)

    sending = threading.Thread(target=send)
    sending.start()
    yield
    is_over.set()
    sending.join()
    assert failures == []


def replica_row(page: Page, name: str) -> Any:
    return page.locator("#op-replicas tbody tr", has_text=name)


def test_a_killed_replica_is_seen_to_go_and_to_come_back(
    pipeline_on_two: Processes,
    replicas: ServersProcess,
    backend: Backend,
    load: None,
    sign_in: SignIn,
) -> None:
    page = sign_in(Role.ADMIN)
    page.goto("/operate/")
    expect(link(page)).to_contain_text("Live")
    for name in ("triton-1", "triton-2"):
        expect(replica_row(page, name)).to_contain_text("ready")

    os.kill(replicas.ready()["pids"]["triton-1"], signal.SIGKILL)
    gone = replica_row(page, "triton-1")
    expect(gone.locator("td").nth(1)).to_contain_text("open")
    expect(gone.locator("td").nth(1)).to_contain_text("no answer to health checks")
    expect(page.locator("#op-banner")).to_contain_text("triton-1")
    # The other one judges on.
    backend.send("said while one of the two is away")
    expect(row(page, "said while one of the two is away")).to_contain_text("model")

    # The supervisor starts it again. States too short for a look are on the time line.
    page.get_by_text("Events in this window").click()
    events = page.locator("[data-list] li")
    for state in ("open", "half-open", "ramping up", "closed"):
        expect(events.filter(has_text=f"triton-1 {state}").first).to_be_visible()
    expect(replica_row(page, "triton-1")).to_contain_text("ready")
    expect(page.locator("#op-banner .banner")).to_have_count(0)
    order = [words for words in reversed(events.all_inner_texts()) if "triton-1" in words]
    steps = ("triton-1 open", "triton-1 half-open", "triton-1 ramping up", "triton-1 closed")
    places = [next(i for i, words in enumerate(order) if step in words) for step in steps]
    assert places == sorted(places)
