"""Becomes one child of the supervisor: drops rights, ties its life to its parent's, execs.

Run by path with `python -I -S`, so it starts in milliseconds; it imports nothing of ours.
Doing this in a program of its own, not in `preexec_fn`, is safe in a process with threads.
"""

import ctypes
import json
import os
import signal
import sys
from typing import Any

PR_SET_PDEATHSIG, PR_SET_KEEPCAPS = 1, 8
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 47, 2
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
CAPABILITY_VERSION_3 = 0x20080522


def main() -> None:
    order: dict[str, Any] = json.loads(sys.argv[1])
    if order["run_as"] is not None:
        drop_rights(**order["run_as"])
    # After the change of user: that clears the signal.
    if sys.platform == "linux":
        die_with_parent(order["parent"], order["orphan_signal"])
    os.execve(order["argv"][0], order["argv"], os.environ)  # noqa: S606 (our own command line)


def die_with_parent(parent: int, orphan_signal: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    check(libc.prctl(PR_SET_PDEATHSIG, orphan_signal, 0, 0, 0))
    if os.getppid() != parent:  # it died before the line above
        signal.raise_signal(signal.SIGKILL)


def drop_rights(uid: int, gid: int, search: bool) -> None:
    """Becomes `uid`; with `search` it may still pass through folders closed to others.

    PostgreSQL refuses to run as root. A data folder under a home that only root may enter
    would be out of its reach, and opening that home to everybody is not ours to do.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    capability = searching_capability() if search else None
    if capability is not None:
        check(libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if capability is not None:
        keep_capability(libc, capability)


def searching_capability() -> int | None:
    with open("/proc/self/status", encoding="ascii") as status:
        permitted = next(int(line.split()[1], 16) for line in status if line.startswith("CapPrm"))
    for capability in (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE):
        if permitted >> capability & 1:
            return capability
    return None


def keep_capability(libc: ctypes.CDLL, capability: int) -> None:
    mask = 1 << capability
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)
    check(libc.capset(header, sets))
    check(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0))


def check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main()
