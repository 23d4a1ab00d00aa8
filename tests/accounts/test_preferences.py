"""Theme and language stay as chosen, across pages and, for the language, across browsers."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role, User
from apps.accounts.services import ensure_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def mira() -> User:
    return ensure_user(username="mira", role=Role.MODERATOR, password="correct horse battery")


def sign_in_page(client: Client) -> str:
    return client.get(reverse("accounts:sign-in")).content.decode()


def test_chosen_theme_is_in_the_first_byte_of_the_page(client: Client) -> None:
    client.post(reverse("accounts:theme"), {"theme": "dark", "next": "/sign-in/"})
    assert '<html lang="en" data-theme="dark">' in sign_in_page(client)


def test_without_a_choice_the_system_decides(client: Client) -> None:
    assert '<html lang="en">' in sign_in_page(client)


@pytest.mark.parametrize("value", ['dark" onload="x', "blue", "\0"])
def test_unknown_theme_is_ignored(client: Client, value: str) -> None:
    client.post(reverse("accounts:theme"), {"theme": value})
    client.cookies["theme"] = value.replace("\0", "")
    assert '<html lang="en">' in sign_in_page(client)


def test_language_follows_a_person_to_another_browser(client: Client, mira: User) -> None:
    client.force_login(mira)
    client.post(reverse("accounts:language"), {"language": "zh-hans"})
    elsewhere = Client()
    elsewhere.post(
        reverse("accounts:sign-in"), {"username": "mira", "password": "correct horse battery"}
    )
    elsewhere.post(reverse("accounts:sign-out"))
    assert '<html lang="zh-Hans">' in sign_in_page(elsewhere)


def test_browser_language_is_the_default(client: Client) -> None:
    page = client.get(reverse("accounts:sign-in"), headers={"Accept-Language": "zh-CN,zh;q=0.9"})
    assert '<html lang="zh-Hans">' in page.content.decode()


def test_unknown_language_changes_nothing(client: Client, mira: User) -> None:
    client.force_login(mira)
    client.post(reverse("accounts:language"), {"language": "../../etc"})
    mira.refresh_from_db()
    assert mira.language == ""


def test_choice_leads_back_to_the_page_but_to_no_foreign_one(client: Client) -> None:
    def back(target: str) -> str:
        return client.post(reverse("accounts:theme"), {"theme": "", "next": target})["Location"]

    assert back("/sign-in/?next=/x/") == "/sign-in/?next=/x/"
    assert back("https://evil.example/") == reverse("home")
