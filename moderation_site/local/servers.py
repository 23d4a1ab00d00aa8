"""The three servers of a stack: which are ours to run, and where each answers."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from moderation_site.local.datadir import DataDir
from moderation_site.local.errors import StackError
from moderation_site.local.postgres import Postgres
from moderation_site.local.probes import Probe, listens, postgres_answers, redis_answers
from moderation_site.local.program import Program
from moderation_site.local.redis import Redis
from moderation_site.local.triton import (
    HOST,
    MODEL_REPOSITORY,
    SHARED_MEMORY,
    Replica,
    deploy_backends,
    plain_repository,
    region_prefix,
    replica_program,
)
from moderation_site.local.triton_env import (
    DEFAULT_FOLDER,
    TritonEnvironment,
    ensure_environment,
    is_installed,
)

SECRETS = ("postgres_password", "redis_password")
# 8001, 8000 and 8002 are Triton's own defaults.
DEFAULT_HTTP_PORT, DEFAULT_METRICS_PORT = 8000, 8002

Step = Callable[[str], None]


def parse_replicas(value: str) -> list[Replica]:
    """Reads TRITON_REPLICAS: `name=host:grpc[:http[:metrics]]`, separated by commas.

    The name may be left out; HTTP and metrics are then 8000 and 8002, as Triton has them.

    Raises:
        StackError: It is not of that form.
    """
    try:
        return [
            _parse_replica(item.strip(), number)
            for number, item in enumerate(value.split(","), start=1)
            if item.strip()
        ]
    except ValueError as error:
        raise StackError(
            "TRITON_REPLICAS must list name=host:grpc-port[:http-port[:metrics-port]], "
            f"separated by commas; this is not such an item: {error}"
        ) from error


def _parse_replica(item: str, number: int) -> Replica:
    name, _, address = item.rpartition("=")
    host, *ports = address.split(":")
    if not host or not 1 <= len(ports) <= 3 or not all(port.isdecimal() for port in ports):
        raise ValueError(item)
    numbers = [int(port) for port in ports]
    defaults = [0, DEFAULT_HTTP_PORT, DEFAULT_METRICS_PORT]
    return Replica(name or f"triton-{number}", host, *(numbers + defaults[len(numbers) :]))


@dataclass(frozen=True)
class Servers:
    """What runs here and what is somebody else's.

    Attributes:
        postgres: Ours, or None when DATABASE_URL names another.
        redis: Ours, or None when REDIS_URL names another.
        triton: Where each replica answers, ours or not.
        runs_triton: Whether the replicas are ours.
    """

    data_dir: DataDir
    postgres: Postgres | None
    redis: Redis | None
    triton: tuple[Replica, ...]
    runs_triton: bool
    repository: Path
    given: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """DATABASE_URL, REDIS_URL and TRITON_REPLICAS for every process that uses the stack."""
        own = {"TRITON_REPLICAS": ",".join(replica.as_variable() for replica in self.triton)}
        if self.postgres is not None:
            own["DATABASE_URL"] = self.postgres.database_url
        if self.redis is not None:
            own["REDIS_URL"] = self.redis.redis_url
        return own | dict(self.given)

    async def check_given(self) -> None:
        """Makes sure that the servers of others answer.

        Raises:
            StackError: One does not.
        """
        if "DATABASE_URL" in self.given:
            await _require("DATABASE_URL", postgres_answers(self.given["DATABASE_URL"]))
        if "REDIS_URL" in self.given:
            await _require("REDIS_URL", redis_answers(self.given["REDIS_URL"]))
        if "TRITON_REPLICAS" in self.given:
            for replica in self.triton:
                await _require("TRITON_REPLICAS", listens(replica.host, replica.grpc_port))

    def prepare(self, step: Step) -> list[Program]:
        """Does what must be done before the servers can start, and says what to run."""
        programs = []
        if self.postgres is not None:
            step("Preparing PostgreSQL")
            self.postgres.prepare()
            programs.append(self.postgres.program())
        if self.redis is not None:
            programs.append(self.redis.program())
        if self.runs_triton and self.triton:
            folder = Path(os.environ.get("TRITON_ENV", DEFAULT_FOLDER))
            once = "" if is_installed(folder) else " (once: installs about 300 MB)"
            step(f"Preparing Triton{once}")
            programs += self._triton_programs(ensure_environment(folder))
        return programs

    def finish(self) -> None:
        """Does what can only be done when they answer."""
        if self.postgres is not None:
            self.postgres.create_database()

    def litter(self, ready_file: Path | None) -> list[str]:
        """Patterns of what a kill -9 leaves outside the data folder."""
        regions = glob.escape(str(SHARED_MEMORY / region_prefix(self.data_dir.stack_id))) + "*"
        paths = self.data_dir.outside_dirs()
        if ready_file is not None:
            paths.append(ready_file.expanduser().absolute())
        return [regions, *(glob.escape(str(path)) for path in paths)]

    def clean_up(self) -> None:
        """Removes what must not outlast a run."""
        self.data_dir.remove_outside_dirs()

    def _triton_programs(self, environment: TritonEnvironment) -> list[Program]:
        plain_dir = self.data_dir.plain_dir()
        backends = deploy_backends(environment, plain_dir)
        repository = plain_repository(self.repository, plain_dir)
        return [
            replica_program(
                replica,
                environment=environment,
                backends=backends,
                repository=repository,
                stack_id=self.data_dir.stack_id,
            )
            for replica in self.triton
        ]


async def _require(variable: str, probe: Probe) -> None:
    # The value stays unsaid: it holds a password.
    try:
        answers = await probe()
    except (psycopg.Error, ValueError) as error:
        raise StackError(f"{variable} is not an address of the kind it should be.") from error
    if not answers:
        raise StackError(
            f"{variable} is set, but nothing answers there: start that server, or unset "
            f"{variable} to run an embedded one."
        )


def plan_servers(
    data_dir: DataDir, *, replicas: int, given: Mapping[str, str], wanted: frozenset[str]
) -> Servers:
    """Decides what to run; nothing is started.

    Args:
        given: The environment; its DATABASE_URL, REDIS_URL and TRITON_REPLICAS replace ours.
        wanted: Of `postgres`, `redis` and `triton`, those to run.
    """
    kept = data_dir.secrets(SECRETS)
    given = {
        name: given[name]
        for name in ("DATABASE_URL", "REDIS_URL", "TRITON_REPLICAS")
        if given.get(name)
    }
    redis_port, *ports = data_dir.ports(1 + 3 * replicas)
    runs_triton = "triton" in wanted and "TRITON_REPLICAS" not in given
    own = [Replica(f"triton-{i + 1}", HOST, *ports[3 * i : 3 * i + 3]) for i in range(replicas)]
    return Servers(
        data_dir=data_dir,
        postgres=Postgres(data_dir.postgres, data_dir.socket_dir(), kept["postgres_password"])
        if "postgres" in wanted and "DATABASE_URL" not in given
        else None,
        redis=Redis(data_dir.redis, redis_port, kept["redis_password"])
        if "redis" in wanted and "REDIS_URL" not in given
        else None,
        triton=tuple(own if runs_triton else parse_replicas(given.get("TRITON_REPLICAS", ""))),
        runs_triton=runs_triton,
        repository=Path(os.environ.get("MODEL_REPOSITORY", MODEL_REPOSITORY)),
        given=given,
    )
