"""Each person reports once; a report brings a message before a person and keeps its verdict."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.audit.models import AuditEvent
from apps.audit.services import Actor
from apps.chat.models import Message
from apps.policies.models import Action, Label
from apps.review.errors import NoSuchMessageError
from apps.review.models import Cause, Decision, Report, ReportReason, ReviewItem, ReviewState
from apps.review.queue import QueueFilters
from apps.review.queue_page import queue_page
from apps.review.ranking import reported_priority
from apps.review.services.decisions import Choice, decide
from apps.review.services.erasure import erase_about_messages, erase_by_person
from apps.review.services.intake import take_in
from apps.review.services.leases import open_next
from apps.review.services.reports import Reported, report_message
from apps.review.services.subjects import Subject
from apps.scoring.models import Source, Verdict
from apps.scoring.sinks import StoredVerdict
from tests.factories import MessageFactory, ReviewItemFactory, UserFactory, VerdictFactory

pytestmark = pytest.mark.django_db

ACTOR = Actor.system("test")


@pytest.fixture
def ann() -> User:
    return UserFactory()


@pytest.fixture
def allowed() -> Message:
    """A message that the model let pass."""
    verdict = VerdictFactory(
        label=Label.OK, acting_label=None, action=Action.ALLOW, score_ok=0.8, score_spam=0.1
    )
    message: Message = verdict.message
    return message


def report(
    message: Message,
    reporter: str = "u-1",
    reason: ReportReason = ReportReason.SPAM,
    note: str = "",
) -> Reported:
    return report_message(
        Subject(message_id=message.pk), reporter=reporter, reason=reason, note=note, actor=ACTOR
    )


def judged(message: Message, action: Action, label: Label | None = Label.SPAM) -> StoredVerdict:
    """The message's verdict, as the pipeline hands it on."""
    verdict = VerdictFactory(message=message, action=action, label=label, acting_label=label)
    return StoredVerdict(
        message_id=message.pk,
        group_id=message.group_id,
        release_id=verdict.release_id,
        policy_version_id=verdict.policy_version_id,
        source=Source.MODEL,
        label=label,
        action=action,
        acting_label=label,
        scores=(verdict.score_ok, verdict.score_spam, verdict.score_toxic, verdict.score_ad),
        reasons=(),
    )


def test_allowed_message_comes_before_a_person_and_keeps_its_verdict(
    ann: User, allowed: Message
) -> None:
    assert report(allowed).status == "waiting"
    item = ReviewItem.objects.get()
    assert (item.cause, item.label, item.reports) == (Cause.REPORTED, Label.SPAM, 1)
    lease = open_next(ann)
    assert lease
    assert lease.item_id == allowed.pk
    assert Verdict.objects.get().action == Action.ALLOW


def test_same_person_again_changes_nothing(allowed: Message) -> None:
    first = report(allowed, note="look")
    before = ReviewItem.objects.values().get()
    again = report(allowed, reason=ReportReason.TOXIC, note="other words")
    assert (first.is_new, again.is_new, again.report) == (True, False, first.report)
    assert again.report.note == "look"
    assert ReviewItem.objects.values().get() == before
    assert AuditEvent.objects.count() == 1


def test_each_further_person_raises_it_and_makes_no_second_item(allowed: Message) -> None:
    ranks = []
    for number in range(5):
        report(allowed, f"u-{number}")
        item = ReviewItem.objects.get()
        ranks.append(item.rank)
    assert item.reports == 5
    assert ranks == sorted(set(ranks))
    assert 0 < item.priority < 1


def test_report_of_what_waits_keeps_its_cause_and_the_lease(ann: User) -> None:
    item = ReviewItemFactory(priority=0.5)
    lease = open_next(ann)
    report(item.message)
    item.refresh_from_db()
    assert (item.cause, item.reports, item.leased_by) == (Cause.FLAGGED, 1, ann)
    assert item.priority == pytest.approx(reported_priority(0.5))
    choice = Choice(Action.REMOVE, Label.SPAM)
    decide(ann, item.pk, token=lease.token, version=lease.version, choice=choice)
    assert Decision.objects.count() == 1


def test_danger_goes_ahead_of_other_reports(ann: User) -> None:
    for number, reason in enumerate(ReportReason):
        report(VerdictFactory(action=Action.ALLOW, label=Label.OK).message, f"{number}", reason)
    lease = open_next(ann)
    assert lease
    assert Report.objects.get(message=lease.item_id).reason == ReportReason.DANGER


def test_report_without_a_label_takes_the_verdicts_but_never_ok(allowed: Message) -> None:
    report(allowed, reason=ReportReason.OTHER)
    flagged = VerdictFactory(action=Action.ALLOW, label=Label.AD, acting_label=None).message
    report(flagged, reason=ReportReason.OTHER)
    assert ReviewItem.objects.get(pk=allowed.pk).label is None
    assert ReviewItem.objects.get(pk=flagged.pk).label == Label.AD


def test_reviewed_message_does_not_come_back(ann: User, allowed: Message) -> None:
    report(allowed)
    lease = open_next(ann)
    decide(
        ann,
        allowed.pk,
        token=lease.token,
        version=lease.version,
        choice=Choice(Action.ALLOW, Label.OK),
    )
    assert report(allowed, "u-2").status == "reviewed"
    assert ReviewItem.objects.get().state == ReviewState.DECIDED
    assert Report.objects.count() == 2


def test_removed_message_is_not_queued() -> None:
    message = VerdictFactory(action=Action.REMOVE).message
    assert report(message).status == "closed"
    assert not ReviewItem.objects.exists()


def test_withdrawn_item_opens_again(allowed: Message, ann: User) -> None:
    ReviewItemFactory(message=allowed, state=ReviewState.WITHDRAWN, priority=0.9)
    assert report(allowed).status == "waiting"
    assert open_next(ann)


def test_verdict_that_allows_does_not_end_a_report(ann: User) -> None:
    message = MessageFactory()
    report(message, reason=ReportReason.TOXIC)
    take_in([judged(message, Action.ALLOW, Label.OK)])
    item = ReviewItem.objects.get()
    assert (item.state, item.cause, item.label) == ("open", Cause.REPORTED, Label.TOXIC)


def test_verdict_that_holds_neither_lowers_nor_renames_it() -> None:
    message = MessageFactory()
    for number in range(8):
        report(message, f"u-{number}", ReportReason.DANGER)
    before = ReviewItem.objects.get()
    take_in([judged(message, Action.HOLD)])
    item = ReviewItem.objects.get()
    assert (item.cause, item.label, item.reports) == (Cause.REPORTED, Label.SPAM, 8)
    assert item.priority >= before.priority


def test_report_goes_to_the_newest_revision(allowed: Message) -> None:
    edit = MessageFactory(
        group=allowed.group, external_id=allowed.external_id, revision=2, sender=allowed.sender
    )
    assert report(allowed).report.message_id == edit.pk


def test_edit_does_not_get_rid_of_a_report(allowed: Message) -> None:
    report(allowed, "u-1")
    report(allowed, "u-2")
    edit = MessageFactory(
        group=allowed.group, external_id=allowed.external_id, revision=2, sender=allowed.sender
    )
    verdict = judged(edit, Action.ALLOW, Label.OK)
    take_in([verdict])
    item = ReviewItem.objects.get(pk=edit.pk)
    assert (item.state, item.cause, item.reports) == ("open", Cause.REPORTED, 2)
    assert ReviewItem.objects.get(pk=allowed.pk).state == ReviewState.WITHDRAWN
    take_in([verdict])
    assert ReviewItem.objects.get(pk=edit.pk).priority == item.priority


def test_unknown_and_deleted_messages_are_refused(allowed: Message) -> None:
    with pytest.raises(NoSuchMessageError):
        report_message(
            Subject(group="none", external_id="none"),
            reporter="u",
            reason=ReportReason.SPAM,
            note="",
            actor=ACTOR,
        )
    Message.objects.update(deleted_at=timezone.now())
    with pytest.raises(NoSuchMessageError):
        report(allowed)
    assert not Report.objects.exists()


def test_audit_record_holds_neither_note_nor_reporter(allowed: Message) -> None:
    report(allowed, "secret-reporter", note="secret words")
    event = AuditEvent.objects.get()
    assert event.action == "message.reported"
    assert "secret" not in str(event.after)


def test_counts_equal_the_rows_with_reports_of_every_kind(ann: User) -> None:
    for number, reason in enumerate(ReportReason):
        report(MessageFactory(), f"u-{number}", reason)
    page = queue_page(ann, QueueFilters())
    assert page.total == ReviewItem.objects.filter(state="open").count() == 5
    missing = queue_page(ann, QueueFilters(cause=Cause.UNDETERMINED))
    assert len(missing.rows) == page.by_label[None] == 2


def test_card_shows_reports_in_their_box(client: Client, ann: User, allowed: Message) -> None:
    client.force_login(ann)
    report(allowed, "<b>u</b>", note="<script>x</script> \u202eabc" + "z\u0300" * 100)
    html = client.get(f"/review/items/{allowed.pk}/").content.decode()
    assert "Reported by people in the chat" in html
    assert "<script>x" not in html
    assert "<b>u</b>" not in html
    assert "\u202e" not in html
    assert "z" + "\u0300" * 9 not in html
    assert "1 report<" in html


def test_erasing_takes_reports_and_notes_but_not_decisions(ann: User) -> None:
    item = ReviewItemFactory()
    report(item.message, note="x")
    lease = open_next(ann)
    decide(
        ann,
        item.pk,
        token=lease.token,
        version=lease.version,
        choice=Choice(Action.REMOVE, Label.SPAM, "my words"),
    )
    erased = erase_about_messages([item.pk], actor=ACTOR)
    assert (erased.reports, erased.notes) == (1, 1)
    assert not Report.objects.exists()
    assert Decision.objects.get().note == ""


def test_erasing_a_person_takes_their_reports(allowed: Message) -> None:
    report(allowed, "u-1")
    report(allowed, "u-2")
    assert erase_by_person("u-1", actor=ACTOR).reports == 1
    assert Report.objects.get().reporter == "u-2"
