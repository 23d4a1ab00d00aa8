"""What people arrange for themselves: saved views, keys; and how the queue's pace is counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.test import Client
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.audit.models import AuditEvent
from apps.policies.models import Action, Label
from apps.review import keys
from apps.review.models import (
    Cause,
    KeyMap,
    Language,
    QueueFlow,
    QueueSample,
    ReviewItem,
    ReviewState,
    SavedView,
)
from apps.review.own_facts import View, own_facts
from apps.review.queue import QueueFilters, query_of
from apps.review.queue_page import FOUND_MOST, groups_with_work, queue_page
from apps.review.services import tally
from apps.review.services.decisions import Choice, decide, undo_decision
from apps.review.services.keymaps import reset_keys, save_keys
from apps.review.services.leases import open_item
from apps.review.services.saved_views import (
    VIEWS_MOST,
    TooManyViewsError,
    forget_view,
    save_view,
)
from tests.factories import GroupFactory, ReviewItemFactory, UserFactory

pytestmark = pytest.mark.django_db

SPAM = QueueFilters(label=Label.SPAM, language=Language.ZH, text="薇信")


def read(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200
    return response.content.decode()


# ---------- saved views ----------


def views_of(user: User) -> Sequence[View]:
    now = timezone.now()
    return own_facts(user, today_since=now, undoable_since=now).views


def test_view_leads_to_the_address_it_was_saved_from(console: Client) -> None:
    item = ReviewItemFactory(verdict__message__text="加薇信", language=Language.ZH)
    ReviewItemFactory(priority=0.9)
    address = f"/review/?{query_of(SPAM)}"
    response = console.post(address.replace("/review/", "/review/views/"), {"name": "weixin"})
    assert response["Location"] == address
    html = read(console, address)
    assert f'href="{address.replace("&", "&amp;")}"' in html
    assert f'data-item="{item.pk}" data-state="leased"' in html


def test_view_of_the_same_name_is_replaced(ann: User) -> None:
    for filters in (SPAM, QueueFilters(), SPAM):
        save_view(ann, "mine", filters)
    assert [view.query for view in views_of(ann)] == [query_of(SPAM)]
    assert AuditEvent.objects.filter(action="review.view_saved").count() == 3
    assert "薇" not in str(list(AuditEvent.objects.values_list("after", flat=True)))


def test_views_are_ones_own(ann: User) -> None:
    view = save_view(ann, "mine", SPAM)
    other = UserFactory()
    assert not forget_view(other, view.pk)
    assert not views_of(other)
    assert forget_view(ann, view.pk)
    assert not forget_view(ann, view.pk)


def test_there_is_room_for_so_many_views(ann: User, console: Client) -> None:
    for number in range(VIEWS_MOST):
        save_view(ann, f"view {number}", QueueFilters())
    with pytest.raises(TooManyViewsError):
        save_view(ann, "one more", QueueFilters())
    save_view(ann, "view 0", SPAM)
    response = console.post("/review/views/", {"name": "one more"}, follow=True)
    assert "There is room for 20 views." in response.content.decode()


@pytest.mark.parametrize("name", ["", " ", "x" * 41, "a\x00b"])
def test_view_without_a_usable_name_is_refused(console: Client, name: str) -> None:
    console.post("/review/views/", {"name": name})
    assert not SavedView.objects.exists()


@pytest.mark.parametrize("name", ["<script>", "\u202egpj", "=cmd()", "''\""])
def test_hostile_name_stays_a_name(console: Client, name: str) -> None:
    console.post("/review/views/", {"name": name})
    html = read(console, "/review/")
    assert "<script>" not in html.replace("<script type", "").replace("<script src", "")
    assert "\u202e" not in html


# ---------- keys ----------


def test_changed_key_is_on_the_page_and_the_old_one_is_free(console: Client, ann: User) -> None:
    ReviewItemFactory()
    response = console.post("/review/keys/", {"allow": "G", "hold": "a"})
    assert response["Location"] == "/review/keys/"
    assert KeyMap.objects.get(person=ann).keys == {"allow": "g", "hold": "a"}
    html = read(console, "/review/")
    assert '<kbd class="kbd">G</kbd>Allow' in html
    assert "&quot;g&quot;: &quot;allow&quot;" in html
    assert "&quot;a&quot;: &quot;hold&quot;" in html


@pytest.mark.parametrize(
    ("wanted", "wrong"),
    [
        ({"allow": "r"}, {"remove"}),
        ({"allow": "?"}, {"allow"}),
        ({"allow": "'"}, {"allow"}),
        ({"allow": "ab"}, {"allow"}),
        ({"allow": "\u200b"}, {"allow"}),
        ({"note": "q", "search": "Q"}, {"search"}),
    ],
)
def test_key_that_clashes_or_cannot_be_pressed_is_refused(
    console: Client, wanted: dict[str, str], wrong: set[str]
) -> None:
    with pytest.raises(keys.KeyRefusedError) as refused:
        keys.checked(wanted)
    assert set(refused.value.problems) == wrong
    response = console.post("/review/keys/", wanted)
    assert response.status_code == 400
    assert response.content.decode().count('aria-invalid="true"') == len(wrong)
    assert not KeyMap.objects.exists()


def test_no_two_commands_are_made_with_the_same_key() -> None:
    assert len(set(keys.DEFAULTS.values())) == len(keys.DEFAULTS)
    assert not set(keys.DEFAULTS.values()) & keys.RESERVED


def test_reset_brings_all_keys_back_and_both_are_audited_once(ann: User) -> None:
    save_keys(ann, {"allow": "g"})
    save_keys(ann, {"allow": "g"})
    assert reset_keys(ann) == keys.DEFAULTS
    actions = AuditEvent.objects.filter(action="review.keys_changed").order_by("pk")
    assert [(event.before, event.after) for event in actions] == [
        ({}, {"allow": "g"}),
        ({"allow": "g"}, {}),
    ]


def test_stored_key_that_a_new_command_took_gives_way() -> None:
    assert keys.merged({"allow": "r"}) == keys.DEFAULTS
    assert keys.merged({"no such command": "g"}) == keys.DEFAULTS


@pytest.mark.parametrize(
    "write",
    [
        lambda user: save_keys(user, {}),
        lambda user: save_view(user, "x", QueueFilters()),
        lambda user: forget_view(user, 1),
    ],
)
def test_who_may_not_review_arranges_nothing(write: Callable[[User], Any]) -> None:
    with pytest.raises(PermissionDenied):
        write(UserFactory(role=Role.OPERATOR))


# ---------- pace ----------


def flow() -> tuple[int, int]:
    rows = QueueFlow.objects.values_list("arrived", "decided")
    return sum(row[0] for row in rows), sum(row[1] for row in rows)


def test_arrivals_and_decisions_are_counted_and_what_is_taken_back_is_not(ann: User) -> None:
    items = [ReviewItemFactory() for _ in range(3)]
    assert flow() == (3, 0)
    made = []
    for item in items[:2]:
        lease = open_item(ann, item.pk)
        choice = Choice(Action.REMOVE, Label.SPAM)
        made.append(decide(ann, item.pk, token=lease.token, version=1, choice=choice))
    assert flow() == (3, 2)
    undo_decision(ann, made[0].pk)
    ReviewItem.objects.filter(pk=items[2].pk).update(state=ReviewState.WITHDRAWN)
    assert flow() == (3, 1)


def test_minutes_are_added_up_and_old_ones_dropped() -> None:
    now = timezone.now()
    minute = now.replace(second=0, microsecond=0) - timedelta(minutes=5)
    for _ in range(3):
        QueueFlow.objects.create(minute=minute, arrived=2, decided=1)
    QueueFlow.objects.create(minute=now - timedelta(days=16), arrived=1, decided=1)
    tally.settle()
    tally.sample(now=now)
    assert list(QueueFlow.objects.values_list("minute", "arrived", "decided")) == [(minute, 6, 3)]


def test_page_shows_pace_age_and_target(console: Client) -> None:
    now = timezone.now()
    ReviewItemFactory(opened_at=now - timedelta(minutes=6))
    html = read(console, "/review/rows/")
    assert 'data-state="degraded">Oldest' in html
    assert 'goal <b class="num">5:00</b>' in html
    pace = queue_page(UserFactory(), QueueFilters()).pace
    assert 0.09 <= pace.arrived_per_min <= 0.1
    assert pace.decided_per_min == 0


def test_queue_is_sampled_once_a_minute() -> None:
    at = datetime(2026, 11, 30, 12, 0, 10, tzinfo=timezone.get_default_timezone())
    ReviewItemFactory(opened_at=at - timedelta(seconds=70))
    for second in (0, 20, 40):
        tally.sample(now=at + timedelta(seconds=second))
    (sample,) = QueueSample.objects.all()
    assert (sample.open_items, sample.oldest_age_s) == (1, 70)
    assert sample.minute == at.replace(second=0)


def test_change_that_is_rolled_back_is_no_arrival() -> None:
    with transaction.atomic():
        ReviewItemFactory()
        transaction.set_rollback(True)
    assert flow() == (0, 0)


# ---------- counts and filters ----------


def test_counts_are_those_of_the_language(console: Client) -> None:
    ReviewItemFactory(language=Language.ZH)
    ReviewItemFactory.create_batch(2, language=Language.EN)
    for query, total in (("", 3), ("?lang=zh", 1), ("?lang=en", 2), ("?lang=tlh", 3)):
        assert f'data-count="all">{total}<' in read(console, f"/review/rows/{query}")


def test_search_says_when_it_stopped_counting(
    console: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert FOUND_MOST == 1000
    monkeypatch.setattr("apps.review.queue_page.FOUND_MOST", 2)
    ReviewItemFactory.create_batch(2, verdict__message__text="free coins")
    assert "2 with “coins”" in read(console, "/review/rows/?q=coins")
    ReviewItemFactory(verdict__message__text="free coins")
    assert "1,000+ with “coins”" in read(console, "/review/rows/?q=coins")


def test_busiest_groups_and_the_chosen_one_are_offered(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.review.queue_page.GROUPS_LISTED", 1)
    busy, quiet = GroupFactory(name="Busy"), GroupFactory(name="", external_id="a quiet one")
    ReviewItemFactory.create_batch(2, verdict__message__group=busy)
    ReviewItemFactory(verdict__message__group=quiet)
    assert groups_with_work(ann, None) == [(busy.pk, "Busy")]
    assert groups_with_work(ann, quiet.pk) == [
        (quiet.pk, "a quiet one"),
        (busy.pk, "Busy"),
    ]


def test_view_with_a_long_search_in_chinese_is_saved(client: Client) -> None:
    user = UserFactory()
    client.force_login(user)
    wanted = "\u5b57" * 200
    client.post(f"/review/views/?q={wanted}", {"name": "long"})
    (view,) = SavedView.objects.filter(person=user)
    assert client.get(f"/review/?{view.query}").context["filters"].text == wanted


def test_undo_says_the_key_that_somebody_gave_it(client: Client) -> None:
    user = UserFactory()
    client.force_login(user)
    save_keys(user, {"undo": "z"})
    lease = open_item(user, ReviewItemFactory().pk)
    decide(
        user,
        lease.item_id,
        token=lease.token,
        version=lease.version,
        choice=Choice(Action.ALLOW, Label.OK),
    )
    html = client.get("/review/").content.decode()
    bar = html[html.index("<undo-bar") : html.index("</undo-bar>")]
    assert 'data-key="Z"' in bar
    assert '<kbd class="kbd">Z</kbd>' in bar


def test_rest_of_a_cause_is_counted_by_that_cause(client: Client) -> None:
    client.force_login(UserFactory())
    ReviewItemFactory.create_batch(2, cause=Cause.REPORTED)
    ReviewItemFactory.create_batch(5, cause=Cause.UNDETERMINED, label=None)
    assert client.get("/review/?cause=reported").context["hidden"] == 0
    assert client.get("/review/?cause=undetermined").context["hidden"] == 0
