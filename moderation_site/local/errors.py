"""What can go wrong with the embedded stack."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path


class StackError(Exception):
    """The stack cannot go on; the message is one sentence for the person at the terminal."""


def sentence_for(error: OSError, folder: Path) -> str:
    """What a failed system call means to the person at the terminal."""
    where = error.filename if error.filename is not None else folder
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"The disk that holds {where} is full: make room, or choose another --data-dir."
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return f"{where} cannot be written ({error.strerror}): choose another --data-dir."
    return f"{where}: {error.strerror or error}."


def sentence_for_output(said: str, folder: Path) -> str | None:
    """What the end of a program means, when its last words or the disk tell."""
    # On a full disk even the words may be missing.
    if "No space left on device" in said or is_full(folder):
        return f"The disk that holds {folder} is full: make room, or choose another --data-dir."
    if "Read-only file system" in said:
        return f"{folder} cannot be written (read-only): choose another --data-dir."
    return None


def is_full(folder: Path, needed_bytes: int = 1024 * 1024) -> bool:
    """Whether less than `needed_bytes` are left on the disk of `folder`."""
    return shutil.disk_usage(folder).free < needed_bytes
