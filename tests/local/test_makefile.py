"""What `make` says when the machine lacks what it needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from moderation_site.local.triton_env import PROJECT


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    shutil.copy(PROJECT / "Makefile", tmp_path)
    shutil.copytree(PROJECT / "requirements", tmp_path / "requirements")
    return tmp_path


def make(clone: Path, python: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "venv", f"PYTHON={python}"],
        cwd=clone,
        capture_output=True,
        text=True,
        check=False,
    )


def pretend_python(folder: Path, refused: str) -> Path:
    """A Python that fails at every one-liner in which `refused` stands."""
    script = folder / "python"
    script.write_text(
        f'#!/bin/sh\ncase "$2" in *{refused}*) exit 1;; esac\nexec {sys.executable} "$@"\n'
    )
    script.chmod(0o755)
    return script


@pytest.mark.parametrize(
    ("refused", "sentence"),
    [
        ("version_info", "Python 3.11, 3.12 or 3.13 is needed: install one, or name it with"),
        ("ensurepip", "cannot make environments: install its venv package (Debian, Ubuntu:"),
    ],
)
def test_a_python_that_does_not_do_is_refused_with_the_way_out(
    clone: Path, refused: str, sentence: str
) -> None:
    done = make(clone, pretend_python(clone, refused))
    assert done.returncode != 0
    [said] = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert sentence in said
    assert not (clone / ".venv").exists()


def test_the_target_list_explains_every_target_for_people() -> None:
    done = subprocess.run(["make", "help"], cwd=PROJECT, capture_output=True, text=True, check=True)
    listed = {line.split()[0] for line in done.stdout.splitlines()}
    assert {"up", "test", "check", "venv", "lock", "browser"} <= listed
