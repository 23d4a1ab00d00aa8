"""What somebody saw is counted once, the team's sum names nobody, and a break comes due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.policies.models import Label
from apps.review.exposure import (
    PAUSE,
    Seen,
    care_of,
    own_figures,
    reminder,
    spell_of,
    team_figures,
)
from apps.review.models import Exposure, Wellbeing
from apps.review.services.leases import open_item
from apps.review.services.wellbeing import (
    KEEP_DAYS,
    PUT_OFF,
    count_shown,
    forget_old_exposures,
    put_off_break,
)
from tests.factories import ReviewItemFactory, UserFactory
from tests.review.test_pages import read

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def seen(user: User) -> tuple[int, int]:
    today = own_figures(user, now=timezone.now())["today"]
    return today.shown, today.severe


def work(user: User, minutes: int, *, until: datetime = NOW, severe: bool = False) -> None:
    """A message a minute."""
    for number in range(minutes + 1):
        seen_at = until - number * MINUTE
        Exposure.objects.create(
            person=user,
            day=timezone.localdate(seen_at),
            message_id=Exposure.objects.count() + 1,
            seen_at=seen_at,
            is_severe=severe,
        )


# ---------- counting ----------


def test_message_counts_once_in_two_tabs_and_after_reloading(console: Client, ann: User) -> None:
    item = ReviewItemFactory(label=Label.SPAM)
    for _ in range(2):
        read(console)
        read(console, f"/review/items/{item.pk}/look/")
    lease = open_item(ann, item.pk)
    for _ in range(2):
        console.post(f"/review/items/{item.pk}/extend/", {"token": lease.token, "shown": 1})
    assert seen(ann) == (1, 0)


def test_card_fetched_ahead_counts_when_it_is_on_the_desk(console: Client, ann: User) -> None:
    item = ReviewItemFactory(label=Label.SPAM)
    console.post("/review/next/")
    assert seen(ann) == (0, 0)
    console.post(f"/review/items/{item.pk}/extend/", {"token": uuid4()})
    assert seen(ann) == (0, 0)
    console.post(f"/review/items/{item.pk}/extend/", {"token": uuid4(), "shown": 1})
    assert seen(ann) == (1, 0)


def test_blurred_abuse_is_severe_once_it_is_shown(console: Client, ann: User) -> None:
    item = ReviewItemFactory(label=Label.TOXIC)
    read(console)
    assert seen(ann) == (1, 0)
    for _ in range(2):
        assert console.post("/review/items/revealed/", {"item": item.pk}).status_code == 204
    assert seen(ann) == (1, 1)
    read(console)
    assert seen(ann) == (1, 1)


def test_abuse_that_is_not_blurred_is_severe_at_once(console: Client, ann: User) -> None:
    Wellbeing.objects.create(person=ann, blurred=["spam"])
    ReviewItemFactory(label=Label.TOXIC)
    read(console)
    assert seen(ann) == (1, 1)


@pytest.mark.parametrize("label", [Label.SPAM, Label.AD, None])
def test_nothing_else_is_severe_when_shown(ann: User, label: Label | None) -> None:
    item = ReviewItemFactory(label=label)
    count_shown(ann, [item.pk], is_revealed=True)
    assert seen(ann) == (1, 0)


def test_list_by_score_counts_what_it_lists(console: Client, ann: User) -> None:
    for score in (0.95, 0.97, 0.4):
        ReviewItemFactory(label=Label.TOXIC, score=score)
    read(console, "/review/range/?label=toxic&low=0.9&high=1")
    assert seen(ann) == (2, 0)


@pytest.mark.parametrize("item", ["x", "-1", "9" * 30, ""])
def test_nonsense_is_not_counted(console: Client, ann: User, item: str) -> None:
    assert console.post("/review/items/revealed/", {"item": item}).status_code == 400
    assert console.post("/review/items/revealed/", {"item": 12345}).status_code == 204
    assert seen(ann) == (0, 0)


def test_counting_is_one_statement_however_many(ann: User) -> None:
    items = [ReviewItemFactory(label=Label.TOXIC).pk for _ in range(3)]
    for shown in (items[:1], items):
        with CaptureQueriesContext(connection) as captured:
            count_shown(ann, shown)
        assert len(captured) == 1
    assert seen(ann) == (3, 0)


def test_same_message_counts_again_on_another_day(ann: User) -> None:
    item = ReviewItemFactory(label=Label.TOXIC)
    for days_ago in (0, 1, 6, 7):
        count_shown(ann, [item.pk], now=NOW - timedelta(days=days_ago))
    assert own_figures(ann, now=NOW) == {"today": Seen(1, 0), "week": Seen(3, 0)}


def test_old_days_are_forgotten(ann: User) -> None:
    item = ReviewItemFactory()
    for days_ago in (KEEP_DAYS, KEEP_DAYS + 1):
        count_shown(ann, [item.pk], now=NOW - timedelta(days=days_ago))
    assert forget_old_exposures(now=NOW) == 1
    assert Exposure.objects.get().day == timezone.localdate(NOW) - timedelta(days=KEEP_DAYS)


# ---------- who sees it ----------


def test_lead_sees_the_teams_sum_and_no_names(client: Client, ann: User) -> None:
    lead, now = UserFactory(username="lea", role=Role.LEAD), timezone.now()
    work(ann, 6, until=now, severe=True)
    work(UserFactory(username="bob"), 4, until=now)
    week = team_figures(lead, now=now)["week"]
    assert (week.shown, week.severe) == (12, 7)
    client.force_login(lead)
    html = read(client, "/review/wellbeing/")
    assert "What the whole team saw" in html
    assert "ann" not in html.split("What the whole team saw")[1].split("</table>")[0]
    assert "bob" not in html.split("What the whole team saw")[1].split("</table>")[0]


def test_moderator_sees_only_their_own(console: Client, ann: User) -> None:
    work(UserFactory(), 4, until=timezone.now())
    assert "What the whole team saw" not in read(console, "/review/wellbeing/")
    assert own_figures(ann, now=timezone.now())["week"] == Seen(0, 0)
    with pytest.raises(PermissionDenied):
        team_figures(ann, now=NOW)


def test_operator_counts_nothing() -> None:
    operator = UserFactory(role=Role.OPERATOR)
    with pytest.raises(PermissionDenied):
        count_shown(operator, [1])
    with pytest.raises(PermissionDenied):
        put_off_break(operator)


# ---------- breaks ----------


def test_pause_ends_a_spell() -> None:
    times = [NOW - MINUTE, NOW - 5 * MINUTE, NOW - 5 * MINUTE - PAUSE]
    assert spell_of([(at, True) for at in times], NOW).minutes == 5
    assert spell_of([(at, True) for at in times], NOW).severe == 2
    assert spell_of([(NOW - PAUSE, True)], NOW).severe == 0
    assert spell_of([], NOW).minutes == 0


def test_long_work_brings_a_reminder_that_says_why(ann: User) -> None:
    work(ann, 49)
    assert reminder(ann, now=NOW) is None
    due = reminder(ann, now=NOW + MINUTE)
    assert due is not None
    assert (due.is_long, due.is_severe, due.spell.minutes) == (True, False, 50)


def test_many_severe_ones_bring_a_reminder(ann: User) -> None:
    Wellbeing.objects.create(person=ann, break_after_severe=20)
    work(ann, 18, severe=True)
    assert reminder(ann, now=NOW) is None
    work(ann, 0, severe=True)
    due = reminder(ann, now=NOW)
    assert due is not None
    assert (due.is_long, due.is_severe, due.spell.severe) == (False, True, 20)


def test_break_taken_ends_the_reminder(ann: User) -> None:
    work(ann, 60)
    assert reminder(ann, now=NOW) is not None
    assert reminder(ann, now=NOW + PAUSE) is None


def test_reminder_is_put_off_for_a_while_and_nothing_else_changes(ann: User) -> None:
    work(ann, 60)
    put_off_break(ann, now=NOW - PUT_OFF + MINUTE)
    assert reminder(ann, now=NOW) is None
    assert reminder(ann, now=NOW + MINUTE) is not None
    assert care_of(ann).blurred == ["toxic"]


def test_whoever_wants_no_reminder_gets_none(ann: User) -> None:
    Wellbeing.objects.create(person=ann, break_after_min=0, break_after_severe=0)
    work(ann, 200, severe=True)
    assert reminder(ann, now=NOW) is None


def test_notice_offers_to_wait_and_a_milder_queue(console: Client, ann: User) -> None:
    work(ann, 60, until=timezone.now(), severe=True)
    html = read(console, "/review/wellbeing/reminder/?group=3&label=toxic")
    assert "You have worked for 60 minutes without one." in html
    assert "You have read 61 severe messages." in html
    assert 'href="/review/?group=3&amp;label=ad"' in html
    mild = read(console, "/review/wellbeing/reminder/?label=ad")
    assert "The whole queue" in mild
    headers = {"X-Fragment": "reminder"}
    assert console.post("/review/wellbeing/later/", headers=headers).status_code == 204
    assert console.get("/review/wellbeing/reminder/").status_code == 204


def test_putting_off_works_without_a_script(console: Client) -> None:
    assert console.post("/review/wellbeing/later/?label=ad")["Location"] == "/review/?label=ad"
