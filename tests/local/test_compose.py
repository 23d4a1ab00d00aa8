"""docker-compose.yml against the project: no engine is at hand, so each word is looked up."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from celery.bin.celery import celery as celery_command
from django.conf import settings
from django.core.management import get_commands
from django.utils.module_loading import import_string
from uvicorn.main import main as uvicorn_command

from moderation_site.local.processes import QUEUES
from moderation_site.local.servers import parse_replicas
from moderation_site.local.triton_env import PROJECT, ensure_environment

COMPOSE = yaml.safe_load((PROJECT / "docker-compose.yml").read_text(encoding="utf-8"))
GPU = yaml.safe_load((PROJECT / "deploy" / "gpu.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ("migrate", "web", "worker", "beat")
# Of the Compose specification, the parts that are used: key -> type.
SERVICE_KEYS = {
    "build": dict,
    "command": list,
    "depends_on": dict,
    "environment": dict,
    "healthcheck": dict,
    "image": str,
    "ports": list,
    "restart": str,
    "shm_size": str,
    "stop_grace_period": str,
    "volumes": list,
}
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}
RESTARTS = {"no", "always", "on-failure", "unless-stopped"}
DURATION = re.compile(r"^\d+(s|m|h)$")


@pytest.fixture(params=sorted(SERVICES))
def service(request: pytest.FixtureRequest) -> dict[str, Any]:
    return SERVICES[request.param]


def test_only_known_keys_of_the_right_type_are_used(service: dict[str, Any]) -> None:
    assert {key: type(value) for key, value in service.items()} == {
        key: SERVICE_KEYS.get(key) for key in service
    }
    assert service["restart"] in RESTARTS
    assert all(isinstance(word, str) for word in service.get("command", []))


def test_top_level_keys_are_known() -> None:
    assert {key for key in COMPOSE if not key.startswith("x-")} == {"name", "services", "volumes"}


def test_what_a_service_depends_on_exists_and_can_fulfil_the_condition(
    service: dict[str, Any],
) -> None:
    for name, need in service.get("depends_on", {}).items():
        assert need["condition"] in CONDITIONS
        if need["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[name]


def test_health_checks_are_complete(service: dict[str, Any]) -> None:
    check = service.get("healthcheck")
    if check is not None:
        assert set(check) == {"test", "interval", "timeout", "retries"}
        assert check["test"][0] == "CMD"
        assert DURATION.match(check["interval"])
        assert DURATION.match(check["timeout"])


def test_volumes_are_declared_or_in_the_project(service: dict[str, Any]) -> None:
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        if source.startswith("."):
            assert (PROJECT / source).exists()
        else:
            assert source in COMPOSE["volumes"]


@pytest.mark.parametrize("name", OURS)
def test_our_services_get_only_variables_that_the_settings_read(name: str) -> None:
    read = set(_variables_read())
    given = SERVICES[name]["environment"]
    assert set(given) <= read
    assert {"DATABASE_URL", "REDIS_URL", "TRITON_REPLICAS", "SECRET_KEY"} <= set(given)


def _variables_read() -> Iterator[str]:
    source = (PROJECT / "moderation_site" / "settings.py").read_text(encoding="utf-8")
    return (found[1] for found in re.finditer(r'env\.\w+\(\s*"([A-Z_]+)"', source))


def test_our_services_reach_the_servers_at_their_names_and_ports() -> None:
    given = SERVICES["web"]["environment"]
    # The variable stands for a password; urlsplit would take its `:?` for a port.
    database = urlsplit(re.sub(r"\$\{[^}]*\}", "secret", given["DATABASE_URL"]))
    postgres = SERVICES["postgres"]["environment"]
    assert (database.hostname, database.port) == ("postgres", 5432)
    assert database.username == postgres["POSTGRES_USER"]
    assert database.path == "/" + postgres["POSTGRES_DB"]
    redis = urlsplit(given["REDIS_URL"])
    assert (redis.hostname, redis.port) == ("redis", 6379)
    [replica] = parse_replicas(given["TRITON_REPLICAS"])
    ports = (replica.grpc_port, replica.http_port, replica.metrics_port)
    assert (replica.host, ports) == ("triton", (8001, 8000, 8002))
    assert f"http://127.0.0.1:{replica.http_port}/v2/health/ready" in str(
        SERVICES["triton"]["healthcheck"]
    )


def test_the_web_command_serves_the_application_on_the_published_port() -> None:
    options = _uvicorn_options(SERVICES["web"]["command"])
    assert callable(import_string(options["app"].replace(":", ".")))
    assert options["host"] == "0.0.0.0"
    published = SERVICES["web"]["ports"][0].split(":")
    assert published == ["127.0.0.1", "8000", str(options["port"])]
    [path] = re.findall(r"http://127\.0\.0\.1:8000(/\w+)", str(SERVICES["web"]["healthcheck"]))
    assert path in import_string("moderation_site.asgi._HEALTH_PATHS")


def _uvicorn_options(command: list[str]) -> dict[str, Any]:
    assert command[:3] == ["python", "-m", "uvicorn"]
    return uvicorn_command.make_context("uvicorn", command[3:]).params


@pytest.mark.parametrize("name", ["worker", "beat"])
def test_the_celery_commands_are_complete_and_valid(name: str) -> None:
    command = SERVICES[name]["command"]
    assert command[:5] == ["python", "-m", "celery", "-A", "moderation_site"]
    assert command[5] == name
    # Parsing refuses an option that the installed Celery does not have.
    celery_command.commands[name].make_context(name, command[6:], obj=_CeleryContext())


class _CeleryContext:
    """What Celery's option defaults look at while they are parsed."""

    app = import_string("moderation_site.celery.app")

    def __getattr__(self, name: str) -> None:
        return None


def test_the_worker_takes_every_queue_that_tasks_go_to() -> None:
    command = SERVICES["worker"]["command"]
    taken = command[command.index("-Q") + 1].split(",")
    routed = {route["queue"] for route in settings.CELERY_TASK_ROUTES.values()}
    assert routed | {settings.CELERY_TASK_DEFAULT_QUEUE} == set(taken)
    assert taken == QUEUES.split(",")


def test_the_migration_is_a_command_of_the_project() -> None:
    command = SERVICES["migrate"]["command"]
    assert command[:2] == ["python", "manage.py"]
    assert command[2] in get_commands()


def test_triton_gets_options_that_the_real_server_has() -> None:
    command = SERVICES["triton"]["command"]
    environment = ensure_environment()
    help_text = subprocess.run(
        [str(environment.server), "--help"],
        env={"LD_LIBRARY_PATH": environment.library_path},
        capture_output=True,
        text=True,
        check=False,
    )
    known = set(re.findall(r"--([a-z0-9-]+)", help_text.stdout + help_text.stderr))
    assert command[0] == "tritonserver"
    assert {word.removeprefix("--").split("=")[0] for word in command[1:]} <= known
    mounted = SERVICES["triton"]["volumes"][0].split(":")[1]
    assert f"--model-repository={mounted}" in command


def test_triton_is_later_than_the_release_that_short_deadlines_crash_and_has_shared_memory() -> (
    None
):
    image = SERVICES["triton"]["image"]
    year, month = re.match(r"nvcr\.io/nvidia/tritonserver:(\d+)\.(\d+)-py3$", image).groups()
    assert (int(year), int(month)) > (24, 10)
    assert SERVICES["triton"]["shm_size"] == "1gb"


def test_the_gpu_file_only_adds_to_services_that_are_there() -> None:
    assert set(GPU) == {"services"}
    assert set(GPU["services"]) <= set(SERVICES)
    [device] = GPU["services"]["triton"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}


def test_the_image_copies_what_exists_and_runs_what_compose_runs() -> None:
    build = SERVICES["web"]["build"]
    lines = (PROJECT / build["dockerfile"]).read_text(encoding="utf-8").splitlines()
    copied = [shlex.split(line)[1] for line in lines if line.startswith("COPY")]
    assert [source for source in copied if not (PROJECT / source).exists()] == []
    [command] = [line.removeprefix("CMD ") for line in lines if line.startswith("CMD ")]
    assert _uvicorn_options(yaml.safe_load(command))["app"] == "moderation_site.asgi:application"
    assert {"moderation_site", "apps", "inference", "templates", "locale"} <= {
        Path(source).name for source in copied
    }


def test_the_image_installs_at_the_locked_versions_without_any_index_address() -> None:
    text = (PROJECT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    assert "-r pyproject.toml -c requirements/app.lock" in text
    assert "index-url" not in text
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    [wanted] = re.findall(r'"(uv==[\d.]+)"', text)
    assert f'"{wanted}"' in makefile
