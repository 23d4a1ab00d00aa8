"""A real browser on a real web process: the test's own database, servers and static files.

`site` is the address of a uvicorn process that serves what `manage.py up` serves (`own_site` of
one that no other test has used). `sign_in(role)`
gives a page of a signed-in person; each call is a browser context of its own, so two people can
look at once. A page that logs an error, or breaks the content security policy, fails its test.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.db import OperationalError
from django.db.backends.base.operations import BaseDatabaseOperations
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect
from psycopg.errors import DeadlockDetected

from apps.accounts.models import Role, User
from moderation_site.local.browser import find_browser
from moderation_site.local.pytest_plugin import product_environment
from tests.factories import UserFactory

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--no-first-run",
]
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
PATIENCE_MS = 120_000
FLUSH_TRIES = 10
SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="session", autouse=True)
def _beside_playwright() -> None:
    # Playwright's synchronous face runs an event loop in this thread, and Django takes every
    # query for one from a coroutine.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    found = find_browser()
    assert found is not None, "No Chromium: run `make browser`."
    return {**browser_type_launch_args, "executable_path": str(found), "args": FLAGS}


class Processes:
    """Processes of the product that a test starts; all end with it."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self.environment = environment
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {}

    def start(self, name: str, *argv: str, pass_fds: tuple[int, ...] = ()) -> None:
        self._commands[name] = argv, pass_fds
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", *argv],
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=pass_fds,
            )

    def start_again(self, name: str) -> None:
        """With the same command: a web process gets the same socket."""
        argv, pass_fds = self._commands[name]
        self.start(name, *argv, pass_fds=pass_fds)

    def stop(self, name: str) -> None:
        process = self.running.pop(name)
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop_all(self) -> None:
        for name in list(self.running):
            self.stop(name)

    def log_of(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")


def _environment() -> dict[str, str]:
    # A busy machine needs more than ten seconds to take a decision back.
    return {
        **product_environment(),
        "STATIC_ROOT": str(settings.STATIC_ROOT),
        "REVIEW_UNDO_S": "120",
    }


@pytest.fixture(scope="session", autouse=True)
def _flush_again_after_a_deadlock() -> Iterator[None]:
    # Emptying the tables after a test can deadlock with a last request of a process that runs
    # on. PostgreSQL ends one of the two; when it was ours, the other is through by then.
    flush = BaseDatabaseOperations.execute_sql_flush

    def flush_again(self: BaseDatabaseOperations, sql_list: list[str]) -> None:
        for _ in range(FLUSH_TRIES - 1):
            try:
                return flush(self, sql_list)
            except OperationalError as error:
                if not isinstance(error.__cause__, DeadlockDetected):
                    raise
        return flush(self, sql_list)

    # On the class: a connection, and its operations with it, may be another one by then.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseDatabaseOperations, "execute_sql_flush", flush_again)
        yield


@pytest.fixture
def processes(transactional_db: None, tmp_path: Path) -> Iterator[Processes]:
    """For the processes of one test: `processes.start("worker", "celery", …)`."""
    started = Processes(_environment(), tmp_path)
    yield started
    started.stop_all()
    for log in sorted(tmp_path.glob("*.log")):  # shown when the test fails
        print(f"--- {log.name}\n{log.read_text(errors='replace')[-4000:]}")


def _start_web(processes: Processes, listening: socket.socket) -> str:
    """It may not answer yet, but its socket is there and waits for it."""
    processes.start(
        "web",
        *("uvicorn", "moderation_site.asgi:application", "--fd", str(listening.fileno())),
        *("--ws", "moderation_site.sockets:WireProtocol", "--ws-per-message-deflate", "false"),
        *("--no-access-log", "--timeout-graceful-shutdown", "1"),
        pass_fds=(listening.fileno(),),
    )
    return f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture(scope="session")
def _shared_web(
    django_db_setup: None, static_files: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    started = Processes(_environment(), tmp_path_factory.mktemp("web"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield _start_web(started, listening)
        started.stop_all()


@pytest.fixture
def site(transactional_db: None, _shared_web: str) -> str:
    """The address of the web process that all browser tests share.

    Its caches outlive a test's rows: a test that sends messages needs `own_site`.
    """
    return _shared_web


@pytest.fixture
def own_site(processes: Processes) -> Iterator[str]:
    """The address of a web process of this test's own, `processes.running["web"]`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield _start_web(processes, listening)


@pytest.fixture
def pipeline(processes: Processes, triton: dict[str, Any]) -> Processes:
    """A Celery worker that judges with the real Triton, and beat, as `manage.py up` starts them."""
    celery = ("celery", "-A", "moderation_site")
    quiet = ("--loglevel", "WARNING")
    processes.start("worker", *celery, "worker", "-Q", "scoring,default", *quiet)
    schedule = str(processes.folder / "schedule")
    processes.start("beat", *celery, "beat", "--schedule", schedule, *quiet)
    return processes


class Troubles:
    """What pages complained about. `expect` names what a test provokes."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        # A page that is left while its line is being made: nothing is wrong.
        self.expected = ["WebSocket is closed before the connection is established"]

    def expect(self, *parts: str) -> None:
        self.expected += parts

    def watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.seen.append(f"error: {error}"))
        page.on("console", self._hear)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.seen.append(f"{message.type}: {message.text}")

    @property
    def unexpected(self) -> list[str]:
        return [s for s in self.seen if not any(part in s for part in self.expected)]


@pytest.fixture
def troubles() -> Iterator[Troubles]:
    gathered = Troubles()
    yield gathered
    assert gathered.unexpected == []


SignIn = Callable[..., Page]


@pytest.fixture
def open_page(
    request: pytest.FixtureRequest, transactional_db: None, browser: Browser, troubles: Troubles
) -> Iterator[Callable[..., Page]]:
    """A page in a context of its own; keyword arguments are Playwright's for the context."""
    mine = "own_site" if "own_site" in request.fixturenames else "site"
    site = request.getfixturevalue(mine)
    with ExitStack() as stack:

        def open_(**context: Any) -> Page:
            made: BrowserContext = browser.new_context(
                **{"base_url": site, "viewport": WIDE, "reduced_motion": "reduce", **context}
            )
            stack.callback(made.close)
            page = made.new_page()
            # Long, because it only says when to give up: the machine may be busy.
            page.set_default_timeout(PATIENCE_MS)
            troubles.watch(page)
            return page

        yield open_


@pytest.fixture
def sign_in(open_page: Callable[..., Page]) -> SignIn:
    """A page of a person who is signed in already: `sign_in(Role.LEAD, user=…, **context)`."""

    def sign_in_(role: Role = Role.MODERATOR, user: User | None = None, **context: Any) -> Page:
        client = Client()
        client.force_login(user or UserFactory(role=role))
        page = open_page(**context)
        cookie = client.cookies[settings.SESSION_COOKIE_NAME]
        where = {"domain": "127.0.0.1", "path": "/"}
        page.context.add_cookies(
            [{"name": settings.SESSION_COOKIE_NAME, "value": cookie.value, **where}]
        )
        return page

    return sign_in_


@pytest.fixture
def assert_accessible() -> Callable[[Page], None]:
    """axe finds nothing serious on the page as it stands."""
    axe = Axe()

    def check(page: Page) -> None:
        violations = axe.run(page).response["violations"]
        serious = [
            f"{v['id']}: {v['help']}: {[node['target'] for node in v['nodes']][:5]}"
            for v in violations
            if v["impact"] in SERIOUS
        ]
        assert serious == []

    return check
