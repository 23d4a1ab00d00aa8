"""A running product for a benchmark: the one it was told of, or one of its own, gone afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import psutil

from moderation_site.local.ports import free_ports

PROJECT = Path(__file__).resolve().parent.parent
START_WITHIN_S = 600.0


@contextlib.contextmanager
def running_stack(
    ready_file: Path | None, *arguments: str, **settings: str
) -> Iterator[dict[str, Any]]:
    """The content of a ready file; without one, `manage.py up` runs during the block.

    `ready_file` is among it, since it is written anew whenever a process was restarted.
    """
    if ready_file is not None:
        yield read_ready(ready_file)
        return
    with tempfile.TemporaryDirectory(prefix="bench-stack-") as folder:
        yield from _own_stack(Path(folder), arguments, settings)


def read_ready(path: Path) -> dict[str, Any]:
    """What the ready file says now."""
    return {**json.loads(path.read_text(encoding="utf-8")), "ready_file": path}


def _own_stack(
    folder: Path, arguments: tuple[str, ...], settings: dict[str, str]
) -> Iterator[dict[str, Any]]:
    ready, log = folder / "ready.json", folder / "up.log"
    # One that `up` makes itself; what the caller's environment says of other stacks is not for it.
    ours = {"DATABASE_URL", "REDIS_URL", "TRITON_REPLICAS"}
    inherited = {name: value for name, value in os.environ.items() if name not in ours}
    environment = {**inherited, **settings}
    port = str(free_ports(1)[0])
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, str(PROJECT / "manage.py"), "up", "--port", port),
                *("--data-dir", str(folder / "data"), "--ready-file", str(ready), *arguments),
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            _wait_for(ready, process, log)
            yield read_ready(ready)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _wait_for(ready: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    until_s = time.monotonic() + START_WITHIN_S
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > until_s:
            raise SystemExit(f"The stack did not start:\n{log.read_text(encoding='utf-8')[-3000:]}")
        time.sleep(0.2)


class CpuMeter:
    """CPU seconds of each of the stack's processes, children included."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._before = self._read()

    def spent_s(self) -> dict[str, float]:
        """Since the start of this meter, by the process's name in the ready file."""
        spent: Counter[str] = Counter()
        for (name, _), seconds in self._read().items():
            spent[name] += seconds  # type: ignore[assignment]
        for (name, _), seconds in self._before.items():
            spent[name] -= seconds  # type: ignore[assignment]
        return {name: round(seconds, 2) for name, seconds in sorted(spent.items())}

    def _read(self) -> dict[tuple[str, int], float]:
        seconds: dict[tuple[str, int], float] = {}
        named = {pid: name for name, pid in self._pids.items()}
        for pid, name in named.items():
            for process in _own_family(pid, others=named.keys() - {pid}):
                with contextlib.suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    # And of its children that have ended: PostgreSQL has one a connection.
                    seconds[name, process.pid] = sum(times[:4])
        return seconds


def _own_family(pid: int, others: Set[int]) -> Iterator[psutil.Process]:
    """The process and its descendants, but for those that have a name of their own."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        yield process
        for child in process.children():
            if child.pid not in others:
                yield from _own_family(child.pid, others)
