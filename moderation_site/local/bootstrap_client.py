"""Has `bootstrap.py` run by `manage.py up`, and keeps what it made."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from moderation_site.local.datadir import DataDir
from moderation_site.local.errors import StackError, sentence_for_output
from moderation_site.local.program import launch_line


@dataclass(frozen=True)
class Login:
    username: str
    password: str


@dataclass(frozen=True)
class Accounts:
    """Who may sign in after `up`, and the key for a chat backend."""

    admin: Login
    moderator: Login
    api_key: str


async def bootstrap(
    data_dir: DataDir, environment: Mapping[str, str], step: Callable[[str], None]
) -> Accounts:
    """Makes tables, static files, accounts and key in the database of `environment`.

    Raises:
        StackError: It could not; the whole output is in `log/bootstrap.log`.
    """
    kept = data_dir.secrets(("admin_password", "moderator_password"))
    admin = Login("admin", kept["admin_password"])
    moderator = Login("moderator", kept["moderator_password"])
    people = [vars(login) | {"role": login.username} for login in (admin, moderator)]
    order = json.dumps({"people": people, "api_key": kept.get("api_key")})
    api_key = await _run(data_dir, environment, order, step)
    data_dir.keep_secret("api_key", api_key)
    return Accounts(admin, moderator, api_key)


async def _run(
    data_dir: DataDir, environment: Mapping[str, str], order: str, step: Callable[[str], None]
) -> str:
    log = data_dir.log / "bootstrap.log"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *launch_line([sys.executable, "-m", "moderation_site.local.bootstrap"], None),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **environment},
        )
        try:
            facts = await _converse(process, order, step)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode != 0 or "api_key" not in facts:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or [""]
        known = sentence_for_output("\n".join(lines[-20:]), data_dir.path)
        raise StackError(
            known or f"The database could not be made ready: {lines[-1][:400]} (all of it: {log})"
        )
    return facts["api_key"]


async def _converse(
    process: asyncio.subprocess.Process, order: str, step: Callable[[str], None]
) -> dict[str, str]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(order.encode())
    process.stdin.close()
    facts: dict[str, str] = {}
    async for line in process.stdout:
        facts |= json.loads(line)
        if "step" in facts:
            step(facts.pop("step"))
    await process.wait()
    return facts
