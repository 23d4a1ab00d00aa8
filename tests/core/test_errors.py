"""Error pages say what happened in the reader's language, with no help from the database."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.utils import translation

from apps.core import errors


def request_with(cookies: dict[str, str] | None = None) -> HttpRequest:
    request = RequestFactory().get("/somewhere/?q=1")
    request.COOKIES.update(cookies or {})
    return request


def test_unknown_address_has_a_page(client: Client) -> None:
    response = client.get("/no/such/page/")
    assert response.status_code == 404
    assert "There is no such page" in response.content.decode()


def test_denied_page_names_the_missing_permission() -> None:
    response = errors.permission_denied(request_with(), PermissionDenied("policy.edit"))
    assert response.status_code == 403
    assert "needs policy.edit" in response.content.decode()


# No django_db mark: pytest-django fails a test that touches the database without it.
@pytest.mark.parametrize("theme", ["", "light", "dark"])
def test_broken_server_answers_without_database_and_in_the_chosen_theme(theme: str) -> None:
    response = errors.server_error(request_with({"theme": theme}))
    assert response.status_code == 500
    assert ('data-theme="' in response.content.decode()) == bool(theme)


def test_error_pages_speak_the_readers_language() -> None:
    with translation.override("zh-hans"):
        response = errors.server_error(request_with())
    assert 'lang="zh-Hans"' in response.content.decode()


def test_hostile_exception_text_is_inert() -> None:
    response = errors.permission_denied(request_with(), PermissionDenied("<script>x</script>"))
    assert "<script>x" not in response.content.decode()
