"""Figures say what happened: counts, waiting, what was taken back or overturned, precision."""

from __future__ import annotations

import csv
import io
from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.policies.models import Action, Label
from apps.review import figures
from apps.review.models import Decision, QueueFlow, QueueSample
from apps.review.services.decisions import Choice, decide, reverse_decision, undo_decision
from apps.review.services.leases import open_item, release_lease
from apps.review.views.figures import safe_cell
from tests.factories import ReviewItemFactory, UserFactory, default_policy_version

pytestmark = pytest.mark.django_db

SPAM = Choice(Action.REMOVE, Label.SPAM)
ALLOW = Choice(Action.ALLOW, Label.OK)


@pytest.fixture
def now() -> datetime:
    return timezone.now()


def decided(
    user: User, choice: Choice, now: datetime, waited_s: int = 10, label: Label = Label.SPAM
) -> Decision:
    item = ReviewItemFactory(label=label, opened_at=now - timedelta(seconds=waited_s))
    lease = open_item(user, item.pk, now=now)
    return decide(user, item.pk, token=lease.token, version=1, choice=choice, now=now)


def test_day_counts_waiting_and_what_was_taken_back_or_overturned(ann: User, now: datetime) -> None:
    for waited_s in (10, 20, 30):
        decided(ann, SPAM, now, waited_s)
    undo_decision(ann, decided(ann, SPAM, now, 40).pk, now=now)
    reverse_decision(UserFactory(role=Role.LEAD), decided(ann, SPAM, now, 50).pk, ALLOW, now=now)
    (day,) = figures.by_day(now=now, zone="UTC", moderator=None)
    assert day.day == now.date().isoformat()
    assert (day.decisions, day.moderators, day.taken_back, day.overturned) == (4, 1, 1, 1)
    assert day.overturn_share == 0.25
    assert day.to_decision_p50_s == pytest.approx(30, abs=0.01)
    assert day.to_decision_p95_s == pytest.approx(48, abs=0.01)
    assert day.to_review_p50_s == pytest.approx(30, abs=0.01)
    assert day.within_target == 1.0


def test_days_begin_at_midnight_where_the_team_is(ann: User) -> None:
    late = datetime(2026, 11, 29, 23, 30, tzinfo=timezone.get_default_timezone())
    decided(ann, SPAM, late)
    days = [
        figures.by_day(now=late, zone=zone, moderator=None)[0].day
        for zone in ("UTC", "Asia/Shanghai")
    ]
    assert days == ["2026-11-29", "2026-11-30"]


def test_precision_is_the_share_that_people_confirmed(ann: User, now: datetime) -> None:
    decided(ann, SPAM, now)
    decided(ann, SPAM, now)
    decided(ann, ALLOW, now)
    decided(ann, Choice(Action.REMOVE, Label.AD), now, label=Label.AD)
    found = {one.label: one.precision for one in figures.by_label(now=now, moderator=None)}
    assert found == {"spam": pytest.approx(2 / 3), "ad": 1.0}


def test_review_begins_when_somebody_first_has_the_message(ann: User, now: datetime) -> None:
    item = ReviewItemFactory(opened_at=now - timedelta(seconds=400))
    first = open_item(ann, item.pk, now=now - timedelta(seconds=300))
    release_lease(ann, item.pk, first.token)
    lease = open_item(ann, item.pk, now=now)
    decide(ann, item.pk, token=lease.token, version=1, choice=SPAM, now=now)
    (day,) = figures.by_day(now=now, zone="UTC", moderator=None)
    assert day.to_review_p50_s == pytest.approx(100, abs=0.01)
    assert day.to_decision_p50_s == pytest.approx(400, abs=0.01)
    assert day.within_target == 0.0


def test_precision_at_the_present_thresholds_asks_only_about_what_they_hold(
    ann: User, now: datetime
) -> None:
    threshold = default_policy_version().thresholds.get(label=Label.SPAM).hold
    for score, choice in ((threshold, SPAM), (threshold + 0.1, ALLOW), (threshold - 0.1, ALLOW)):
        item = ReviewItemFactory(opened_at=now, verdict__score_spam=score)
        lease = open_item(ann, item.pk, now=now)
        decide(ann, item.pk, token=lease.token, version=1, choice=choice, now=now)
    (spam,) = figures.at_thresholds(now=now, moderator=None)
    assert (spam.label, spam.decided, spam.confirmed, spam.precision) == ("spam", 2, 1, 0.5)
    assert figures.at_thresholds(now=now, moderator=UserFactory().pk) == []


def test_queue_is_told_by_the_hour(ann: User) -> None:
    now = datetime(2026, 11, 30, 12, 30, tzinfo=timezone.get_default_timezone())
    for minute, age in ((0, 10.0), (59, 70.0), (60, 30.0)):
        at = now - timedelta(minutes=90 - minute)
        QueueSample.objects.create(minute=at, open_items=minute, oldest_age_s=age)
        QueueFlow.objects.create(minute=at, arrived=2, decided=1)
    assert figures.by_hour(now=now) == [
        figures.HourFigures("2026-11-30T11:00:00Z", 4, 2, 59, 70.0),
        figures.HourFigures("2026-11-30T12:00:00Z", 2, 1, 60, 30.0),
    ]


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=cmd()", "'=cmd()"),
        (" +1", "' +1"),
        ("@x", "'@x"),
        ("\uff1d1", "'\uff1d1"),
        (-1.5, -1.5),
        ("a=b", "a=b"),
    ],
)
def test_cell_is_no_formula(cell: object, written: object) -> None:
    assert safe_cell(cell) == written


def test_moderators_see_their_own_and_leads_the_team(
    client: Client, ann: User, now: datetime
) -> None:
    decided(ann, SPAM, now)
    decided(UserFactory(), SPAM, now)
    for user, decisions in ((ann, 1), (UserFactory(role=Role.LEAD), 2)):
        client.force_login(user)
        (day,) = client.get("/review/figures/?format=json").json()["days"]
        assert day["decisions"] == decisions
        assert client.get("/review/figures/").status_code == 200


def test_export_has_a_row_a_day_and_no_formula(client: Client, ann: User, now: datetime) -> None:
    decided(ann, SPAM, now)
    client.force_login(ann)
    text = client.get("/review/figures/?format=csv").content.decode()
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["decisions"], row["taken_back"]) == ("1", "0")
    assert not any(value.startswith(("=", "+", "-", "@")) for value in row.values())


def test_nothing_decided_is_said(client: Client, ann: User) -> None:
    client.force_login(ann)
    assert "No decisions yet." in client.get("/review/figures/").content.decode()
    assert client.get("/review/figures/?format=csv").status_code == 200
