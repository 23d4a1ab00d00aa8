"""The data folder: its layout, its lock, its secrets."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from moderation_site.local.errors import StackError, is_full
from moderation_site.local.ports import free_ports, is_free

# sun_path holds 108 bytes on Linux and 104 on macOS, the closing zero included.
MAX_SOCKET_PATH_BYTES = 103
# An empty cluster takes 40 MB, its write-ahead log grows at once.
LEAST_FREE_BYTES = 128 * 1024**2
SOCKET_NAME = ".s.PGSQL.5432.lock"  # the longest name PostgreSQL makes beside its socket


class DataDir:
    """Where one stack keeps everything; two stacks have two."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().resolve()
        self.stack_id = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:12]
        self.postgres = self.path / "postgres"
        self.redis = self.path / "redis"
        self.triton = self.path / "triton"
        self.log = self.path / "log"

    def create(self) -> None:
        """Makes the folders.

        Raises:
            StackError: The folder can't be written.
        """
        for folder in (self.path, self.redis, self.triton, self.log):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StackError(
                    f"The data folder {self.path} cannot be made: {error.strerror}; "
                    "choose another with --data-dir."
                ) from error
        if is_full(self.path, LEAST_FREE_BYTES):
            raise StackError(
                f"The disk that holds {self.path} is full (less than "
                f"{LEAST_FREE_BYTES // 1024**2} MB are left): make room, or choose another "
                "--data-dir."
            )
        # PostgreSQL may run as another user than root and must pass through; the files are closed.
        self.path.chmod(0o711)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Holds the folder against a second stack; the kernel drops it with the process."""
        path = self.path / "lock"
        with path.open("a+", encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip() or "unknown"
                raise StackError(
                    f"A stack already runs in {self.path} (process {holder}); "
                    "stop it, or choose another folder with --data-dir."
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            try:
                yield
            finally:
                path.unlink(missing_ok=True)

    def socket_dir(self) -> Path:
        """A folder for sockets, short enough for the kernel."""
        inside, outside = self.path / "run", self._outside("")
        if _fits_socket(inside):
            return inside
        if not _fits_socket(outside):
            raise StackError(
                f"The path of {self.path} is too long for a socket, and so is that of the "
                "temporary folder: choose a shorter --data-dir or set TMPDIR."
            )
        return outside

    def plain_dir(self) -> Path:
        """A folder whose path a shell takes as one word: Triton starts its stubs without quotes."""
        if is_plain(self.triton):
            return self.triton
        outside = self._outside("-triton")
        if not is_plain(outside):
            raise StackError(
                "Triton cannot work below a path with spaces, and the temporary folder has one "
                "too: set TMPDIR to a folder without."
            )
        own_folder(outside)
        return outside

    def outside_dirs(self) -> list[Path]:
        """Folders that may lie outside the data folder while a stack runs."""
        return [self._outside(""), self._outside("-triton")]

    def remove_outside_dirs(self) -> None:
        """Removes them at the end of a run."""
        for folder in self.outside_dirs():
            shutil.rmtree(folder, ignore_errors=True)

    def _outside(self, suffix: str) -> Path:
        return Path(tempfile.gettempdir()) / f"chatwarden-{os.getuid()}-{self.stack_id}{suffix}"

    def ports(self, count: int) -> list[int]:
        """Free ports: those of the last run when they still are."""
        path = self.path / "ports.json"
        try:
            kept: list[int] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            kept = []
        if len(kept) < count or not all(is_free("127.0.0.1", port) for port in kept[:count]):
            kept = free_ports(count)
            write_private(path, json.dumps(kept))
        return kept[:count]

    def secrets(self, names: tuple[str, ...]) -> Mapping[str, str]:
        """Random secrets by name, made once and kept in a file only its owner may read."""
        path = self.path / "secrets.json"
        try:
            kept: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            kept = {}
        missing = [name for name in names if name not in kept]
        if missing:
            kept |= {name: secrets.token_hex(16) for name in missing}
            write_private(path, json.dumps(kept, indent=2))
        return kept

    def keep_secret(self, name: str, value: str) -> None:
        """Keeps a secret that was made elsewhere."""
        kept = dict(self.secrets(()))
        if kept.get(name) != value:
            write_private(self.path / "secrets.json", json.dumps(kept | {name: value}, indent=2))


def _fits_socket(folder: Path) -> bool:
    return len(os.fsencode(folder / SOCKET_NAME)) <= MAX_SOCKET_PATH_BYTES


def is_plain(path: Path) -> bool:
    """Whether a shell takes the path as one word."""
    return shlex.quote(str(path)) == str(path)


def own_folder(path: Path) -> None:
    """Makes a folder in a place shared with others, closed to them.

    Raises:
        StackError: Somebody else made it first.
    """
    path.mkdir(mode=0o700, exist_ok=True)
    if path.is_symlink() or path.stat().st_uid != os.geteuid():
        raise StackError(f"{path} belongs to somebody else: remove it, or set TMPDIR.")


def write_private(path: Path, text: str) -> None:
    """Writes a file only its owner may read, whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
