"""Each page of a section is one link away from every other, and says which one it is."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role
from tests.factories import UserFactory

REVIEW = ["history", "range", "appeals", "figures", "agreement", "wellbeing", "keys"]
OPERATE = ["dashboard:controls", "alerts:alerts", "dashboard:fallback"]
pytestmark = pytest.mark.django_db


def page_of(client: Client, role: Role, name: str) -> str:
    client.force_login(UserFactory(role=role))
    return client.get(reverse(name)).content.decode()


def bar(page: str) -> str:
    return page.split('class="subtabs')[1].split("</nav>")[0]


@pytest.mark.parametrize("name", REVIEW)
def test_a_page_of_review_links_to_all_others(client: Client, name: str) -> None:
    shown = bar(page_of(client, Role.LEAD, f"review:{name}"))
    for other in REVIEW:
        assert f'href="{reverse(f"review:{other}")}"' in shown
    assert f'href="{reverse(f"review:{name}")}" aria-current="page"' in shown
    assert shown.count("aria-current") == 1


@pytest.mark.parametrize("name", OPERATE)
def test_a_page_of_operate_links_to_all_others(client: Client, name: str) -> None:
    shown = bar(page_of(client, Role.OPERATOR, name))
    for other in OPERATE:
        assert f'href="{reverse(other)}"' in shown
    assert f'href="{reverse(name)}" aria-current="page"' in shown


def test_the_pages_of_review_are_not_offered_to_operators(client: Client) -> None:
    page = page_of(client, Role.OPERATOR, "dashboard:operate")
    assert reverse("alerts:alerts") in page
    assert reverse("review:history") not in page
