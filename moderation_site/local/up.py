"""`manage.py up`: the whole product on one machine, from one command."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import glob
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from moderation_site.local.bootstrap_client import Accounts, bootstrap
from moderation_site.local.datadir import DataDir, write_private
from moderation_site.local.display import Display
from moderation_site.local.errors import StackError, sentence_for
from moderation_site.local.joining import environment_left, left_in
from moderation_site.local.ports import require_free
from moderation_site.local.processes import demo_program, product_programs
from moderation_site.local.program import Program
from moderation_site.local.run import run_until_stopped
from moderation_site.local.servers import Servers, plan_servers
from moderation_site.local.supervisor import Supervisor, end_leftovers
from moderation_site.local.triton_env import PROJECT

DEFAULT_PORT = 8000
EVERYTHING = frozenset({"postgres", "redis", "triton"})
# Listening everywhere, yet asked for by an address.
ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (a table, not a bind)


@dataclass(frozen=True)
class Options:
    """What `up` was asked for."""

    host: str
    port: int
    data_dir: Path
    replicas: int
    workers: int
    web_processes: int
    demo: bool
    ready_file: Path | None

    @property
    def own_host(self) -> str:
        """The host under which this machine reaches the web process."""
        return ANY_HOST.get(self.host, self.host)

    @property
    def url(self) -> str:
        host = f"[{self.own_host}]" if ":" in self.own_host else self.own_host
        return f"http://{host}:{self.port}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `up`."""
    cores = os.cpu_count() or 1
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=port_number, default=DEFAULT_PORT, help="(%(default)s)")
    parser.add_argument(
        "--data-dir", type=Path, default=PROJECT / ".local", help="where all data lives (.local)"
    )
    parser.add_argument(
        "--replicas", type=count, default=1, help="Triton servers to run (%(default)s)"
    )
    parser.add_argument(
        "--workers",
        type=count,
        default=max(1, cores // 2),
        help="Celery workers (%(default)s)",
    )
    parser.add_argument(
        "--web-processes", type=count, default=max(1, min(4, cores // 2)), help="(%(default)s)"
    )
    parser.add_argument("--demo", action="store_true", help="keep sending made-up chat traffic")
    parser.add_argument(
        "--ready-file", type=Path, help="JSON with addresses and credentials, while all is ready"
    )


def count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def port_number(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError("must be a port from 1 to 65535")
    return number


def main(arguments: Sequence[str]) -> int:
    """Runs `manage.py up`; returns the exit code."""
    parser = argparse.ArgumentParser(prog="manage.py up", description=__doc__)
    add_arguments(parser)
    return run(Options(**vars(parser.parse_args(arguments))))


def run(options: Options) -> int:
    """Runs the stack until it is told to stop; a failure is one sentence and exit code 1."""
    display = Display()
    try:
        with display:
            return run_until_stopped(Stack(options, display).run())
    except StackError as error:
        display.fail(str(error))
    except OSError as error:
        display.fail(sentence_for(error, options.data_dir))
    return 1


class Stack:
    """One run of `up`."""

    def __init__(self, options: Options, display: Display) -> None:
        self._options = options
        self._display = display
        self._data_dir = DataDir(options.data_dir)

    async def run(self) -> int:
        """Starts everything, stays until cancelled, stops everything."""
        started_at_s = time.monotonic()
        require_free(self._options.host, self._options.port)
        ready_file = self._options.ready_file
        if ready_file is not None and not ready_file.expanduser().absolute().parent.is_dir():
            raise StackError(f"The folder of the ready file {ready_file} is not there: make it.")
        self._data_dir.create()
        with self._data_dir.lock():
            ended = end_leftovers(self._data_dir.stack_id)
            if ended:
                self._display.note(f"Ended {ended} processes that a killed run had left.")
            servers = plan_servers(
                self._data_dir,
                replicas=self._options.replicas,
                given=os.environ,
                wanted=EVERYTHING,
            )
            await servers.check_given()
            try:
                await self._run_all(servers, started_at_s)
            finally:
                servers.clean_up()
        return 0

    async def _run_all(self, servers: Servers, started_at_s: float) -> None:
        # In a thread: it waits for installers, and the display and Ctrl-C should stay alive.
        programs = await asyncio.to_thread(servers.prepare, self._display.step)
        async with Supervisor(
            stack_id=self._data_dir.stack_id,
            log_dir=self._data_dir.log,
            report=self._display.event,
            litter=[
                *servers.litter(self._options.ready_file),
                glob.escape(str(left_in(self._data_dir))),
            ],
        ) as supervisor:
            await supervisor.start(programs)
            servers.finish()
            environment = self._environment(servers)
            accounts = await bootstrap(self._data_dir, environment, self._display.step)
            await supervisor.start(self._product(environment))
            if self._options.demo:
                await supervisor.start(
                    [demo_program(environment, self._options.url, accounts.api_key)]
                )
            with (
                environment_left(self._data_dir, environment),
                self._announced(servers, supervisor, accounts, started_at_s),
            ):
                await supervisor.run()

    def _environment(self, servers: Servers) -> dict[str, str]:
        """The variables of the product's processes; what the caller has set wins."""
        secret = self._data_dir.secrets(("secret_key",))["secret_key"]
        own = {
            "SECRET_KEY": secret,
            "ALLOWED_HOSTS": ",".join(allowed_hosts(self._options.host)),
            "STATIC_ROOT": str(self._data_dir.path / "static"),
        }
        given = {name: os.environ[name] for name in own if os.environ.get(name)}
        return (
            own
            | given
            | {
                "DATA_DIR": str(self._data_dir.path),
                "DJANGO_SETTINGS_MODULE": "moderation_site.settings",
                "PYTHONPATH": os.pathsep.join(
                    [str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
                ),
            }
            | servers.environment
        )

    def _product(self, environment: Mapping[str, str]) -> list[Program]:
        return product_programs(
            self._data_dir,
            environment,
            host=self._options.host,
            own_host=self._options.own_host,
            port=self._options.port,
            web_processes=self._options.web_processes,
            workers=self._options.workers,
        )

    @contextlib.contextmanager
    def _announced(
        self, servers: Servers, supervisor: Supervisor, accounts: Accounts, started_at_s: float
    ) -> Iterator[None]:
        """Prints and writes where everything answers, and takes the file back at the end."""
        ready_file = self._options.ready_file

        def write() -> None:
            if ready_file is not None:
                content = self._ready_content(servers, supervisor, accounts)
                write_private(ready_file.expanduser().absolute(), json.dumps(content, indent=2))

        write()
        supervisor.on_restart = write
        self._display.ready(
            self._options.url, accounts, self._data_dir.path, time.monotonic() - started_at_s
        )
        try:
            yield
        finally:
            if ready_file is not None:
                ready_file.expanduser().unlink(missing_ok=True)

    def _ready_content(
        self, servers: Servers, supervisor: Supervisor, accounts: Accounts
    ) -> dict[str, object]:
        environment = servers.environment
        return {
            "url": self._options.url,
            "admin": vars(accounts.admin),
            "moderator": vars(accounts.moderator),
            "api_key": accounts.api_key,
            "database_url": environment["DATABASE_URL"],
            "redis_url": environment["REDIS_URL"],
            "triton": [replica.as_ready_item() for replica in servers.triton],
            "pids": {"up": os.getpid(), **supervisor.pids},
        }


def allowed_hosts(host: str) -> list[str]:
    """The names under which the console may be opened: this machine's, and `host`."""
    names = ["127.0.0.1", "localhost", "[::1]"]
    if host in ANY_HOST:
        return [*names, socket.gethostname(), socket.getfqdn()]
    return list(dict.fromkeys([*names, f"[{host}]" if ":" in host else host]))
