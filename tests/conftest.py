"""What all tests share. The servers come from `moderation_site.local.pytest_plugin`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.core.management import call_command
from django.utils import translation

from apps.accounts.models import Role, User
from tests.factories import UserFactory

# Several real processes race in these, on machines that do other things too. One that fails gets
# a second try, told in the summary with all that the first one said: it is a fault to be found,
# of the test or of the product, but not a reason to hold a change up.
RACING = {"chaos", "e2e", "inference", "local"}

pytest_plugins = ["moderation_site.local.pytest_plugin"]


def pytest_configure() -> None:
    # Real hashing is slow on purpose; nothing that the tests look at depends on it.
    # (The second is for browser tests, whose server has the real list.)
    settings.PASSWORD_HASHERS = [
        "django.contrib.auth.hashers.MD5PasswordHasher",
        "django.contrib.auth.hashers.PBKDF2PasswordHasher",
    ]
    # A slow machine is no failure: speed lives in benchmarks/.
    hypothesis.settings.register_profile("untimed", deadline=None)
    hypothesis.settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: Playwright's loop runs in the main thread from then on, and no
    asynchronous test can run beside it.
    """
    items.sort(key=lambda item: _room(item) == "e2e")
    for item in items:
        # What an earlier test left open is told by whichever test runs when it is collected.
        told = None if _room(item) in RACING else ["(?i)unraisable ?exception"]
        item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=told))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.section(f"Passed or failed at the second try: {report.nodeid}")
        terminalreporter.line(report.longreprtext)
        for title, content in report.sections:
            terminalreporter.line(f"--- {title}\n{content}")


def _room(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]


@pytest.fixture(scope="session")
def django_db_setup(stores: dict[str, Any], django_db_setup: None) -> None:
    """The test database, in a PostgreSQL that this run starts when it first needs one."""


@pytest.fixture(autouse=True, scope="session")
def static_files(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Pages name their files by content, as in production: the manifest must be there."""
    settings.STATIC_ROOT = tmp_path_factory.mktemp("static")  # each worker's own
    call_command("collectstatic", interactive=False, verbosity=0)


@pytest.fixture(autouse=True)
def default_language() -> None:
    """A page asked for in Chinese leaves its language to the thread, and so to the next test."""
    translation.deactivate()


@pytest.fixture
def ann() -> User:
    """A moderator."""
    return UserFactory(username="ann")


@pytest.fixture
def bob() -> User:
    """Another one."""
    return UserFactory(username="bob")


@pytest.fixture
def admin() -> User:
    return UserFactory(username="root", role=Role.ADMIN)
