"""Texts that somebody wants to be spared are blurred for them, with a warning and a way to see."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client

from apps.accounts.models import Role, User
from apps.policies.models import Action, Label
from apps.review.exposure import care_of
from apps.review.models import Cause
from apps.review.services.decisions import Choice, decide
from apps.review.services.leases import open_item
from apps.review.services.wellbeing import Care, save_care
from tests.factories import ReviewItemFactory, UserFactory
from tests.review.test_pages import read

pytestmark = pytest.mark.django_db

WARNING = "The texts are blurred: they may be upsetting."


def care(**changed: Any) -> Care:
    chosen = {
        "blurred": ["toxic"],
        "is_gray": False,
        "holds_to_reveal": False,
        "break_after_min": 50,
        "break_after_severe": 40,
    }
    return Care(**chosen | changed)


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
    assert set(care_of(ann).blurred) == {"spam", "undetermined"}
    assert set(care_of(UserFactory()).blurred) == {"toxic"}
    html = read(console, "/review/wellbeing/")
    assert 'value="spam" checked' in html
    assert 'value="toxic" checked' not in html


def test_nothing_need_be_blurred(console: Client, ann: User) -> None:
    console.post("/review/wellbeing/", {})
    ReviewItemFactory(label=Label.TOXIC)
    assert set(care_of(ann).blurred) == set()
    assert WARNING not in read(console)


def test_what_nothing_judged_is_blurred_when_that_is_chosen(console: Client, ann: User) -> None:
    save_care(ann, care(blurred=["undetermined"]))
    ReviewItemFactory(label=None, cause=Cause.UNDETERMINED)
    assert WARNING in read(console)


def test_operator_has_nothing_to_choose(client: Client) -> None:
    operator = UserFactory(role=Role.OPERATOR)
    with pytest.raises(PermissionDenied):
        save_care(operator, care())
    client.force_login(operator)
    assert client.get("/review/wellbeing/").status_code == 403


def test_colour_holding_and_breaks_are_kept(console: Client, ann: User) -> None:
    chosen = {"is_gray": "1", "holds_to_reveal": "1", "break_after_min": "25"}
    console.post("/review/wellbeing/", {**chosen, "break_after_severe": "0", "blurred": ["toxic"]})
    own = care_of(ann)
    assert (own.is_gray, own.holds_to_reveal) == (True, True)
    assert (own.break_after_min, own.break_after_severe) == (25, 0)
    ReviewItemFactory(label=Label.TOXIC)
    html = read(console)
    assert re.search("<review-desk [^>]*data-gray", html)
    assert re.search("<reveal-veil [^>]*data-hold", html)
    assert "Hold to show" in html


@pytest.mark.parametrize("minutes", ["-1", "7", "x"])
def test_break_that_is_not_offered_changes_nothing(
    console: Client, ann: User, minutes: str
) -> None:
    assert console.post("/review/wellbeing/", {"break_after_min": minutes}).status_code == 400
    assert care_of(ann).break_after_min == 50


def test_history_and_range_are_blurred_likewise(console: Client, ann: User) -> None:
    item = ReviewItemFactory(label=Label.TOXIC, score=0.95)
    range_page = read(console, "/review/range/?label=toxic")
    assert "<div data-list data-veiled" in range_page
    assert range_page.index(WARNING) < range_page.index('class="range-list"')
    assert WARNING not in read(console, "/review/range/?label=spam")
    lease = open_item(ann, item.pk)
    choice = Choice(Action.REMOVE, Label.TOXIC)
    decide(ann, item.pk, token=lease.token, version=lease.version, choice=choice)
    past = read(console, "/review/history/")
    assert past.count("<tr data-veiled") == 1
    assert WARNING in past


def test_history_without_abuse_is_as_it_was(console: Client, ann: User) -> None:
    item = ReviewItemFactory(label=Label.AD)
    lease = open_item(ann, item.pk)
    choice = Choice(Action.REMOVE, Label.AD)
    decide(ann, item.pk, token=lease.token, version=lease.version, choice=choice)
    past = read(console, "/review/history/")
    assert "data-veiled" not in past
    assert WARNING not in past
