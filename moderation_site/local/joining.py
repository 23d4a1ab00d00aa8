"""Lets `manage.py` work on the stack that `up` runs, without a variable to set.

While `up` runs, its data folder holds the variables of its processes, readable by its owner only.
A command that was told of no database of its own takes them from there.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

from moderation_site.local.datadir import DataDir, write_private
from moderation_site.local.triton_env import PROJECT

# Whoever sets one of these means something else than the stack of this folder.
TOLD = ("DATABASE_URL", "DATABASE_URL_FILE", "SECRET_KEY", "SECRET_KEY_FILE")
KEPT = ("DATABASE_URL", "REDIS_URL", "TRITON_REPLICAS", "SECRET_KEY", "STATIC_ROOT", "DATA_DIR")


@contextlib.contextmanager
def environment_left(data_dir: DataDir, environment: Mapping[str, str]) -> Iterator[None]:
    """Keeps what `join` reads in the data folder, while the stack runs."""
    path = left_in(data_dir)
    write_private(path, json.dumps({name: environment[name] for name in KEPT}, indent=2))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def left_in(data_dir: DataDir) -> Path:
    """Where the variables of a running stack are."""
    return data_dir.path / "environment.json"


def join(environment: MutableMapping[str, str]) -> bool:
    """Adds the variables of the stack in `DATA_DIR` (default `.local`), if one runs there.

    Returns:
        Whether it did; False too when the environment names servers of its own.
    """
    if any(environment.get(name) for name in TOLD):
        return False
    data_dir = DataDir(Path(environment.get("DATA_DIR") or PROJECT / ".local"))
    try:
        left = json.loads(left_in(data_dir).read_text(encoding="utf-8"))
    except (FileNotFoundError, PermissionError):
        return False
    environment.update({name: value for name, value in left.items() if name not in environment})
    return True


def explain(error: Exception) -> str:
    """What a command says that has no settings: what is missing, and the usual way."""
    return (
        f"{error}\nOr run `make up` beside it, and commands find what they need; "
        "after `--data-dir DIR` set DATA_DIR to the same folder."
    )
