"""Who may erase, what is on record of it, what others see at once, and that again is the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import PermissionDenied
from django.core.management import CommandError, call_command
from django.db import models
from django.test import Client

from apps.accounts.models import ApiKey, Role, User
from apps.accounts.services import create_api_key
from apps.audit.models import AuditEvent
from apps.audit.services import Actor
from apps.chat.models import Deletion, Erasure, Message, Sender
from apps.chat.services import delete_message
from apps.review import tasks
from apps.review.errors import ItemWithdrawnError, NoSuchMessageError
from apps.review.models import Report, ReportReason, ReviewItem, ReviewState, Wave, WaveBand
from apps.review.services.erasure import (
    carry_on,
    erase_batch,
    erase_by_person,
    erase_message,
    request_erasure,
)
from apps.review.services.leases import open_item
from apps.review.services.reports import report_message
from apps.review.services.subjects import Subject
from tests.factories import MessageFactory, ReviewItemFactory, SenderFactory, UserFactory
from tests.review.test_waves import offers, taken_in

pytestmark = pytest.mark.django_db

ACTOR = Actor.system("test")
ERASURE_DOC = Path(__file__).parents[2] / "docs" / "erasure.md"


def erase(message: Message, by: User | ApiKey | Actor = ACTOR) -> Any:
    return erase_message(group=message.group.external_id, external_id=message.external_id, by=by)


def finish() -> None:
    while not carry_on(for_s=60.0):
        continue


class TestPermission:
    @pytest.mark.parametrize("role", [Role.MODERATOR, Role.LEAD, Role.OPERATOR])
    def test_only_admins_may_erase(self, role: Role) -> None:
        message, person = MessageFactory(sender__external_id="u-1"), UserFactory(role=role)
        with pytest.raises(PermissionDenied):
            erase(message, person)
        with pytest.raises(PermissionDenied):
            request_erasure("u-1", by=person)
        message.refresh_from_db()
        assert not message.is_erased
        assert not Erasure.objects.exists()

    def test_admins_and_keys_that_an_admin_made_for_it_may(self, admin: User) -> None:
        key, _ = create_api_key(name="eraser", may_erase=True)
        messages = MessageFactory.create_batch(2)
        for message, by in zip(messages, (admin, key), strict=True):
            assert erase(message, by).is_new
            message.refresh_from_db()
            assert message.is_erased

    def test_other_keys_may_not(self) -> None:
        key, _ = create_api_key(name="backend")
        with pytest.raises(PermissionDenied):
            request_erasure("u-1", by=key)

    def test_key_that_may_erase_is_made_in_the_console(self, client: Client, admin: User) -> None:
        client.force_login(admin)
        client.post("/admin/keys/", {"name": "plain"})
        page = client.post("/admin/keys/", {"name": "eraser", "may_erase": "1"})
        assert "may erase" in page.content.decode()
        assert dict(ApiKey.objects.values_list("name", "may_erase")) == {
            "plain": False,
            "eraser": True,
        }
        told = AuditEvent.objects.filter(action="api_key.created").order_by("pk")
        assert [event.after["may_erase"] for event in told if event.after] == [False, True]


class TestMessage:
    def test_is_on_record_once_without_text_or_name(self, admin: User) -> None:
        message = MessageFactory(text="a secret", sender__name="Ada")
        for is_new in (True, False):
            assert erase(message, admin).is_new is is_new
        event = AuditEvent.objects.get(action="message.erased")
        assert (event.actor_name, event.target_id) == ("root", str(message.pk))
        assert event.after == {
            "group": message.group_id,
            "message_ids": [message.pk],
            "quoting_ids": [],
        }

    def test_deleted_one_is_erased_too_and_stays_deleted_when_it_was(self) -> None:
        message = MessageFactory()
        group = message.group.external_id
        delete_message(group=group, external_id=message.external_id, actor=ACTOR)
        message.refresh_from_db()
        deleted_at = message.deleted_at
        assert erase(message).is_new
        message.refresh_from_db()
        assert (message.text, message.deleted_at) == ("", deleted_at)
        assert Deletion.objects.get().erased_at is not None

    def test_quotations_of_it_go_and_nobody_elses(self) -> None:
        message = MessageFactory()
        reply = {"reply_to": message.external_id, "quoted_text": "what it said"}
        quoting = MessageFactory(group=message.group, **reply)
        elsewhere = MessageFactory(**reply)
        erase(message)
        quoting.refresh_from_db()
        elsewhere.refresh_from_db()
        assert (quoting.quoted_text, elsewhere.quoted_text) == ("", "what it said")

    def test_whoever_has_it_open_can_decide_it_no_more(self, ann: User) -> None:
        item = ReviewItemFactory()
        open_item(ann, item.pk)
        erase(item.message)
        item.refresh_from_db()
        assert (item.state, item.leased_by, item.grams) == (ReviewState.WITHDRAWN, None, [])
        with pytest.raises(ItemWithdrawnError):
            open_item(ann, item.pk)

    def test_nothing_more_is_said_about_it(self) -> None:
        message = ReviewItemFactory().message
        erase(message)
        with pytest.raises(NoSuchMessageError):
            report_message(
                Subject(message.pk),
                reporter="u-1",
                reason=ReportReason.SPAM,
                note="it said this",
                actor=ACTOR,
            )
        assert not Report.objects.exists()

    def test_card_shows_that_it_is_erased(self, console: Client) -> None:
        item = ReviewItemFactory(verdict__message__text="a secret thing")
        path = f"/review/items/{item.pk}/look/"
        assert "a secret thing" in console.get(path).content.decode()
        erase(item.message)
        page = console.get(path).content.decode()
        assert "(erased)" in page
        assert "a secret thing" not in page


class TestWave:
    def test_gets_the_print_of_another_member(self) -> None:
        first, *others = taken_in(offers(4))
        wave = Wave.objects.get()
        before = set(wave.bands)
        erase(Message.objects.get(pk=first))
        after = Wave.objects.get()
        assert bytes(after.signature) != bytes(wave.signature)
        bands = set(WaveBand.objects.values_list("band", flat=True))
        assert bands == set(after.bands) != before
        members = ReviewItem.objects.filter(wave=after).values_list("pk", flat=True)
        assert set(members) == set(others)
        # Which is where further copies go.
        taken_in(offers(1))
        assert Wave.objects.count() == 1

    def test_is_forgotten_when_nobody_waits_in_it_any_more(self) -> None:
        for id_ in taken_in(offers(2)):
            erase(Message.objects.get(pk=id_))
        assert not Wave.objects.exists()
        assert not WaveBand.objects.exists()


class TestSender:
    def test_goes_with_name_and_id_at_once_and_with_messages_soon(self) -> None:
        sender = SenderFactory(external_id="u-1", name="Ada")
        message = MessageFactory(sender=sender)
        erasure = request_erasure("u-1", by=ACTOR)
        assert not Sender.objects.filter(external_id="u-1").exists()
        assert not Sender.objects.filter(name="Ada").exists()
        tasks.erase_senders()
        message.refresh_from_db()
        erasure.refresh_from_db()
        assert (message.text, str(message.sender)) == ("", "(erased)")
        assert (erasure.external_id, erasure.messages, erasure.sender) == ("", 1, None)
        assert not Sender.objects.filter(pk=sender.pk).exists()

    def test_asking_again_while_it_goes_on_changes_nothing(self) -> None:
        MessageFactory(sender__external_id="u-1")
        first = request_erasure("u-1", by=ACTOR)
        assert request_erasure("u-1", by=ACTOR) == first
        assert AuditEvent.objects.filter(action="sender.erasure_requested").count() == 1

    def test_asking_again_later_erases_what_came_since(self) -> None:
        MessageFactory(sender__external_id="u-1")
        request_erasure("u-1", by=ACTOR)
        finish()
        since = MessageFactory(sender__external_id="u-1")
        request_erasure("u-1", by=ACTOR)
        finish()
        since.refresh_from_db()
        assert since.is_erased
        assert [one.messages for one in Erasure.objects.order_by("pk")] == [1, 1]

    def test_somebody_who_never_wrote_may_have_reported(self) -> None:
        message = ReviewItemFactory().message
        Report.objects.create(message=message, reporter="u-9", reason="spam", note="ugh")
        request_erasure("u-9", by=ACTOR)
        finish()
        assert not Report.objects.exists()
        assert Erasure.objects.get().finished_at is not None

    def test_other_senders_are_left_alone(self) -> None:
        mine, other = MessageFactory(sender__external_id="u-1"), MessageFactory()
        request_erasure("u-1", by=ACTOR)
        finish()
        mine.refresh_from_db()
        other.refresh_from_db()
        assert (mine.is_erased, other.is_erased) == (True, False)

    def test_is_on_record_by_number_alone(self, admin: User) -> None:
        sender = SenderFactory(external_id="u-1", name="Ada")
        message = MessageFactory(sender=sender)
        erasure = request_erasure("u-1", by=admin)
        finish()
        events = AuditEvent.objects.filter(target_type="erasure", target_id=erasure.pk)
        assert [(event.action, event.actor_name) for event in events.order_by("pk")] == [
            ("sender.erasure_requested", "root"),
            ("messages.erased", "root"),
            ("sender.erased", "root"),
        ]
        asked, some, done = (event.after for event in events.order_by("pk"))
        assert asked == {"sender": sender.pk}
        assert some == {
            "messages": 1,
            "first_id": message.pk,
            "last_id": message.pk,
            "quoting": 0,
        }
        assert done == {"sender": sender.pk, "messages": 1, "strikes": 0}

    def test_is_not_a_sender_with_no_id(self) -> None:
        with pytest.raises(ValueError, match="has an id"):
            request_erasure("", by=ACTOR)
        assert erase_by_person("", actor=ACTOR).appeals == 0

    def test_done_once_it_is_not_done_again(self) -> None:
        MessageFactory(sender__external_id="u-1")
        erasure = request_erasure("u-1", by=ACTOR)
        finish()
        assert erase_batch(erasure.pk)
        assert AuditEvent.objects.filter(action="sender.erased").count() == 1


class TestCommand:
    def test_erases_and_says_so(self, capsys: pytest.CaptureFixture[str], admin: User) -> None:
        MessageFactory(sender__external_id="u-1")
        call_command("erase_sender", "u-1", by="root")
        assert capsys.readouterr().out == "Erased. Messages: 1.\n"
        assert AuditEvent.objects.get(action="sender.erased").actor_name == admin.username

    def test_without_a_name_the_terminal_is_on_record(self) -> None:
        call_command("erase_sender", "u-1", verbosity=0)
        names = AuditEvent.objects.values_list("actor_name", flat=True)
        assert set(names) == {"manage.py erase_sender"}

    @pytest.mark.parametrize("by", ["ann", "nobody"])
    def test_somebody_who_may_not_is_refused(self, ann: User, by: str) -> None:
        message = MessageFactory(sender__external_id="u-1")
        with pytest.raises(CommandError, match=by):
            call_command("erase_sender", "u-1", by=by)
        message.refresh_from_db()
        assert not message.is_erased


class TestDocs:
    def test_every_column_that_could_hold_words_is_accounted_for(self) -> None:
        """Whoever adds one says in docs/erasure.md what becomes of it."""
        kinds = (models.CharField, models.TextField, models.JSONField, models.BinaryField)
        there = {
            f"{model._meta.db_table}.{field.column}"
            for model in apps.get_models()
            if model.__module__.startswith("apps.")
            for field in model._meta.concrete_fields
            if isinstance(field, (*kinds, ArrayField)) and not field.choices
            # Numbers of messages are no words; numbers made of texts are.
            if not isinstance(getattr(field, "base_field", None), models.BigIntegerField)
        }
        described = set(re.findall(r"`(\w+_\w+\.\w+)`", ERASURE_DOC.read_text("utf-8")))
        assert described == there, "docs/erasure.md: say what becomes of it"
