"""Every operation of API v1, in the order of the documentation."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

from apps.api import problems
from apps.api.erasing import ErasureOperations
from apps.api.messages import MessageOperations
from apps.api.operations import Answer, Operation, Parameter
from apps.api.people import PeopleOperations
from apps.api.schemas import (
    MOST_WINDOW_S,
    AppealIn,
    AppealOut,
    BatchIn,
    BatchOut,
    ErasureOut,
    HealthOut,
    MessageIn,
    MessageOut,
    MessagesOut,
    ReportIn,
    ReportOut,
    StagesOut,
)
from apps.api.system import SystemOperations

_ID = Parameter(
    "id",
    "path",
    _("The id that the submission answered with."),
    {"type": "string", "pattern": "^[0-9]{1,19}$", "examples": ["1024"]},
)
_APPEAL_ID = Parameter(
    "id",
    "path",
    _("The id that the appeal was answered with."),
    {"type": "string", "pattern": "^[0-9]{1,19}$", "examples": ["12"]},
)
_ERASURE_ID = Parameter(
    "id",
    "path",
    _("The id that the erasure was answered with."),
    {"type": "string", "pattern": "^[0-9]{1,19}$", "examples": ["5"]},
)
_ERASE = Parameter(
    "erase",
    "query",
    _("Whether to erase it as well; false unless said."),
    {"type": "boolean"},
    is_required=False,
)
_KEY_PART = {"type": "string", "minLength": 1, "maxLength": 200}
_EXAMPLE = {
    "group": "guild-7",
    "external_id": "m-1001",
    "sender": {"id": "u-17", "name": "Ada"},
    "text": "see you at the raid tonight",
    "sent_at": "2026-11-30T12:00:00Z",
}


def _by_key(*, is_required: bool) -> tuple[Parameter, ...]:
    return (
        Parameter("group", "query", _("Your own id of the group."), _KEY_PART, is_required),
        Parameter("external_id", "query", _("Your own id of the message."), _KEY_PART, is_required),
    )


def message_routes(handlers: MessageOperations) -> list[Operation]:
    return [
        Operation(
            id="createMessage",
            method="POST",
            path="/api/v1/messages",
            summary=_("Submit a message"),
            description=_(
                "Stores one revision of a message and queues it for a verdict. The answer says "
                "that it is stored; ask for the verdict with its id. Sending the same group, "
                "external_id and revision again stores nothing and answers as the first time, "
                "with the header Idempotent-Replay; with another sender, text or quoted_text it "
                "is refused. An edit is the same external_id with a higher revision."
            ),
            handler=handlers.create,
            body=MessageIn,
            body_example=_EXAMPLE,
            answer=Answer(
                201,
                _("The message is stored."),
                MessageOut,
                {
                    "Location": "Where to ask for the verdict.",
                    "Idempotent-Replay": "true when this key was stored before.",
                },
            ),
            problems=(problems.CONFLICT, problems.OVERLOADED),
        ),
        Operation(
            id="createMessages",
            method="POST",
            path="/api/v1/messages:batch",
            summary=_("Submit up to 1,000 messages"),
            description=_(
                "Stores up to 1,000 messages of together at most 4 MiB. Each "
                "is checked on its own, so a bad one never stops the others; results has one "
                "entry for each, in their order, with the status that it would have had alone."
            ),
            handler=handlers.create_batch,
            body=BatchIn,
            body_example={"messages": [_EXAMPLE]},
            answer=Answer(200, _("One result for each message."), BatchOut),
            problems=(problems.OVERLOADED,),
        ),
        Operation(
            id="getMessage",
            method="GET",
            path="/api/v1/messages/{id}",
            summary=_("Ask for one message and its verdict"),
            description=_(
                "pending waits for a verdict, decided has one, undetermined could not be "
                "judged and waits for a person, deleted is final."
            ),
            handler=handlers.get,
            parameters=(_ID,),
            answer=Answer(200, _("The message as it stands."), MessageOut),
            problems=(problems.NOT_FOUND,),
            example_path="/api/v1/messages/1024",
        ),
        Operation(
            id="findMessages",
            method="GET",
            path="/api/v1/messages",
            summary=_("Ask for several messages"),
            description=_(
                "Either ids, up to 200 separated by commas, or group and "
                "external_id, which find every revision of one message, the newest first."
            ),
            handler=handlers.find,
            parameters=(
                Parameter(
                    "ids",
                    "query",
                    _("Ids, separated by commas."),
                    {"type": "string", "pattern": "^[0-9]{1,19}(,[0-9]{1,19})*$"},
                    is_required=False,
                ),
                *_by_key(is_required=False),
            ),
            answer=Answer(200, _("The messages found."), MessagesOut),
            example_path="/api/v1/messages?ids=1024,1025",
        ),
        Operation(
            id="deleteMessage",
            method="DELETE",
            path="/api/v1/messages/{id}",
            summary=_("Delete a message"),
            description=_(
                "Deletes every revision of the message, those included that come later. Final; "
                "deleting again changes nothing and answers the same. With erase=true its texts "
                "and all that was said about it are erased as well, here and where others quoted "
                "it, and nothing that comes under its key later is kept; that takes a key that "
                "may erase."
            ),
            handler=handlers.delete,
            parameters=(_ID, _ERASE),
            answer=Answer(204, _("The message is deleted."), None),
            problems=(problems.NOT_FOUND, problems.NOT_PERMITTED),
            example_path="/api/v1/messages/1024",
        ),
        Operation(
            id="deleteMessageByKey",
            method="DELETE",
            path="/api/v1/messages",
            summary=_("Delete a message by your own ids"),
            description=_(
                "The same for a backend that did not keep our id. The message need not have come "
                "yet: a deletion that overtakes it holds, and the message is never judged."
            ),
            handler=handlers.delete_by_key,
            parameters=(*_by_key(is_required=True), _ERASE),
            answer=Answer(204, _("The message is deleted, or will be when it comes."), None),
            problems=(problems.NOT_PERMITTED,),
            example_path="/api/v1/messages?group=guild-7&external_id=m-1001",
        ),
    ]


def erasure_routes(handlers: ErasureOperations) -> list[Operation]:
    return [
        Operation(
            id="eraseSender",
            method="DELETE",
            path="/api/v1/senders",
            summary=_("Erase a sender"),
            description=_(
                "Erases everything of a person: name and id, every message in every group with all "
                "that was said about it, what others quoted of it, and what the person reported "
                "and appealed. The name goes at once, messages follow some at a time. What comes "
                "under the same id afterwards is somebody new's, so stop sending first. Asking "
                "again is safe. Takes a key that may erase."
            ),
            handler=handlers.erase_sender,
            parameters=(Parameter("sender", "query", _("Your own id of the person."), _KEY_PART),),
            answer=Answer(
                202,
                _("The erasure has begun, or had before."),
                ErasureOut,
                {"Location": "Where to ask how far it has come."},
            ),
            problems=(problems.NOT_PERMITTED,),
            example_path="/api/v1/senders?sender=u-17",
        ),
        Operation(
            id="getErasure",
            method="GET",
            path="/api/v1/erasures/{id}",
            summary=_("Ask how far an erasure has come"),
            description=_("It is done when nothing of the person is left."),
            handler=handlers.get,
            parameters=(_ERASURE_ID,),
            answer=Answer(200, _("The erasure as it stands."), ErasureOut),
            problems=(problems.NOT_FOUND,),
            example_path="/api/v1/erasures/5",
        ),
    ]


def people_routes(handlers: PeopleOperations) -> list[Operation]:
    """What users of the chats ask for."""
    return [
        Operation(
            id="createReport",
            method="POST",
            path="/api/v1/reports",
            summary=_("Report a message"),
            description=_(
                "A user of the chat reports a message. It comes before a person, also if it was "
                "allowed; the verdict stays until they decide. Each person counts once a message: "
                "the same reporter_id again stores nothing and answers with the first report, "
                "with the header Idempotent-Replay. A report goes to the newest revision."
            ),
            handler=handlers.report,
            body=ReportIn,
            body_example={
                "group": "guild-7",
                "external_id": "m-1001",
                "reporter_id": "u-42",
                "reason": "spam",
                "note": "third time today",
            },
            answer=Answer(
                201,
                _("The report is stored."),
                ReportOut,
                {"Idempotent-Replay": "true when this person had reported the message before."},
            ),
            problems=(problems.NO_SUCH_MESSAGE,),
        ),
        Operation(
            id="createAppeal",
            method="POST",
            path="/api/v1/appeals",
            summary=_("Appeal a decision"),
            description=_(
                "Somebody appeals what a moderator decided, or what the policy removed. It comes "
                "before another moderator than the first; what was decided stands until then. A "
                "decision is appealed once, and each appellant appeals a message once: again, the "
                "answer is the first appeal as it stands, with the header Idempotent-Replay."
            ),
            handler=handlers.appeal,
            body=AppealIn,
            body_example={
                "group": "guild-7",
                "external_id": "m-1001",
                "appellant_id": "u-17",
                "text": "I only asked when we meet",
            },
            answer=Answer(
                201,
                _("The appeal is open, or was before."),
                AppealOut,
                {
                    "Location": "Where to ask what became of it.",
                    "Idempotent-Replay": "true when it had been appealed before.",
                },
            ),
            problems=(problems.NO_SUCH_MESSAGE, problems.NOTHING_TO_APPEAL),
        ),
        Operation(
            id="getAppeal",
            method="GET",
            path="/api/v1/appeals/{id}",
            summary=_("Ask what became of an appeal"),
            description=_(
                "open waits for a moderator; upheld and overturned are final and have a reason. "
                "The event appeal.decided tells the same."
            ),
            handler=handlers.get_appeal,
            parameters=(_APPEAL_ID,),
            answer=Answer(200, _("The appeal as it stands."), AppealOut),
            problems=(problems.NOT_FOUND,),
            example_path="/api/v1/appeals/12",
        ),
    ]


def system_routes(handlers: SystemOperations) -> list[Operation]:
    return [
        Operation(
            id="getStages",
            method="GET",
            path="/api/v1/stages",
            summary=_("How long messages take, stage by stage"),
            description=_(
                "Percentiles of the last seconds over all processes, from merged sketches: waiting "
                "(queue), claim, encode, inference (one call to Triton and back), store, push to "
                "the live pages, and total, from stored to decided. By class of messages: single "
                "ones, those of a batch of 64 or more of one group, and those of a backlog, which "
                "waited longer than 2 s. queue is a value a chunk, total a value a message, the "
                "others a value a batch for each class in it. A stage nobody measured is left out."
            ),
            handler=handlers.stages,
            parameters=(
                Parameter(
                    "window_s",
                    "query",
                    _("How many seconds back; 60 unless said."),
                    {"type": "integer", "minimum": 1, "maximum": MOST_WINDOW_S},
                    is_required=False,
                ),
            ),
            answer=Answer(200, _("What was measured."), StagesOut),
            example_path="/api/v1/stages?window_s=60",
        ),
        Operation(
            id="getOpenApi",
            method="GET",
            path="/api/v1/openapi.json",
            summary=_("This API as an OpenAPI 3.1 document"),
            description=_("For generators and tools. Needs no key."),
            handler=handlers.openapi,
            answer=Answer(200, _("The OpenAPI document."), dict),
            needs_key=False,
        ),
        Operation(
            id="isAlive",
            method="GET",
            path="/healthz",
            summary=_("Is the process alive?"),
            description=_("Asks nothing of anything else. Needs no key."),
            handler=handlers.healthz,
            answer=Answer(200, _("It is."), HealthOut),
            needs_key=False,
        ),
        Operation(
            id="isReady",
            method="GET",
            path="/readyz",
            summary=_("Can it take messages?"),
            description=_("Asks the database. Needs no key."),
            handler=handlers.readyz,
            answer=Answer(200, _("It can."), HealthOut),
            problems=(problems.UNAVAILABLE,),
            needs_key=False,
        ),
    ]
