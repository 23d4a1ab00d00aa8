"""`manage.py bench` runs before Django has settings."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks import command
from moderation_site.local.triton_env import PROJECT


def test_every_benchmark_can_be_asked_for_help_without_settings() -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"SECRET_KEY", "DJANGO_SETTINGS_MODULE", "DATABASE_URL", "REDIS_URL"}
    }
    asked = subprocess.run(
        [sys.executable, "manage.py", "bench", "--help"],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    names = command.names()
    assert "chaos" in names
    assert all(name in asked.stdout for name in names)
