"""The embedded Triton's own environment, on machines whose first Python does not fit it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moderation_site.local import triton_env


def test_a_python_that_is_named_right_but_does_not_run_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version managers leave such ones in the path for every version they know of."""
    for name in ("python3.12", "python3.11"):
        shim = tmp_path / name
        shim.write_text("#!/bin/sh\nexit 127\n")
        shim.chmod(0o755)
    empty_lock = tmp_path / "triton.lock"
    empty_lock.write_text("# nothing\n")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(triton_env, "NEWEST_PYTHON", (3, 10))
    monkeypatch.setattr(triton_env, "LOCK", empty_lock)
    made = triton_env.ensure_environment(tmp_path / "made")
    assert made.version in ("3.11", "3.12")
