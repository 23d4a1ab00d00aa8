"""An admin erases a sender in the console: what would go is what goes, once, by whoever may."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.audit.models import AuditEvent
from apps.audit.services import Actor
from apps.chat.models import NOBODY, Erasure, Message, Sender
from apps.review.erasure_facts import Counts, preview, progress
from apps.review.models import Appeal, Decision, Report, ReportReason, ReviewItem, Strike
from apps.review.services.erasure import carry_on, erase_batch, request_erasure
from tests.factories import (
    GroupFactory,
    MessageFactory,
    ReviewItemFactory,
    SenderFactory,
    UserFactory,
)
from tests.review.test_pages import read

pytestmark = pytest.mark.django_db

ACTOR = Actor.system("test")
LIST = "/admin/erasures/"


@pytest.fixture
def console(client: Client, admin: User) -> Client:
    client.force_login(admin)
    return client


@pytest.fixture
def sender() -> Sender:
    return SenderFactory(external_id="u-1", name="Ada Lovelace")


def address(sender: Sender) -> str:
    return f"{LIST}senders/{sender.pk}/"


def finish() -> None:
    while not carry_on(for_s=60.0):
        continue


def report(message: Message, reporter: str) -> None:
    Report.objects.create(message=message, reporter=reporter, reason=ReportReason.SPAM)


def appeal(item: ReviewItem, appellant: str) -> None:
    Appeal.objects.create(
        item=item, action="remove", label="spam", appellant=appellant, text="why", state="upheld"
    )


def busy_life(sender: Sender, ann: User) -> None:
    """Of all that an erasure counts another number, and the same of somebody else."""
    for who, times in ((sender, 1), (SenderFactory(external_id="u-2"), 2)):
        group, other = GroupFactory.create_batch(2)
        item = ReviewItemFactory(
            state="decided", verdict__message__group=group, verdict__message__sender=who
        )
        said = item.message
        for n in range(2 * times):
            ReviewItemFactory(verdict__message__group=other, verdict__message__sender=who)
            MessageFactory(group=group, sender=who, external_id=said.external_id, revision=2 + n)
        for n in range(3 * times):
            MessageFactory(group=group, reply_to=said.external_id, quoted_text="what they said")
            report(said, f"reporter-{n}")
        report(MessageFactory(), who.external_id)
        report(said, who.external_id)  # about them and by them: once
        appeal(item, "")
        appeal(ReviewItemFactory(), who.external_id)
        made = Decision.objects.create(
            item=item, moderator=ann, action="remove", label="spam", note="rude"
        )
        Strike.objects.create(
            sender=who, moderator=ann, decision=made, expires_at=timezone.now() + timedelta(days=9)
        )


# ---------- who may ----------


@pytest.mark.parametrize("role", [Role.MODERATOR, Role.LEAD, Role.OPERATOR])
def test_only_admins_may_look_and_erase(client: Client, role: Role, sender: Sender) -> None:
    client.force_login(UserFactory(role=role))
    going = request_erasure("u-9", by=ACTOR)
    for path in (LIST, address(sender), f"{LIST}{going.pk}/"):
        assert client.get(path).status_code == 403
    for path in (address(sender), f"{LIST}find/", f"{LIST}people/"):
        assert client.post(path, {"typed": "u-1", "sender": "u-1"}).status_code == 403
    assert Erasure.objects.count() == 1


def test_strangers_are_sent_to_sign_in(client: Client, sender: Sender) -> None:
    assert client.get(address(sender)).headers["Location"].startswith("/sign-in/")


@pytest.mark.parametrize(("role", "is_offered"), [(Role.ADMIN, True), (Role.LEAD, False)])
def test_card_leads_whoever_may_erase_there(client: Client, role: Role, is_offered: bool) -> None:
    item = ReviewItemFactory()
    client.force_login(UserFactory(role=role))
    page = read(client, f"/review/items/{item.pk}/")
    assert (address(item.message.sender) in page) == is_offered


# ---------- what would go ----------


def test_what_is_announced_is_what_goes(console: Client, sender: Sender, ann: User) -> None:
    busy_life(sender, ann)
    told = preview("u-1", sender)
    assert told.counts == Counts(messages=5, quotations=3, reports=5, appeals=2, notes=1, strikes=1)
    assert (told.groups, told.open_items, told.decisions) == (2, 2, 1)
    page = read(console, address(sender))
    assert 'data-count="reports">5<' in page
    console.post(address(sender), {"typed": "u-1"})
    finish()
    assert progress(Erasure.objects.get().pk).taken == told.counts
    assert preview("u-1", None).counts.is_nothing
    assert not preview("u-2", Sender.objects.get(external_id="u-2")).counts.is_nothing


def test_what_others_revised_under_the_same_key_counts(sender: Sender) -> None:
    said = MessageFactory(sender=sender)
    MessageFactory(group=said.group, external_id=said.external_id, revision=2)
    assert preview("u-1", sender).counts.messages == 2


# ---------- asking for it ----------


@pytest.mark.parametrize("typed", ["", "u-2", "U-1", "Ada Lovelace", "u-1\x00"])
def test_wrong_id_erases_nothing(console: Client, sender: Sender, typed: str) -> None:
    answer = console.post(address(sender), {"typed": typed})
    assert answer.status_code == 422
    assert 'aria-invalid="true"' in answer.content.decode()
    assert not Erasure.objects.exists()


def test_right_id_erases_and_is_on_record(console: Client, sender: Sender, admin: User) -> None:
    message = MessageFactory(sender=sender, text="my address is 5 Elm Street")
    answer = console.post(address(sender), {"typed": "u-1"})
    erasure = Erasure.objects.get()
    assert answer.headers["Location"] == f"{LIST}{erasure.pk}/"
    finish()
    message.refresh_from_db()
    assert (message.text, message.is_erased) == ("", True)
    asked = AuditEvent.objects.get(action="sender.erasure_requested")
    assert (asked.actor_id, asked.target_id) == (admin.pk, str(erasure.pk))


def test_second_click_leads_to_the_same_erasure(console: Client, sender: Sender) -> None:
    MessageFactory(sender=sender)
    first, second = (console.post(address(sender), {"typed": "u-1"}) for _ in range(2))
    assert first.headers["Location"] == second.headers["Location"]
    assert console.get(address(sender)).headers["Location"] == first.headers["Location"]
    # Who wrote under the id since is somebody else, whom a late click must not meet.
    new = MessageFactory(sender__external_id="u-1")
    finish()
    late = console.post(address(sender), {"typed": "u-1"}, follow=True)
    assert "This sender is erased already." in late.content.decode()
    finish()
    new.refresh_from_db()
    assert not new.is_erased
    assert Erasure.objects.count() == 1


HOSTILE = [
    "\u202eevil\u202c",
    "line\nbreak\ttab",
    "   ",
    " padded ",
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "z\u200bw\u2060j",
    "🏴\U000e0067\U000e0062\U000e007f",
    "a\u0301" * 100,
    "x" * 200,
    "%2e%2e/?&#",
]


@pytest.mark.parametrize("external_id", HOSTILE)
def test_hostile_ids_can_be_confirmed_as_they_are_shown(console: Client, external_id: str) -> None:
    sender = SenderFactory(external_id=external_id, name=f"{external_id[:99]}\u202e<b>")
    page = console.get(address(sender))
    assert "<script>alert" not in page.content.decode()
    assert "\u202e" not in page.content.decode()
    form: Any = page.context["form"]
    assert form.shown.strip()
    assert "\n" not in form.shown
    answer = console.post(address(sender), {"typed": form.shown})
    assert answer.status_code == 302
    assert Erasure.objects.get().external_id == external_id


@pytest.mark.parametrize("path", ["senders/1/", f"senders/{2**63}/", "7/", f"{2**63}/"])
def test_what_there_is_not_is_not_found(console: Client, path: str) -> None:
    assert console.get(LIST + path).status_code == 404


def test_nobody_is_not_to_be_erased(console: Client, sender: Sender) -> None:
    MessageFactory(sender=sender)
    request_erasure("u-1", by=ACTOR)
    finish()
    nobody = Sender.objects.get(external_id=NOBODY)
    assert console.get(address(nobody)).status_code == 404
    console.post(address(nobody), {"typed": NOBODY})
    assert Erasure.objects.count() == 1


# ---------- looking for somebody ----------


@pytest.mark.parametrize("typed", ["u-1", " u-1 "])
def test_sender_is_found_by_their_id(console: Client, sender: Sender, typed: str) -> None:
    answer = console.post(f"{LIST}find/", {"sender": typed})
    assert answer.headers["Location"] == address(sender)


@pytest.mark.parametrize("typed", ["", "  ", "u-7", "u\x00", "x" * 201])
def test_whoever_is_not_known_is_said_to_be(console: Client, typed: str) -> None:
    answer = console.post(f"{LIST}find/", {"sender": typed})
    assert answer.status_code == 422
    assert "find-error" in answer.content.decode()


def test_somebody_who_only_reported_is_erased_too(console: Client) -> None:
    report(MessageFactory(), "u-7")
    asked = console.post(f"{LIST}find/", {"sender": "u-7"})
    assert "Somebody who never wrote" in asked.content.decode()
    assert console.post(f"{LIST}people/", {"sender": "u-7", "typed": "u"}).status_code == 422
    assert Report.objects.exists()
    answer = console.post(f"{LIST}people/", {"sender": "u-7", "typed": "u-7"})
    finish()
    assert not Report.objects.exists()
    assert 'data-count="reports">1<' in read(console, answer.headers["Location"])


# ---------- how it goes ----------


def test_progress_says_how_many_are_left_and_asks_again_until_it_is_done(
    console: Client, sender: Sender
) -> None:
    MessageFactory.create_batch(3, sender=sender)
    erasure = request_erasure("u-1", by=ACTOR)
    erase_batch(erasure.pk, messages=2)
    path = f"{LIST}{erasure.pk}/"
    going = read(console, path, **{"X-Fragment": "progress"})
    assert "<html" not in going
    assert 'data-count="messages">2<' in going
    assert "data-left>1<" in going
    assert 'hx-trigger="every 2s"' in going
    assert "under way" in going
    assert "does not move" not in going
    finish()
    done = read(console, path)
    assert 'data-count="messages">3<' in done
    assert "hx-trigger" not in done
    assert "data-left" not in done


def test_erasure_that_does_not_move_says_so(console: Client, sender: Sender) -> None:
    MessageFactory(sender=sender)
    erasure = request_erasure("u-1", by=ACTOR)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE audit_auditevent DISABLE TRIGGER USER")
        cursor.execute("UPDATE audit_auditevent SET at = at - interval '5 minutes'")
        cursor.execute("ALTER TABLE audit_auditevent ENABLE TRIGGER USER")
    page = read(console, f"{LIST}{erasure.pk}/")
    assert "does not move" in page
    assert "a worker is needed" in page


def test_list_names_nobody_who_was_erased(console: Client, sender: Sender, admin: User) -> None:
    MessageFactory(sender=sender)
    request_erasure("u-1", by=admin)
    assert 'hx-trigger="every 3s"' in read(console, LIST)
    finish()
    page = read(console, LIST)
    assert "hx-trigger" not in page
    assert ">done<" in page
    assert "root" in page
    for word in ("u-1", "Ada", "Lovelace"):
        assert word not in page


def test_list_goes_on(console: Client) -> None:
    Erasure.objects.bulk_create(
        Erasure(actor_kind="system", actor_name="test", finished_at=timezone.now())
        for _ in range(51)
    )
    first = Erasure.objects.order_by("pk")[0]
    assert f'href="{LIST}{first.pk}/"' not in read(console, LIST)
    assert f'href="{LIST}{first.pk}/"' in read(console, f"{LIST}?before={first.pk + 1}")
    assert console.get(f"{LIST}?before=nonsense").status_code == 200


def test_number_of_queries_does_not_grow(console: Client, sender: Sender, ann: User) -> None:
    counts = []
    for other in ("u-3", "u-4"):
        busy_life(sender, ann)
        Sender.objects.filter(external_id="u-2").update(external_id=other)
        with CaptureQueriesContext(connection) as asked:
            console.get(address(sender))
        Erasure.objects.create(actor_kind="system", actor_name="test")
        with CaptureQueriesContext(connection) as listed:
            console.get(LIST)
        counts.append((len(asked), len(listed)))
    assert counts[0] == counts[1]
