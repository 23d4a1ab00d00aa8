"""What the supervisor needs to know of a child."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from moderation_site.local.probes import Probe

LAUNCHER = Path(__file__).resolve().with_name("launch.py")


@dataclass(frozen=True)
class RunAs:
    """The user a child runs as, when the supervisor is root.

    Attributes:
        search: Keep the right to pass through folders that are closed to this user.
    """

    uid: int
    gid: int
    search: bool


@dataclass(frozen=True)
class Program:
    """One child of the supervisor.

    Attributes:
        argv: Command line; the first item is an absolute path.
        probe: Tells whether the child answers.
        env: Variables added to the supervisor's own.
        stop_signal: Asks for an orderly end.
        last_words: What it prints when it has crashed, which may leave it hanging, its ports open.
        orphan_signal: Sent when the supervisor dies without a word.
        before_start: Clears what a killed predecessor left (lock files, shared memory).
        after_stop: Clears what the child itself leaves.
    """

    name: str
    argv: Sequence[str]
    probe: Probe
    env: Mapping[str, str] = field(default_factory=dict)
    run_as: RunAs | None = None
    ready_timeout_s: float = 60.0
    stop_signal: signal.Signals = signal.SIGTERM
    stop_timeout_s: float = 15.0
    last_words: re.Pattern[bytes] | None = None
    orphan_signal: signal.Signals = signal.SIGKILL
    before_start: Callable[[], None] = lambda: None
    after_stop: Callable[[], None] = lambda: None


def launch_line(
    argv: Sequence[str], run_as: RunAs | None, orphan_signal: signal.Signals = signal.SIGKILL
) -> list[str]:
    """A command line that becomes `argv` as `run_as`, its life tied to the calling thread's."""
    order = {
        "argv": list(argv),
        "run_as": None if run_as is None else asdict(run_as),
        "parent": os.getpid(),
        "orphan_signal": int(orphan_signal),
    }
    return [sys.executable, "-I", "-S", str(LAUNCHER), json.dumps(order)]
