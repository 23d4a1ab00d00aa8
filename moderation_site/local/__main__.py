"""Runs the three servers alone: `python -m moderation_site.local --data-dir DIR`.

With a command behind `--`, runs it against them, stops them and exits as it did. Otherwise prints
`export` lines for DATABASE_URL, REDIS_URL and TRITON_REPLICAS when all answer, and runs until
SIGTERM or Ctrl-C. For development and tests; `manage.py up` runs the whole product.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from moderation_site.local.datadir import DataDir, write_private
from moderation_site.local.errors import StackError
from moderation_site.local.run import run_until_stopped
from moderation_site.local.servers import Servers, plan_servers
from moderation_site.local.supervisor import Event, Supervisor, end_leftovers

EVERYTHING = frozenset({"postgres", "redis", "triton"})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m moderation_site.local", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--replicas", type=int, default=1, help="Triton servers (default: 1)")
    parser.add_argument("--no-triton", action="store_true", help="PostgreSQL and Redis only")
    parser.add_argument("--only", help="of postgres, redis and triton those to run: `triton,redis`")
    parser.add_argument("--ready-file", type=Path, help="JSON, written when all answer")
    parser.add_argument("--stop-with", type=int, metavar="PID", help="stop when that process ends")
    parser.add_argument("command", nargs="*", help="run this against the servers, then stop them")
    options = parser.parse_args()
    try:
        return run_until_stopped(serve(options), stop_with=options.stop_with)
    except StackError as error:
        print(error, file=sys.stderr)  # noqa: T201 (the one clear sentence)
        return 1


async def serve(options: argparse.Namespace) -> int:
    data_dir = DataDir(options.data_dir)
    data_dir.create()
    wanted = frozenset(options.only.split(",")) if options.only else EVERYTHING
    if options.no_triton:
        wanted -= {"triton"}
    with data_dir.lock():
        end_leftovers(data_dir.stack_id)
        servers = plan_servers(data_dir, replicas=options.replicas, given=os.environ, wanted=wanted)
        try:
            return await run_servers(servers, options.ready_file, options.command)
        finally:
            servers.clean_up()


async def run_servers(servers: Servers, ready_file: Path | None, command: list[str]) -> int:
    data_dir = servers.data_dir
    programs = servers.prepare(say)
    async with Supervisor(
        stack_id=data_dir.stack_id,
        log_dir=data_dir.log,
        report=report,
        litter=servers.litter(ready_file),
    ) as supervisor:
        await supervisor.start(programs)
        servers.finish()
        if command:
            return await run_command(command, servers.environment)
        with announced(ready_file, servers, supervisor):
            await supervisor.run()
    return 0


async def run_command(command: list[str], environment: Mapping[str, str]) -> int:
    process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **environment})
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


@contextlib.contextmanager
def announced(ready_file: Path | None, servers: Servers, supervisor: Supervisor) -> Iterator[None]:
    """Says where the servers answer, on the output and in the ready file, while it is so."""

    def write() -> None:
        if ready_file is not None:
            write_private(ready_file, json.dumps(describe(servers, supervisor), indent=2))

    write()
    supervisor.on_restart = write
    for name, value in servers.environment.items():
        print(f"export {name}={shlex.quote(value)}", flush=True)  # noqa: T201 (read by a shell)
    try:
        yield
    finally:
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)


def describe(servers: Servers, supervisor: Supervisor) -> dict[str, object]:
    environment = servers.environment
    return {
        "database_url": environment.get("DATABASE_URL"),
        "redis_url": environment.get("REDIS_URL"),
        "triton": [replica.as_ready_item() for replica in servers.triton],
        "triton_replicas": environment["TRITON_REPLICAS"],
        "pids": supervisor.pids,
    }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 (progress)


def report(event: Event) -> None:
    say(f"{event.name}: {event.kind}{' ' + event.detail if event.detail else ''}")


if __name__ == "__main__":
    sys.exit(main())
