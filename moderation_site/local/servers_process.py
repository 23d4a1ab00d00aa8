"""The servers of one data folder in a process of their own: for tests and benchmarks."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from moderation_site.local.datadir import DataDir
from moderation_site.local.errors import StackError
from moderation_site.local.servers import plan_servers
from moderation_site.local.triton_env import PROJECT

START_TIMEOUT_S = 300.0  # a first start makes Triton's environment
POLL_S = 0.05


@dataclass(frozen=True)
class ServersProcess:
    """`python -m moderation_site.local` on `folder`, started when it is first needed.

    Safe to start from several processes at once: one starts it, the others wait.

    Attributes:
        only: Of `postgres`, `redis` and `triton`, those to run.
        stop_with: The servers stop when this process ends, however it ends.
        settings: Variables for the process, `MODEL_REPOSITORY` say.
    """

    folder: Path
    only: frozenset[str]
    replicas: int = 1
    stop_with: int = field(default_factory=os.getpid)
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def ready_file(self) -> Path:
        return self.folder / "ready.json"

    def plan(self) -> dict[str, str]:
        """The variables under which the servers will answer; nothing is started."""
        data_dir = DataDir(self.folder)
        data_dir.create()
        return plan_servers(
            data_dir, replicas=self.replicas, given={}, wanted=self.only
        ).environment

    def start(self) -> dict[str, Any]:
        """Starts the servers unless they run, and returns the ready file's content.

        Raises:
            StackError: They could not start; the sentence is theirs.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "starting").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not self.ready_file.exists():
                self._wait_until_ready(self._spawn())
        return self.ready()

    def ready(self) -> dict[str, Any]:
        """Where the servers answer and which processes they are, as of now."""
        content: dict[str, Any] = json.loads(self.ready_file.read_text(encoding="utf-8"))
        return content

    def stop(self) -> None:
        """Stops the servers in order and waits until they are gone."""
        try:
            process = psutil.Process(int((self.folder / "lock").read_text(encoding="ascii")))
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=90)
        except (FileNotFoundError, psutil.NoSuchProcess):
            return  # they never ran, or are gone

    def _spawn(self) -> int:
        argv = [
            *(sys.executable, "-m", "moderation_site.local", "--data-dir", str(self.folder)),
            *("--only", ",".join(sorted(self.only)), "--replicas", str(self.replicas)),
            *("--ready-file", str(self.ready_file), "--stop-with", str(self.stop_with)),
        ]
        replaced = {"DATABASE_URL", "REDIS_URL", "TRITON_REPLICAS"}
        inherited = {name: value for name, value in os.environ.items() if name not in replaced}
        environment = {**inherited, "PYTHONPATH": str(PROJECT), **self.settings}
        output = str(self.folder / "output.log")
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return os.posix_spawn(
            sys.executable,
            argv,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, output, append, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,  # a Ctrl-C at the tests stops them in our order, not at once
        )

    def _wait_until_ready(self, pid: int) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self.ready_file.exists():
            ended, _ = os.waitpid(pid, os.WNOHANG)
            if ended or time.monotonic() > deadline_s:
                said = (self.folder / "output.log").read_text(encoding="utf-8").splitlines()
                raise StackError(said[-1] if said else "The servers did not start.")
            time.sleep(POLL_S)


@contextlib.contextmanager
def running(process: ServersProcess) -> Iterator[dict[str, Any]]:
    """Runs the servers for the length of a `with` block."""
    try:
        yield process.start()
    finally:
        process.stop()
