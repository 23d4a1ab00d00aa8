"""Texts that somebody wants to be spared are blurred for them, with a warning and a way to see."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client

from apps.accounts.models import Role, User
from apps.policies.models import Label
from apps.review.models import Cause
from apps.review.selectors import blurred_for
from apps.review.services.wellbeing import save_blurred
from tests.factories import ReviewItemFactory, UserFactory
from tests.review.test_pages import read

pytestmark = pytest.mark.django_db

WARNING = "The texts are blurred: they may be upsetting."


@pytest.fixture
def ann() -> User:
    return UserFactory(username="ann")


@pytest.fixture
def console(client: Client, ann: User) -> Client:
    client.force_login(ann)
    return client


def test_abuse_is_blurred_for_whoever_chose_nothing(console: Client) -> None:
    ReviewItemFactory(label=Label.TOXIC)
    html = read(console)
    assert html.count(" data-veiled") == 2  # the card and its row
    assert html.index(WARNING) < html.index('class="msg-text"')
    assert 'data-command="reveal"' in html


def test_other_labels_are_not_blurred_at_first(console: Client) -> None:
    ReviewItemFactory(label=Label.SPAM)
    html = read(console)
    assert WARNING not in html
    assert " data-veiled" not in html


def test_choice_is_each_persons_own(console: Client, ann: User) -> None:
    console.post("/review/wellbeing/", {"blurred": ["spam", "undetermined", "nonsense"]})
    assert blurred_for(ann) == {"spam", "undetermined"}
    assert blurred_for(UserFactory()) == {"toxic"}
    html = read(console, "/review/wellbeing/")
    assert 'value="spam" checked' in html
    assert 'value="toxic" checked' not in html


def test_nothing_need_be_blurred(console: Client, ann: User) -> None:
    console.post("/review/wellbeing/", {})
    ReviewItemFactory(label=Label.TOXIC)
    assert blurred_for(ann) == frozenset()
    assert WARNING not in read(console)


def test_what_nothing_judged_is_blurred_when_that_is_chosen(console: Client, ann: User) -> None:
    save_blurred(ann, ["undetermined"])
    ReviewItemFactory(label=None, cause=Cause.UNDETERMINED)
    assert WARNING in read(console)


def test_operator_has_nothing_to_choose(client: Client) -> None:
    operator = UserFactory(role=Role.OPERATOR)
    with pytest.raises(PermissionDenied):
        save_blurred(operator, ["toxic"])
    client.force_login(operator)
    assert client.get("/review/wellbeing/").status_code == 403
