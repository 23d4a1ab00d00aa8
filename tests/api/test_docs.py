"""The documentation page: anybody may read it, and every problem's type leads into it."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from apps.api.app import operations
from apps.api.problems import ALL_KINDS


@pytest.fixture
def page(client: Client) -> str:
    answer = client.get("/api/v1/docs")
    assert answer.status_code == 200
    return answer.content.decode()


def test_lists_every_operation_with_an_example(page: str) -> None:
    assert page.count('<pre class="api-example"') == len(operations())
    for operation in operations():
        assert f'id="{operation.id}"' in page
        assert operation.path in page


def test_names_every_field_and_limit(page: str) -> None:
    for name in (
        "group",
        "sender.id",
        "sender.name",
        "quoted_text",
        "metadata",
        "messages[]",
        "results[].status",
    ):
        assert f'<th scope="row" class="mono">{name}</th>' in page
    assert "1 – 20,000" in page


def test_every_problems_type_leads_to_its_paragraph(page: str) -> None:
    for kind in ALL_KINDS:
        path, _, anchor = kind.type_uri.partition("#")
        assert path == "/api/v1/docs"
        assert page.count(f'id="{anchor}"') == 1


def test_links_within_the_page_lead_somewhere(page: str) -> None:
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert targets <= set(re.findall(r'id="([^"]+)"', page))


def test_needs_nothing_from_elsewhere(client: Client, page: str) -> None:
    assert "style=" not in page
    assert not re.findall(r'(?:src|href)="https?://(?!testserver)', page)
    policy = client.get("/api/v1/docs").headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy


def test_takes_no_post(client: Client) -> None:
    assert client.post("/api/v1/docs").status_code == 405
