"""Triton replicas for a benchmark: their own, in a folder of their own, gone afterwards."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference import ReplicaConfig
from moderation_site.local.servers_process import ServersProcess, running
from moderation_site.local.triton import MODEL_REPOSITORY


@dataclass(frozen=True)
class Running:
    process: ServersProcess

    @property
    def replicas(self) -> list[ReplicaConfig]:
        return [
            ReplicaConfig(each["name"], grpc=each["grpc"], metrics=each["metrics"])
            for each in self.process.ready()["triton"]
        ]

    def pid(self, name: str) -> int:
        """Of the replica's present process: it changes when the supervisor restarts it."""
        return int(self.process.ready()["pids"][name])


def add_repository_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--repository",
        type=Path,
        default=MODEL_REPOSITORY,
        help="model repository the replicas serve (default: the product's)",
    )


@contextlib.contextmanager
def triton_replicas(count: int, options: dict[str, Any]) -> Iterator[Running]:
    """Start ``count`` replicas and stop them at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="bench-triton-") as folder:
        process = ServersProcess(
            Path(folder),
            only=frozenset({"triton"}),
            replicas=count,
            settings={"MODEL_REPOSITORY": str(Path(options["repository"]).resolve())},
        )
        with running(process):
            yield Running(process)
