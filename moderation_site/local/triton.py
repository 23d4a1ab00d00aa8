"""The embedded Triton: NVIDIA's server from the nvidia-pytriton wheel, under our supervisor.

The wheel has no ONNX backend. Triton takes a backend written in Python from a folder of its name
(`triton_backend/onnxruntime/model.py`), so the model repository that NVIDIA's image serves on GPUs
with its C++ backend runs here unchanged.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from moderation_site.local.datadir import is_plain
from moderation_site.local.errors import StackError
from moderation_site.local.probes import http_ok
from moderation_site.local.program import Program
from moderation_site.local.triton_env import PROJECT, TritonEnvironment

HOST = "127.0.0.1"
MODEL_REPOSITORY = PROJECT / "triton_models"
OWN_BACKENDS = Path(__file__).resolve().parent / "triton_backend"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (where Triton's python backend keeps its regions)
EXIT_TIMEOUT_S = 6
# Its handler of SIGSEGV and SIGABRT says so, then makes a stack trace. That needs memory, and the
# lock of the allocator may be held by the very call that crashed: then it hangs for ever, with its
# ports open and its metrics answered, and judges nothing.
CRASHED = re.compile(rb"Signal \((?:6|11)\) received")


@dataclass(frozen=True)
class Replica:
    """Where one Triton server answers."""

    name: str
    host: str
    grpc_port: int
    http_port: int
    metrics_port: int

    def as_variable(self) -> str:
        """Its item in TRITON_REPLICAS."""
        ports = f"{self.grpc_port}:{self.http_port}:{self.metrics_port}"
        return f"{self.name}={self.host}:{ports}"

    def as_ready_item(self) -> dict[str, str]:
        """Its item in the ready file."""
        return {
            "name": self.name,
            "grpc": f"{self.host}:{self.grpc_port}",
            "http": f"{self.host}:{self.http_port}",
            "metrics": f"{self.host}:{self.metrics_port}",
        }


def deploy_backends(environment: TritonEnvironment, plain_dir: Path) -> Path:
    """Lays out a backend directory: the wheel's python backend with its stub, and our own."""
    folder = plain_dir / "backends"
    shutil.rmtree(folder, ignore_errors=True)
    python = folder / "python"
    shutil.copytree(environment.distribution / "backends" / "python", python)
    shutil.copy2(environment.stub, python)
    if OWN_BACKENDS.exists():
        ignored = shutil.ignore_patterns("__pycache__", "__init__.py")
        shutil.copytree(OWN_BACKENDS, folder, dirs_exist_ok=True, ignore=ignored)
    return folder


def plain_repository(repository: Path, plain_dir: Path) -> Path:
    """The model repository, by way of a link when its own path has spaces.

    Raises:
        StackError: It is not there.
    """
    if not repository.is_dir():
        raise StackError(f"There is no model repository at {repository}: set MODEL_REPOSITORY.")
    if is_plain(repository):
        return repository
    link = plain_dir / "models"
    link.unlink(missing_ok=True)
    link.symlink_to(repository)
    return link


def replica_program(
    replica: Replica,
    *,
    environment: TritonEnvironment,
    backends: Path,
    repository: Path,
    stack_id: str,
) -> Program:
    """What the supervisor runs for one replica; both folders have plain paths."""
    # The same after a kill -9, different for every replica of every stack.
    region = f"{region_prefix(stack_id)}{replica.name}_"
    clear = _clear_regions(region)
    return Program(
        name=replica.name,
        argv=[
            str(environment.server),
            f"--model-repository={repository}",
            f"--backend-directory={backends}",
            f"--backend-config=python,shm-region-prefix-name={region}",
            # Everything at the start; later the client loads and unloads releases.
            *("--model-control-mode=explicit", "--load-model=*"),
            *(f"--grpc-address={replica.host}", f"--grpc-port={replica.grpc_port}"),
            *(f"--http-address={replica.host}", f"--http-port={replica.http_port}"),
            *(f"--metrics-address={replica.host}", f"--metrics-port={replica.metrics_port}"),
            *("--allow-metrics=true", "--metrics-interval-ms=1000"),
            "--http-thread-count=2",
            f"--exit-timeout-secs={EXIT_TIMEOUT_S}",
        ],
        probe=http_ok(replica.host, replica.http_port, "/v2/health/ready"),
        env={
            # The stub takes its packages from the environment whose python3 comes first.
            "PATH": f"{environment.bin}:{os.environ.get('PATH', os.defpath)}",
            "LD_LIBRARY_PATH": environment.library_path,
            # One model instance is one process: threads of their own would only fight.
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        last_words=CRASHED,
        ready_timeout_s=120.0,
        stop_timeout_s=EXIT_TIMEOUT_S + 6.0,
        before_start=clear,
        after_stop=clear,
    )


def region_prefix(stack_id: str) -> str:
    """What the names of all shared memory regions of a stack begin with."""
    return f"chatwarden_{stack_id}_"


def _clear_regions(prefix: str) -> Callable[[], None]:
    def clear() -> None:
        for region in SHARED_MEMORY.glob(f"{prefix}*"):
            region.unlink(missing_ok=True)

    return clear
