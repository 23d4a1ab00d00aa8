"""The pages of a wave work by forms alone, and ask a fixed number of queries."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Role, User
from apps.review.models import Decision, ReviewItem, ReviewState
from apps.review.services.leases import open_item
from tests.factories import MessageFactory, UserFactory
from tests.review.test_pages import lease_fields, read
from tests.review.test_waves import offers, taken_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def wave() -> list[int]:
    return taken_in(offers(7))


def test_row_and_card_say_how_many_and_where(console: Client, wave: list[int]) -> None:
    html = read(console)
    assert html.count('class="queue-row"') == 1
    assert re.search(r"×7</b> in 3 groups", html)
    assert html.count("data-member=") == 3
    assert "Its most different members" in html
    assert "what comes in the next 30 min joins" in html


def test_deciding_by_form_decides_all_and_says_how_many(console: Client, wave: list[int]) -> None:
    fields = lease_fields(read(console))
    console.post(f"/review/items/{wave[0]}/decide/", {**fields, "action": "remove"})
    assert Decision.objects.count() == 7
    html = read(console)
    assert "Removed: spam ×7" in html
    console.post(f"/review/decisions/{Decision.objects.order_by('-pk')[0].pk}/undo/")
    assert ReviewItem.objects.filter(state=ReviewState.OPEN).count() == 7


def test_answer_to_the_page_has_the_count(console: Client, wave: list[int]) -> None:
    fields = lease_fields(read(console))
    response = console.post(
        f"/review/items/{wave[0]}/decide/",
        {**fields, "action": "remove"},
        headers={"Accept": "application/json"},
    )
    assert response.json()["count"] == 7


def test_taking_out_by_form_leads_back_to_the_card(console: Client, wave: list[int]) -> None:
    token = lease_fields(read(console))["token"]
    url = f"/review/items/{wave[0]}/wave/{wave[2]}/out/"
    response = console.post(url, {"token": token})
    assert response["Location"] == f"/review/items/{wave[0]}/"
    assert "×6" in read(console)
    fragment = console.post(
        f"/review/items/{wave[0]}/wave/{wave[3]}/out/",
        {"token": lease_fields(read(console))["token"]},
        headers={"X-Fragment": "wave"},
    )
    assert "×5" in fragment.content.decode()


def test_all_members_can_be_read_page_by_page(console: Client) -> None:
    ids = taken_in(offers(120))
    seen: list[int] = []
    url = f"/review/items/{ids[0]}/wave/"
    while url:
        html = read(console, url)
        seen += [int(pk) for pk in re.findall(r'data-member="(\d+)"', html)]
        onward = re.search(r'href="(/review/items/\d+/wave/\?after=\d+)"', html)
        url = onward[1] if onward else ""
    assert seen == ids[1:]


def test_only_whoever_has_it_open_is_offered_to_take_out(
    console: Client, ann: User, wave: list[int]
) -> None:
    url = f"/review/items/{wave[0]}/wave/"
    assert "Take out" not in read(console, url)
    open_item(ann, wave[0])
    assert "Take out" in read(console, url)


def test_refusals_are_answered_as_such(console: Client, wave: list[int]) -> None:
    url = f"/review/items/{wave[0]}/wave/{wave[2]}/out/"
    assert console.post(url, {"token": "no"}).status_code == 302
    token = "00000000-0000-4000-8000-000000000000"
    refused = console.post(url, {"token": token}, headers={"X-Fragment": "wave"})
    assert refused.status_code in (302, 409)
    assert console.get("/review/items/5/wave/").status_code == 404
    assert console.get(f"/review/items/{wave[0]}/wave/?after=x").status_code == 404
    operator = UserFactory(role=Role.OPERATOR)
    console.force_login(operator)
    assert console.get(f"/review/items/{wave[0]}/wave/").status_code == 403
    assert console.post(url, {"token": token}).status_code == 403


def test_number_of_queries_does_not_grow_with_the_wave(console: Client) -> None:
    counts = []
    for size in (7, 60):
        taken_in(offers(size))
        read(console)
        with CaptureQueriesContext(connection) as captured:
            read(console)
        counts.append(len(captured))
        ReviewItem.objects.update(state=ReviewState.DECIDED)
    assert counts[0] == counts[1]


def test_members_with_hostile_texts_stay_in_their_boxes(console: Client) -> None:
    text = "<script>alert(1)</script> join the channel and earn a lot of money today {n}"
    ids = taken_in([MessageFactory(text=text.format(n=w)) for w in ("one", "two", "six")])
    html = read(console, f"/review/items/{ids[0]}/wave/")
    assert "<script>alert" not in html
    assert html.count("data-member=") == 2


def test_item_without_a_wave_has_no_page_of_members(console: Client) -> None:
    (alone,) = taken_in(offers(1))
    response = console.get(f"/review/items/{alone}/wave/")
    assert (response.status_code, response["Location"]) == (302, f"/review/items/{alone}/")


def test_taking_the_last_other_member_out_leaves_an_empty_fragment(console: Client) -> None:
    first, other = taken_in(offers(2))
    token = lease_fields(read(console))["token"]
    response = console.post(
        f"/review/items/{first}/wave/{other}/out/",
        {"token": token},
        headers={"X-Fragment": "wave"},
    )
    assert response.status_code == 200
    assert "wave-count" not in response.content.decode()
