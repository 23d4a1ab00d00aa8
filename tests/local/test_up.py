"""`manage.py up`, whole: from an empty folder to a verdict, through kills, and back to nothing."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from moderation_site.local.datadir import DataDir
from moderation_site.local.joining import left_in
from moderation_site.local.ports import free_ports
from moderation_site.local.triton import SHARED_MEMORY
from moderation_site.local.triton_env import PROJECT

PATIENCE_S = 240.0
POLL_S = 0.1
# pytest-timeout's limit is for a test, and the first one here starts a whole product.
pytestmark = pytest.mark.timeout(600)
REPLACED = {
    "DATABASE_URL",
    "REDIS_URL",
    "REDIS_PREFIX",
    "TRITON_REPLICAS",
    "SECRET_KEY",
    "DATA_DIR",
}


class Product:
    """One `manage.py up`."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.ready_file = folder / "ready.json"
        self._port = port
        self._numbers = itertools.count()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> dict[str, Any]:
        argv = [
            *(sys.executable, "manage.py", "up", "--port", str(self._port)),
            *("--data-dir", str(self.folder / "data"), "--ready-file", str(self.ready_file)),
        ]
        environment = {name: value for name, value in os.environ.items() if name not in REPLACED}
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                argv, cwd=PROJECT, env=environment, stdout=output, stderr=output
            )
        wait_until(lambda: self.ready_file.exists() or self.process_ended(), "ready")
        return self.ready()

    def process_ended(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None

    def ready(self) -> dict[str, Any]:
        assert self.ready_file.exists(), (self.folder / "output").read_text()
        content: dict[str, Any] = json.loads(self.ready_file.read_text())
        return content

    def output(self) -> str:
        return (self.folder / "output").read_text()

    def family(self) -> list[psutil.Process]:
        assert self.process is not None
        supervisor = psutil.Process(self.process.pid)
        return [supervisor, *supervisor.children(recursive=True)]

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE_S)

    def call(self, method: str, path: str, body: object = None) -> httpx.Response:
        ready = self.ready()
        return httpx.request(
            method,
            ready["url"] + path,
            json=body,
            headers={"Authorization": f"Bearer {ready['api_key']}"},
            timeout=10,
        )

    def send(self, text: str) -> str:
        """The id of a stored message; repeats its key until it is accepted."""
        body = {
            "group": "up",
            "external_id": f"up-{next(self._numbers)}",
            "sender": {"id": "ann"},
            "text": text,
        }
        answers: list[httpx.Response] = []

        def accepted() -> bool:
            try:
                answers.append(self.call("POST", "/api/v1/messages", body))
            except httpx.TransportError:
                return False
            return answers[-1].is_success

        wait_until(accepted, "the message is stored")
        return str(answers[-1].json()["id"])

    def wait_for_verdict(self, message_id: str) -> dict[str, Any]:
        verdicts: list[dict[str, Any]] = []

        def decided() -> bool:
            try:
                message = self.call("GET", f"/api/v1/messages/{message_id}").json()
            except httpx.TransportError:
                return False
            if message.get("status") == "decided":
                verdicts.append(message["verdict"])
            return bool(verdicts)

        wait_until(decided, "the message is decided")
        return verdicts[0]


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, f"not within {PATIENCE_S:.0f} s: {what}"
        time.sleep(POLL_S)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    [port] = free_ports(1)
    made = Product(tmp_path_factory.mktemp("a path with spaces"), port)
    made.start()
    yield made
    if not made.process_ended():
        made.stop()


def test_the_ready_file_says_everything_and_only_to_its_owner(product: Product) -> None:
    ready = product.ready()
    assert set(ready) == {
        *("url", "admin", "moderator", "api_key"),
        *("database_url", "redis_url", "triton", "pids"),
    }
    assert set(ready["admin"]) == set(ready["moderator"]) == {"username", "password"}
    assert [set(replica) for replica in ready["triton"]] == [{"name", "grpc", "http", "metrics"}]
    assert set(ready["pids"]) == {
        *("up", "postgres", "redis", "triton-1"),
        *("web", "worker", "beat"),
    }
    assert product.ready_file.stat().st_mode & 0o077 == 0


def test_the_printed_lines_name_the_address_and_the_ways_in(product: Product) -> None:
    ready, output = product.ready(), product.output()
    for shown in (ready["url"], ready["admin"]["password"], ready["api_key"]):
        assert shown in output


def run_command(data_dir: Path, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    of_tests = {"DJANGO_SETTINGS_MODULE", *REPLACED}
    environment = {name: value for name, value in os.environ.items() if name not in of_tests}
    return subprocess.run(
        [sys.executable, "manage.py", *argv],
        cwd=PROJECT,
        env={**environment, "DATA_DIR": str(data_dir)},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_command_beside_it_finds_its_database(product: Product) -> None:
    data_dir = product.folder / "data"
    done = run_command(
        data_dir,
        *("set_user", "ann", "--role", "lead", "--password-stdin"),
        stdin="a long sentence for ann\n",
    )
    assert (done.returncode, done.stdout) == (0, "ann is Lead moderator.\n"), done.stderr
    assert left_in(DataDir(data_dir)).stat().st_mode & 0o077 == 0


def test_a_command_with_no_stack_beside_it_is_told_what_to_do(tmp_path: Path) -> None:
    done = run_command(tmp_path, "set_user", "ann")
    assert done.returncode == 1
    assert "SECRET_KEY is not set" in done.stderr
    assert "make up" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_message_comes_back_with_a_verdict_of_the_model(product: Product) -> None:
    verdict = product.wait_for_verdict(product.send("See you at the station at six"))
    assert verdict["label"] in {"ok", "spam", "toxic", "ad"}
    assert verdict["source"] == "model"


def test_a_second_stack_on_the_same_port_is_refused_in_one_sentence(product: Product) -> None:
    port = product.ready()["url"].rsplit(":", 1)[1]
    other = product.folder / "other"
    done = subprocess.run(
        [sys.executable, "manage.py", "up", "--port", port, "--data-dir", str(other)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (done.stdout + done.stderr).strip().startswith(f"Port {port} is in use on 127.0.0.1")
    assert not other.exists()


@pytest.mark.parametrize("name", ["postgres", "redis", "triton-1", "worker", "web", "beat"])
def test_a_killed_process_comes_back_and_verdicts_go_on(product: Product, name: str) -> None:
    before = product.ready()["pids"]
    os.kill(before[name], signal.SIGKILL)
    message_id = product.send(f"Sent when {name} was gone")
    wait_until(lambda: product.ready()["pids"].get(name, before[name]) != before[name], name)
    product.wait_for_verdict(message_id)
    after = product.ready()["pids"]
    # A worker that stays deaf after Redis was gone starts anew by itself (see its `_watch`).
    may_follow = {"worker"} if name == "redis" else set()
    assert {key for key in before if before[key] != after[key]} - may_follow == {name}


def test_it_stops_without_a_trace_and_starts_again_with_what_was_stored(product: Product) -> None:
    first = product.ready()
    message_id = product.send("Kept over a restart")
    product.wait_for_verdict(message_id)
    family = product.family()
    assert product.stop() == 0
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []
    assert not product.ready_file.exists()
    assert not (product.folder / "data" / "lock").exists()
    assert not left_in(DataDir(product.folder / "data")).exists()
    assert not (product.folder / "data" / "postgres" / "postmaster.pid").exists()

    again = product.start()
    assert [again[key] for key in ("admin", "moderator", "api_key")] == [
        first[key] for key in ("admin", "moderator", "api_key")
    ]
    product.wait_for_verdict(message_id)


def test_nothing_is_left_after_it_is_killed_itself(product: Product) -> None:
    assert product.process is not None
    family = product.family()
    product.process.kill()
    product.process.wait()
    _, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []
    assert not product.ready_file.exists()
    assert len(family) > 8  # the servers, their helpers and the warden were among them
    data_dir = DataDir(product.folder / "data")
    assert list(SHARED_MEMORY.glob(f"*{data_dir.stack_id}*")) == []
    assert not any(folder.exists() for folder in data_dir.outside_dirs())
    assert not left_in(data_dir).exists()

    product.start()
    assert product.stop() == 0
