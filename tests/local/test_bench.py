"""`manage.py bench` runs before Django has settings, and prints so that it can be read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import StringIO

from rich.console import Console

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


def printed(rows: list[dict[str, object]]) -> str:
    into = StringIO()
    command.show(Console(width=80, file=into), {"rows": rows})
    return into.getvalue()


def test_every_figure_can_be_read_on_a_narrow_terminal() -> None:
    rows: list[dict[str, object]] = [
        {f"figure_{n}": 1000 * trial + n for n in range(18)} for trial in range(9)
    ]
    lines = printed(rows)
    for row in rows:
        for name, value in row.items():
            assert re.search(rf"\b{name}\b.*\b{value}\b", lines)


def test_rows_that_fit_stand_side_by_side() -> None:
    lines = printed([{"batch": 1, "way": "ours"}, {"batch": 16, "way": "bare"}])
    assert re.search(r"batch.*way", lines)
    assert re.search(r"16.*bare", lines)
