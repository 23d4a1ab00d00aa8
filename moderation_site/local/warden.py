"""Kills what the supervisor leaves behind when it is killed itself.

It holds the reading end of a pipe whose other end only the supervisor has. `+ PID SIGNAL` notes a
process group, `- PID` forgets it; the end of the pipe means the supervisor is gone, and then every
group still noted gets its signal, and what matches the patterns on the command line is removed
(sockets and shared memory that lie outside the data folder). The parent-death signal set by
`launch.py` reaches a child but not the child's children; this does (Triton's python stubs).
"""

import contextlib
import glob
import os
import shutil
import signal
import sys


def main() -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    groups: dict[int, int] = {}
    for line in sys.stdin:
        match line.split():
            case ["+", pid, number]:
                groups[int(pid)] = int(number)
            case ["-", pid]:
                groups.pop(int(pid), None)
    for pid, orphan_signal in groups.items():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, orphan_signal)
    for pattern in sys.argv[1:]:
        for path in glob.iglob(pattern):
            remove(path)


def remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


if __name__ == "__main__":
    main()
