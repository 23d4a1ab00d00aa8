"""What users of the chats ask for: reports of messages, appeals against decisions."""

from __future__ import annotations

from functools import partial
from typing import TypeVar, cast

import msgspec
from msgspec import UNSET, UnsetType

from apps.api import strict_json
from apps.api.database import DatabaseThreads
from apps.api.http import Headers, Request, Response
from apps.api.ids import MOST_ID, parse_id
from apps.api.problems import (
    NO_SUCH_MESSAGE,
    NOT_FOUND,
    NOTHING_TO_APPEAL,
    FieldError,
    Problem,
    invalid,
)
from apps.api.schemas import AppealIn, Reason, ReportIn, ReportOut
from apps.api.selectors import find_appeal
from apps.audit.services import Actor
from apps.review.errors import NoSuchMessageError, NothingToAppealError
from apps.review.models import ReportReason
from apps.review.services.appeals import open_appeal
from apps.review.services.reports import Reported, report_message
from apps.review.services.subjects import Subject

T = TypeVar("T")
_report_decoder = msgspec.json.Decoder(ReportIn)
_appeal_decoder = msgspec.json.Decoder(AppealIn)
_REPLAYED: Headers = [(b"idempotent-replay", b"true")]


class PeopleOperations:
    """The handlers, bound to the database threads of one process."""

    def __init__(self, database: DatabaseThreads) -> None:
        self._database = database

    async def report(self, request: Request) -> Response:
        sent = _read(await request.json_body(), _report_decoder)
        subject = subject_of(sent.message_id, sent.group, sent.external_id)
        write = partial(
            report_message,
            subject,
            reporter=sent.reporter_id,
            reason=ReportReason(sent.reason),
            note=sent.note or "",
            actor=_actor(request),
        )
        try:
            reported = await self._database.run(write)
        except NoSuchMessageError as error:
            raise no_such_message(subject, error) from error
        return Response.json(_report(reported), 201, [] if reported.is_new else _REPLAYED)

    async def appeal(self, request: Request) -> Response:
        sent = _read(await request.json_body(), _appeal_decoder)
        subject = subject_of(sent.message_id, sent.group, sent.external_id)
        write = partial(
            open_appeal,
            subject,
            appellant=sent.appellant_id,
            text=sent.text,
            actor=_actor(request),
        )
        try:
            opened = await self._database.run(write)
        except NoSuchMessageError as error:
            raise no_such_message(subject, error) from error
        except NothingToAppealError as error:
            raise _nothing_to_appeal() from error
        appeal = await self._database.run(partial(find_appeal, opened.appeal.pk))
        assert appeal is not None
        headers: Headers = [(b"location", f"/api/v1/appeals/{appeal.id}".encode())]
        return Response.json(appeal, 201, headers + ([] if opened.is_new else _REPLAYED))

    async def get_appeal(self, request: Request) -> Response:
        wanted = parse_id(request.path_values["id"])
        appeal = None
        if wanted is not None:
            appeal = await self._database.run(partial(find_appeal, wanted))
        if appeal is None:
            raise Problem(NOT_FOUND, "There is no appeal with this id. Check the id.")
        return Response.json(appeal)


def _read(raw: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The body, walked by the slow parser as well: it comes seldom."""
    sent = strict_json.decode(raw, decoder)
    strict_json.inspect(raw)
    return sent


def subject_of(
    message_id: str | UnsetType, group: str | UnsetType, external_id: str | UnsetType
) -> Subject:
    """The message that a body names, one way or the other. Raises Problem."""
    if message_id is not UNSET:
        doubled = [n for n, v in (("group", group), ("external_id", external_id)) if v is not UNSET]
        if doubled:
            raise invalid([FieldError("can't be given beside message_id", f"/{doubled[0]}")])
        return Subject(message_id=min(int(message_id), MOST_ID))
    for name, value in (("group", group), ("external_id", external_id)):
        if value is UNSET:
            raise invalid([FieldError("is required, unless message_id is given", f"/{name}")])
    assert group is not UNSET
    assert external_id is not UNSET
    return Subject(group=group, external_id=external_id)


def no_such_message(subject: Subject, error: NoSuchMessageError) -> Problem:
    field = "message_id" if subject.message_id is not None else "external_id"
    fault = "names a deleted message" if error.is_deleted else "names no message of ours"
    return Problem(
        NO_SUCH_MESSAGE,
        f"Nothing was stored: /{field} {fault}. Check the ids that you sent.",
        errors=[FieldError(fault, f"/{field}")],
    )


def _nothing_to_appeal() -> Problem:
    return Problem(
        NOTHING_TO_APPEAL,
        "Nothing was changed: the message is allowed without a decision, waits for a person, or "
        "was decided so recently that the decision may still be taken back.",
    )


def _actor(request: Request) -> Actor:
    assert request.key is not None
    return Actor.of_key(request.key)


def _report(reported: Reported) -> ReportOut:
    report = reported.report
    return ReportOut(
        str(report.pk),
        str(report.message_id),
        cast("Reason", str(report.reason)),
        reported.status,
    )
