"""What the tests of the review room share."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.accounts.models import User


@pytest.fixture
def console(client: Client, ann: User) -> Client:
    """Ann's browser."""
    client.force_login(ann)
    return client
