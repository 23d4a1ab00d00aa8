"""What all tests share. The servers come from `moderation_site.local.pytest_plugin`."""

from __future__ import annotations

from typing import Any

import pytest

pytest_plugins = ["moderation_site.local.pytest_plugin"]


@pytest.fixture(scope="session")
def django_db_setup(stores: dict[str, Any], django_db_setup: None) -> None:
    """The test database, in a PostgreSQL that this run starts when it first needs one."""
