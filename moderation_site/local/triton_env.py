"""The embedded Triton's own Python environment, made from `requirements/triton.lock`.

Its python stub crashes with NumPy 2, and the application should not be held back by that.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from moderation_site.local.errors import StackError

PROJECT = Path(__file__).resolve().parents[2]
LOCK = PROJECT / "requirements" / "triton.lock"
DEFAULT_FOLDER = PROJECT / ".venv-triton"
STAMP = ".locked"
# NumPy below 2 has no wheel for later ones.
NEWEST_PYTHON = (3, 12)
FITTING_PYTHON = ">=3.11,<3.13"
OTHERWISE = "set TRITON_REPLICAS to a Triton server of your own (docker-compose.yml has one)"


@dataclass(frozen=True)
class TritonEnvironment:
    """Where the parts of an installed nvidia-pytriton lie."""

    folder: Path
    version: str  # of its Python: "3.11"
    libpython_dir: str

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def site_packages(self) -> Path:
        return self.folder / "lib" / f"python{self.version}" / "site-packages"

    @property
    def distribution(self) -> Path:
        return self.site_packages / "pytriton" / "tritonserver"

    @property
    def server(self) -> Path:
        return self.distribution / "bin" / "tritonserver"

    @property
    def stub(self) -> Path:
        return (
            self.distribution / "python_backend_stubs" / self.version / "triton_python_backend_stub"
        )

    @property
    def library_path(self) -> str:
        """For LD_LIBRARY_PATH: the wheel's own libraries and the stub's libpython."""
        own = str(self.site_packages / "nvidia_pytriton.libs")
        return f"{own}:{self.libpython_dir}" if self.libpython_dir else own


def ensure_environment(folder: Path = DEFAULT_FOLDER) -> TritonEnvironment:
    """Makes the environment unless it is there and fits the lock. Takes seconds to minutes, once.

    Raises:
        StackError: No wheel for this platform, no Python that fits, no room, no right to write.
    """
    if sys.platform != "linux":
        raise StackError(f"There is no embedded Triton for {sys.platform}: {OTHERWISE}.")
    # Two stacks of one checkout share the environment: one makes it, the other waits.
    with LOCK.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_installed(folder):
            _install(folder)
            (folder / STAMP).write_text(_fingerprint(), encoding="ascii")
    return _inspect(folder)


def is_installed(folder: Path = DEFAULT_FOLDER) -> bool:
    """Whether the environment is there and fits the lock."""
    stamp = folder / STAMP
    return stamp.exists() and stamp.read_text(encoding="ascii") == _fingerprint()


def _fingerprint() -> str:
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()


def _install(folder: Path) -> None:
    python = _fitting_python()
    _uv("venv", "--quiet", "--clear", "--python", python, str(folder))
    _uv(
        *("pip", "install", "--quiet", "--no-deps", "--require-hashes"),
        *("--python", str(folder / "bin" / "python"), "-r", str(LOCK)),
    )


def _fitting_python() -> str:
    if sys.version_info[:2] <= NEWEST_PYTHON:
        return sys.executable
    # uv takes the first that runs (a version manager's shim may not), or fetches one.
    return FITTING_PYTHON


def _uv(*arguments: str) -> None:
    uv = Path(sysconfig.get_path("scripts")) / "uv"
    if not uv.exists():
        raise StackError(f"{uv} is missing: run `make venv`.")
    done = subprocess.run(  # noqa: S603 (our own command line)
        [str(uv), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return
    said = " ".join(line.strip() for line in done.stderr.splitlines() if line.strip())
    if "No space left" in said:
        raise StackError("The disk is full: the embedded Triton's environment needs 400 MB.")
    if "ermission denied" in said or "Read-only file system" in said:
        raise StackError(
            f"The embedded Triton's environment cannot be written to {DEFAULT_FOLDER}: "
            f"allow it, or {OTHERWISE}."
        )
    if "no wheel" in said.lower() or "no source distribution" in said.lower():
        raise StackError(f"There is no embedded Triton for this platform: {OTHERWISE}.")
    raise StackError(f"The embedded Triton's environment could not be made: {said[:600]}")


# Run by the environment's own Python: its version, and the folder of the shared libpython that the
# stub needs ("" when the loader finds it by itself, "missing" when there is none). Its own folders
# come first: a Python that is linked to that library has it loaded and finds it by name anywhere.
_QUESTION = """
import ctypes, os, sys, sysconfig
name = f"libpython{sys.version_info.major}.{sys.version_info.minor}.so.1.0"
def loads(path):
    try:
        ctypes.CDLL(path)
    except OSError:
        return False
    return True
folder = sysconfig.get_config_var("LIBDIR") or ""
near = os.path.join(sys.base_prefix, "lib")
print(f"{sys.version_info.major}.{sys.version_info.minor}")
found = (d for d in (folder, near) if loads(os.path.join(d, name)))
print(next(found, "" if loads(name) else "missing"))
"""


def _inspect(folder: Path) -> TritonEnvironment:
    done = subprocess.run(  # noqa: S603 (our own command line)
        [str(folder / "bin" / "python"), "-I", "-c", _QUESTION],
        capture_output=True,
        text=True,
        check=True,
        env={k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"},
    )
    version, libpython_dir = (done.stdout + "\n").split("\n")[:2]
    if libpython_dir == "missing":
        raise StackError(
            f"Triton needs Python's shared library: install libpython{version} "
            f"(Debian, Ubuntu: apt-get install libpython{version}), or {OTHERWISE}."
        )
    return TritonEnvironment(folder, version, libpython_dir)
