"""The review page works by forms alone, says who may and who has it, and asks a fixed number."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.audit.models import AuditEvent
from apps.policies.models import Action, Label
from apps.review.models import Cause, Decision, ReviewItem, ReviewState
from apps.review.services.decisions import Choice, decide
from apps.review.services.leases import open_item, open_next, skip
from apps.webhooks.models import OutboxEvent
from tests.factories import (
    GroupFactory,
    MessageFactory,
    ReviewItemFactory,
    SenderFactory,
    UserFactory,
    VerdictFactory,
)

pytestmark = pytest.mark.django_db

QUEUE = "/review/"
HOSTILE = [
    "<script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "safe \u202egpj.exe",
    "fr\u2062ee m\u200bon\u2068ey",
    "z" + "\u0300" * 60,
    "{{ 7|add:7 }} {% now 'Y' %}",
    "\ufeff",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "a" * 15_000,
    "שלום" * 50,
    "=cmd()",
    " ",
]


def read(client: Client, url: str = QUEUE, **headers: str) -> str:
    response = client.get(url, headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def lease_fields(html: str) -> dict[str, str]:
    """What the card's form would send."""
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', html))
    fields.pop("csrfmiddlewaretoken", None)
    return fields


# ---------- by forms alone ----------


def test_page_opens_the_most_urgent_item(console: Client, ann: User) -> None:
    ReviewItemFactory(priority=0.2)
    item = ReviewItemFactory(priority=0.9, verdict__message__text="Join my group")
    html = read(console)
    assert f'data-item="{item.pk}" data-state="leased"' in html
    item.refresh_from_db()
    assert item.leased_by == ann


def test_deciding_by_form_leads_to_the_next_and_offers_undo(console: Client) -> None:
    item = ReviewItemFactory(priority=0.9)
    after = ReviewItemFactory(priority=0.2)
    fields = lease_fields(read(console))
    response = console.post(f"/review/items/{item.pk}/decide/", {**fields, "action": "remove"})
    assert response["Location"] == QUEUE
    html = read(console)
    decision = Decision.objects.get()
    assert (decision.action, decision.label) == ("remove", "spam")
    assert f'data-item="{after.pk}" data-state="leased"' in html
    assert f'action="/review/decisions/{decision.pk}/undo/' in html


def test_undo_by_form_brings_the_message_back(console: Client) -> None:
    item = ReviewItemFactory()
    console.post(
        f"/review/items/{item.pk}/decide/", {**lease_fields(read(console)), "action": "remove"}
    )
    console.post(f"/review/decisions/{Decision.objects.get().pk}/undo/")
    assert f'data-item="{item.pk}" data-state="leased"' in read(console)


def test_allowed_means_ok_unless_another_label_is_chosen(console: Client) -> None:
    for chosen, stored in (("", "ok"), ("ad", "ad")):
        item = ReviewItemFactory()
        fields = {**lease_fields(read(console)), "action": "allow", "label": chosen}
        console.post(f"/review/items/{item.pk}/decide/", fields)
        assert Decision.objects.get(item=item).label == stored


def test_what_nothing_judged_needs_a_label_to_be_removed(console: Client) -> None:
    item = ReviewItemFactory(label=None, cause=Cause.UNDETERMINED)
    fields = {**lease_fields(read(console)), "action": "remove"}
    response = console.post(
        f"/review/items/{item.pk}/decide/", fields, headers={"Accept": "application/json"}
    )
    assert response.status_code == 400
    assert list(response.json()["fields"]) == ["label"]
    console.post(f"/review/items/{item.pk}/decide/", {**fields, "label": "toxic"})
    assert Decision.objects.get().label == "toxic"


def test_filters_stay_in_the_address(console: Client) -> None:
    item = ReviewItemFactory(label=Label.TOXIC)
    html = read(console, "/review/?label=toxic")
    response = console.post(
        f"/review/items/{item.pk}/decide/?label=toxic", {**lease_fields(html), "action": "allow"}
    )
    assert response["Location"] == "/review/?label=toxic"


@pytest.mark.parametrize(
    "query", ["label=bogus", "group=x", "group=-1", "group=9" * 9, "cause=%00"]
)
def test_filter_that_makes_no_sense_is_left_out(console: Client, query: str) -> None:
    item = ReviewItemFactory()
    assert f'data-item="{item.pk}"' in read(console, f"/review/?{query}")


def test_empty_queue_says_so_and_offers_what_was_skipped(console: Client, ann: User) -> None:
    assert "Nothing to review" in read(console)
    ReviewItemFactory()
    lease = open_next(ann)
    skip(ann, lease.item_id, lease.token)
    assert "Only 1 message that you skipped is left." in read(console)
    console.post("/review/skips/forget/")
    assert 'data-state="leased"' in read(console)


def test_reason_is_stored_told_and_audited(console: Client) -> None:
    item = ReviewItemFactory()
    fields = {**lease_fields(read(console)), "action": "remove", "reason": "fraud"}
    console.post(f"/review/items/{item.pk}/decide/", fields)
    assert Decision.objects.get().reason == "fraud"
    assert OutboxEvent.objects.get().payload["reason"] == "fraud"
    assert AuditEvent.objects.get(action="review.decided").after["reason"] == "fraud"
    assert "scam or phishing" in read(console, "/review/history/")


def test_reason_that_is_none_of_ours_is_refused(console: Client) -> None:
    item = ReviewItemFactory()
    fields = {**lease_fields(read(console)), "action": "remove", "reason": "because"}
    console.post(f"/review/items/{item.pk}/decide/", fields)
    assert not Decision.objects.exists()


# ---------- an answer that was lost ----------


def test_decision_whose_answer_was_lost_is_taken_back_by_its_lease(console: Client) -> None:
    item = ReviewItemFactory()
    fields = lease_fields(read(console))
    console.post(f"/review/items/{item.pk}/decide/", {**fields, "action": "remove"})
    answer = console.post(f"/review/items/{item.pk}/recall/", {"token": fields["token"]}).json()
    assert Decision.objects.get().undone_at is not None
    assert not OutboxEvent.objects.exists()
    again = {"token": answer["token"], "version": answer["version"], "action": "allow"}
    console.post(f"/review/items/{item.pk}/decide/", again)
    assert Decision.objects.get(undone_at__isnull=True).action == "allow"


def test_decision_that_comes_after_its_recall_changes_nothing(console: Client) -> None:
    item = ReviewItemFactory()
    fields = lease_fields(read(console))
    console.post(f"/review/items/{item.pk}/recall/", {"token": fields["token"]})
    console.post(f"/review/items/{item.pk}/decide/", {**fields, "action": "remove"})
    assert not Decision.objects.exists()


def test_recall_after_the_grace_time_is_refused(console: Client, settings: Any) -> None:
    settings.REVIEW_UNDO_S = 0
    item = ReviewItemFactory()
    fields = lease_fields(read(console))
    console.post(f"/review/items/{item.pk}/decide/", {**fields, "action": "remove"})
    response = console.post(
        f"/review/items/{item.pk}/recall/",
        {"token": fields["token"]},
        headers={"Accept": "application/json"},
    )
    assert response.status_code == 409
    assert Decision.objects.get().undone_at is None


def test_recalled_skip_brings_the_message_back(console: Client, ann: User) -> None:
    item = ReviewItemFactory()
    fields = lease_fields(read(console))
    console.post(f"/review/items/{item.pk}/skip/", fields)
    assert console.post(f"/review/items/{item.pk}/recall/", fields).status_code == 200
    item.refresh_from_db()
    assert item.leased_by == ann


# ---------- others ----------


def test_item_that_somebody_has_is_shown_to_look_at(console: Client, bob: User) -> None:
    item = ReviewItemFactory()
    open_next(bob)
    html = read(console, f"/review/items/{item.pk}/")
    assert "bob has it open now." in html
    assert 'name="token"' not in html


def test_decided_item_shows_by_whom(console: Client, bob: User) -> None:
    ReviewItemFactory()
    lease = open_next(bob)
    decide(
        bob,
        lease.item_id,
        token=lease.token,
        version=lease.version,
        choice=Choice(Action.REMOVE, Label.SPAM),
    )
    html = read(console, f"/review/items/{lease.item_id}/look/")
    assert "bob removed it" in html


def test_loser_is_told_who_won(console: Client, ann: User, bob: User) -> None:
    item = ReviewItemFactory()
    fields = lease_fields(read(console))
    lease = open_next(bob, now=timezone.now() + timedelta(hours=1))
    decide(
        bob,
        item.pk,
        token=lease.token,
        version=lease.version,
        choice=Choice(Action.ALLOW, Label.OK),
    )
    response = console.post(
        f"/review/items/{item.pk}/decide/",
        {**fields, "action": "remove"},
        headers={"Accept": "application/json"},
    )
    assert response.status_code == 409
    assert response.json()["kind"] == "decided"
    assert response.json()["sub"].startswith("bob allowed it")


def test_extending_says_what_is_left_and_nothing_of_a_lost_lease(console: Client) -> None:
    item = ReviewItemFactory()
    token = lease_fields(read(console))["token"]
    url = f"/review/items/{item.pk}/extend/"
    assert console.post(url, {"token": token}).json()["left_ms"] > 0
    assert console.post(url, {"token": uuid4()}).json() == {"left_ms": None}


def test_asking_how_a_lease_stands_does_not_extend_it(console: Client) -> None:
    item = ReviewItemFactory()
    token = lease_fields(read(console))["token"]
    ends = timezone.now() + timedelta(seconds=30)
    ReviewItem.objects.update(lease_until=ends)
    url = f"/review/items/{item.pk}/ask/"
    assert 0 < console.post(url, {"token": token}).json()["left_ms"] <= 30_000
    assert console.post(url, {"token": uuid4()}).json() == {"left_ms": None}
    item.refresh_from_db()
    assert item.lease_until == ends
    ReviewItem.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert console.post(url, {"token": token}).json() == {"left_ms": 0}


def test_closed_tab_gives_the_item_back(console: Client) -> None:
    item = ReviewItemFactory()
    token = lease_fields(read(console))["token"]
    response = console.post(f"/review/items/{item.pk}/release/", {"token": token})
    assert response.status_code == 204
    item.refresh_from_db()
    assert item.leased_by is None


def test_sign_out_gives_everything_back(console: Client) -> None:
    item = ReviewItemFactory()
    read(console)
    console.post("/sign-out/")
    item.refresh_from_db()
    assert item.leased_by is None


def test_next_card_comes_beside_those_that_are_open(console: Client) -> None:
    first, second = ReviewItemFactory(priority=0.9), ReviewItemFactory(priority=0.5)
    read(console)
    html = console.post("/review/next/", {"besides": [first.pk]}).content.decode()
    assert f'data-item="{second.pk}" data-state="leased"' in html
    both = {"besides": [first.pk, second.pk]}
    assert 'data-state="empty"' in console.post("/review/next/", both).content.decode()


@pytest.mark.parametrize("besides", ["x", "1.5", "²", ""])
def test_nonsense_beside_is_refused(console: Client, besides: str) -> None:
    assert console.post("/review/next/", {"besides": [besides]}).status_code == 400


# ---------- history ----------


def test_history_shows_ones_own_and_takes_fresh_ones_back(
    console: Client, ann: User, bob: User
) -> None:
    for user, text in ((ann, "Mine"), (bob, "Theirs")):
        item = ReviewItemFactory(verdict__message__text=text)
        lease = open_item(user, item.pk)
        choice = Choice(Action.REMOVE, Label.SPAM)
        decide(user, item.pk, token=lease.token, version=1, choice=choice)
    html = read(console, "/review/history/")
    assert "Mine" in html
    assert "Theirs" not in html
    mine = Decision.objects.get(moderator=ann)
    response = console.post(f"/review/decisions/{mine.pk}/undo/", {"history": "1"})
    assert response["Location"] == "/review/history/"
    assert "taken back" in read(console, "/review/history/")


def test_older_decision_is_reversed_from_the_history(console: Client, ann: User) -> None:
    item = ReviewItemFactory()
    lease = open_item(ann, item.pk)
    old = timezone.now() - timedelta(hours=1)
    first = decide(
        ann,
        item.pk,
        token=lease.token,
        version=1,
        choice=Choice(Action.REMOVE, Label.SPAM),
        now=old,
    )
    assert "Reverse to" in read(console, "/review/history/")
    console.post(f"/review/decisions/{first.pk}/reverse/", {"choice": "allow:ok"})
    assert "reversed by ann" in read(console, "/review/history/")
    assert Decision.objects.get(undone_at__isnull=True).action == "allow"


def test_everybodys_history_is_for_leads(client: Client, ann: User, bob: User) -> None:
    item = ReviewItemFactory(verdict__message__text="Theirs")
    lease = open_item(bob, item.pk)
    choice = Choice(Action.REMOVE, Label.SPAM)
    decide(bob, item.pk, token=lease.token, version=1, choice=choice)
    for user, sees in ((ann, False), (UserFactory(role=Role.LEAD), True)):
        client.force_login(user)
        assert ("Theirs" in read(client, "/review/history/?everybody=1")) == sees


# ---------- counts ----------


def test_counts_are_those_of_the_table(console: Client) -> None:
    ReviewItemFactory.create_batch(3)
    ReviewItemFactory.create_batch(2, label=Label.AD)
    ReviewItemFactory(label=None, cause=Cause.UNDETERMINED)
    ReviewItemFactory(state=ReviewState.DECIDED)
    shown = dict(re.findall(r'data-count="(\w+)">([\d,]+)<', read(console, "/review/rows/")))
    assert shown == {"all": "6", "spam": "3", "toxic": "0", "ad": "2", "undetermined": "1"}


def test_rows_end_with_how_many_more_there_are(console: Client) -> None:
    group = GroupFactory()
    ReviewItemFactory.create_batch(53, verdict__message__group=group)
    html = read(console, "/review/rows/")
    assert html.count('class="queue-row"') == 50
    assert "and 3 more" in html


# ---------- hostile texts ----------


@pytest.mark.parametrize("text", HOSTILE)
def test_card_and_queue_show_whatever_people_wrote(console: Client, text: str) -> None:
    sender = SenderFactory(name=text[:200])
    group = GroupFactory(name=text[:200])
    message = MessageFactory(text=text, quoted_text=text, sender=sender, group=group)
    MessageFactory.create_batch(3, text=text, sender=sender, group=group)
    ReviewItemFactory(verdict=VerdictFactory(message=message, reasons=[text[:200]]))
    html = read(console)
    assert "<script>alert" not in html
    assert 'onmouseover="alert' not in html
    assert not set(html) & set("\u202e\u2068\u200b\u2062\ufeff")
    assert 'data-state="leased"' in html


def test_disguised_text_is_shown_as_sent_and_as_read(console: Client) -> None:
    ReviewItemFactory(verdict__message__text="fr\u0435\u0435 m\u200boney")
    html = read(console)
    assert "As read" in html
    assert ">free money<" in html
    assert 'data-cp="0435"' in html
    assert ">ZWSP<" in html


@pytest.mark.parametrize("missing", ["verdict", "scores", "name"])
def test_card_without_verdict_scores_or_name_can_be_decided(console: Client, missing: str) -> None:
    item = ReviewItemFactory(verdict__message__sender__name="")
    if missing == "verdict":
        item.message.verdict_set.all().delete()
    if missing == "scores":
        item.message.verdict_set.update(
            score_ok=None, score_spam=None, score_toxic=None, score_ad=None
        )
    fields = lease_fields(read(console))
    console.post(f"/review/items/{item.pk}/decide/", {**fields, "action": "remove"})
    assert Decision.objects.filter(item=item).exists()


# ---------- rights ----------


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("get", QUEUE),
        ("get", "/review/rows/"),
        ("get", "/review/items/1/"),
        ("get", "/review/items/1/look/"),
        ("get", "/review/items/1/spans/"),
        ("get", "/review/items/1/conversation/?each=5"),
        ("post", "/review/next/"),
        ("post", "/review/skips/forget/"),
        ("post", "/review/items/1/open/"),
        ("post", "/review/items/1/decide/"),
        ("post", "/review/items/1/skip/"),
        ("post", "/review/items/1/escalate/"),
        ("post", "/review/items/1/ask/"),
        ("post", "/review/items/1/extend/"),
        ("post", "/review/items/1/release/"),
        ("post", "/review/items/1/recall/"),
        ("post", "/review/views/"),
        ("post", "/review/views/1/forget/"),
        ("get", "/review/keys/"),
        ("post", "/review/keys/"),
        ("post", "/review/keys/reset/"),
        ("post", "/review/decisions/1/undo/"),
        ("post", "/review/decisions/1/reverse/"),
        ("get", "/review/history/"),
        ("get", "/review/wellbeing/"),
        ("post", "/review/wellbeing/"),
        ("get", "/review/wellbeing/reminder/"),
        ("post", "/review/wellbeing/later/"),
        ("post", "/review/items/revealed/"),
    ],
)
def test_only_who_may_review_gets_in(client: Client, method: str, url: str) -> None:
    call: Callable[..., Any] = getattr(client, method)
    assert call(url)["Location"].startswith("/sign-in/")
    client.force_login(UserFactory(role=Role.OPERATOR))
    assert call(url).status_code == 403


@pytest.mark.parametrize("number", [1, 2**70])
def test_unknown_items_are_not_found(console: Client, number: int) -> None:
    fields = {"token": uuid4(), "version": 1, "action": "allow"}
    for url in ("decide", "skip", "escalate", "open", "recall"):
        assert console.post(f"/review/items/{number}/{url}/", fields).status_code == 404
    assert console.get(f"/review/items/{number}/").status_code == 404
    assert console.get(f"/review/items/{number}/look/").status_code == 404
    assert console.get(f"/review/items/{number}/spans/").status_code == 404
    assert console.get(f"/review/items/{number}/conversation/?each=9").status_code == 404
    assert console.post(f"/review/decisions/{number}/undo/").status_code == 404


# ---------- queries ----------


def crowd(size: int) -> None:
    """`size` open items with a conversation and a past around each."""
    for _ in range(size):
        sender, group = SenderFactory(), GroupFactory()
        past = MessageFactory.create_batch(4, sender=sender, group=group)
        ReviewItemFactory(verdict__message=MessageFactory(sender=sender, group=group), priority=0.9)
        for message in [*past, *MessageFactory.create_batch(4, sender=sender, group=group)]:
            ReviewItemFactory(verdict=VerdictFactory(message=message), priority=0.1)


@pytest.mark.parametrize(
    ("method", "url", "queries"),
    [("get", QUEUE, 22), ("get", "/review/rows/", 7), ("post", "/review/next/", 16)],
)
def test_number_of_queries_does_not_grow(
    console: Client, method: str, url: str, queries: int
) -> None:
    crowd(1)
    getattr(console, method)(url)  # takes its first lease
    counts = []
    for size in (1, 6):
        crowd(size)
        with CaptureQueriesContext(connection) as captured:
            getattr(console, method)(url)
        counts.append(len(captured))
    assert counts == [queries, queries]
