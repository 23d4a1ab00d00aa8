"""What the API takes and gives. The OpenAPI document is made from these."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from django.utils.translation import gettext_noop as _
from msgspec import UNSET, Meta, Raw, UnsetType

from apps.api.problems import ProblemOut

TEXT_MOST_CHARS = 20_000
ID_MOST_CHARS = 200
NAME_MOST_CHARS = 200
METADATA_MOST_BYTES = 8 * 1024
METADATA_MOST_LEVELS = 8
BODY_MOST_BYTES = 4 * 1024 * 1024
BATCH_MOST_MESSAGES = 1_000
LOOKUP_MOST_IDS = 200
# How far back figures look: each second of each process is read.
WINDOW_S, MOST_WINDOW_S = 60, 300
REVISION_MOST = 2**31 - 1

ExternalId = Annotated[str, Meta(min_length=1, max_length=ID_MOST_CHARS)]
Text = Annotated[str, Meta(max_length=TEXT_MOST_CHARS)]
NOTE_MOST_CHARS = 500
APPEAL_MOST_CHARS = 2_000
MessageId = Annotated[
    str,
    Meta(
        pattern="^[0-9]{1,19}$",
        description=_("Our id of the message; or else group and external_id."),
        examples=["1024"],
    ),
]
OwnGroup = Annotated[
    ExternalId, Meta(description=_("Your own id of the group."), examples=["guild-7"])
]
OwnMessage = Annotated[
    ExternalId, Meta(description=_("Your own id of the message."), examples=["m-1001"])
]
LabelOut = Literal["ok", "spam", "toxic", "ad"]
Probability = Annotated[float, Meta(ge=0, le=1)]


class SenderIn(msgspec.Struct, forbid_unknown_fields=True):
    """Who wrote the message."""

    id: Annotated[ExternalId, Meta(description=_("Your own id of the sender."), examples=["u-17"])]
    name: Annotated[
        Annotated[str, Meta(max_length=NAME_MOST_CHARS)] | UnsetType | None,
        Meta(description=_("The name to show to moderators."), examples=["Ada"]),
    ] = UNSET


class MessageIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One revision of a message. `(group, external_id, revision)` is its key."""

    group: Annotated[
        ExternalId,
        Meta(description=_("Your own id of the group; made at first sight."), examples=["guild-7"]),
    ]
    external_id: Annotated[
        ExternalId, Meta(description=_("Your own id of the message."), examples=["m-1001"])
    ]
    revision: Annotated[
        Annotated[int, Meta(ge=1, le=REVISION_MOST)] | UnsetType,
        Meta(
            description=_("1 for a new message, higher for each edit."),
            examples=[1],
            extra_json_schema={"default": 1},
        ),
    ] = UNSET
    sender: Annotated[SenderIn, Meta(description=_("Who wrote the message."))]
    text: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=TEXT_MOST_CHARS,
            description=_("1 to 20,000 Unicode code points, kept as they are."),
            examples=["see you at the raid tonight"],
        ),
    ]
    sent_at: Annotated[
        str | UnsetType | None,
        Meta(
            description=_("RFC 3339 with an offset; kept in UTC."),
            examples=["2026-11-30T12:00:00Z"],
            extra_json_schema={"format": "date-time"},
        ),
    ] = UNSET
    reply_to: Annotated[
        Annotated[str, Meta(max_length=ID_MOST_CHARS)] | UnsetType | None,
        Meta(
            description=_("Your own id of the message that this one answers."), examples=["m-1000"]
        ),
    ] = UNSET
    quoted_text: Annotated[
        Text | UnsetType | None, Meta(description=_("What the message quotes, for moderators."))
    ] = UNSET
    metadata: Annotated[
        Raw | UnsetType,
        Meta(
            description=_(
                "An object of your own, at most 8 KiB of JSON and 8 levels deep; kept, never "
                "judged."
            ),
            extra_json_schema={"type": ["object", "null"]},
        ),
    ] = UNSET


class BatchIn(msgspec.Struct, forbid_unknown_fields=True):
    """Up to 1,000 messages. Each is checked and stored on its own."""

    messages: Annotated[
        list[Raw],
        Meta(
            max_length=BATCH_MOST_MESSAGES,
            description=_("Each as for a single message."),
            extra_json_schema={"items": {"$ref": "#/components/schemas/MessageIn"}},
        ),
    ]


Reason = Literal["spam", "toxic", "ad", "danger", "other"]


class ReportIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One person's report of a message, named by our id or by your own ids."""

    message_id: MessageId | UnsetType = UNSET
    group: OwnGroup | UnsetType = UNSET
    external_id: OwnMessage | UnsetType = UNSET
    reporter_id: Annotated[
        ExternalId, Meta(description=_("Your own id of who reports."), examples=["u-42"])
    ]
    reason: Annotated[
        Reason,
        Meta(
            description=_("What they take it for; danger when somebody may come to harm."),
            examples=["spam"],
        ),
    ]
    note: Annotated[
        Annotated[str, Meta(max_length=NOTE_MOST_CHARS)] | UnsetType | None,
        Meta(description=_("Their own words, for moderators."), examples=["third time today"]),
    ] = UNSET


class ReportOut(msgspec.Struct, frozen=True):
    """A report as it stands."""

    id: Annotated[str, Meta(description=_("Ours; a string, for it may exceed 2^53."))]
    message_id: Annotated[
        str, Meta(description=_("The revision it went to: the newest there was."))
    ]
    reason: Reason
    status: Annotated[
        Literal["waiting", "reviewed", "closed"],
        Meta(
            description=_(
                "waiting for a person, reviewed by one (the message tells the outcome), or closed: "
                "removed already without one."
            )
        ),
    ]


class AppealIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One person's appeal against what became of a message."""

    message_id: MessageId | UnsetType = UNSET
    group: OwnGroup | UnsetType = UNSET
    external_id: OwnMessage | UnsetType = UNSET
    appellant_id: Annotated[
        ExternalId, Meta(description=_("Your own id of who appeals."), examples=["u-17"])
    ]
    text: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=APPEAL_MOST_CHARS,
            description=_("Their own words, for moderators."),
            examples=["I only asked when we meet"],
        ),
    ]


class AppealOut(msgspec.Struct, frozen=True):
    """An appeal as it stands."""

    id: Annotated[str, Meta(description=_("Ours; a string, for it may exceed 2^53."))]
    message_id: str
    status: Annotated[
        Literal["open", "upheld", "overturned", "withdrawn"],
        Meta(description=_("withdrawn: the message was deleted or edited before anybody decided.")),
    ]
    action: Annotated[Literal["allow", "hold", "remove"], Meta(description=_("What is appealed."))]
    label: LabelOut
    reason: Annotated[
        str | None, Meta(description=_("Why it was decided so, in the moderator's words."))
    ]
    opened_at: str
    decided_at: str | None


class ErasureOut(msgspec.Struct, frozen=True):
    """The erasure of a sender as it stands."""

    id: Annotated[str, Meta(description=_("Ours; a string, for it may exceed 2^53."))]
    status: Annotated[
        Literal["running", "done"],
        Meta(description=_("running: the name is gone, messages follow some at a time.")),
    ]
    messages: Annotated[int, Meta(description=_("Erased so far, each revision counted by itself."))]
    requested_at: str
    finished_at: str | None


class ScoresOut(msgspec.Struct, frozen=True):
    """The probability of each label; together 1."""

    ok: Probability
    spam: Probability
    toxic: Probability
    ad: Probability


class ModelOut(msgspec.Struct, frozen=True):
    name: str
    version: str


class TimingsOut(msgspec.Struct, frozen=True):
    """Milliseconds: waiting to be claimed, in the model, from stored to decided."""

    queue: float
    inference: float
    total: float


class FallbackOut(msgspec.Struct, frozen=True):
    """What the policy's lists said alone while the model was away."""

    label: LabelOut
    action: Literal["hold", "remove"]
    changed: Annotated[
        bool, Meta(description=_("Whether label or action are others now that it was judged."))
    ]


class VerdictOut(msgspec.Struct, frozen=True):
    """The verdict that stands. A person's goes over any other; one of the model or of the policy's
    lists (rules) over one that the lists alone gave while the model was away (fallback).
    """

    label: Annotated[LabelOut | None, Meta(description=_("Null when undetermined."))]
    confidence: Annotated[
        Probability | None,
        Meta(description=_("The label's score; null when a person decided or nothing could.")),
    ]
    scores: ScoresOut | None
    action: Literal["allow", "hold", "remove"]
    source: Literal["model", "rules", "fallback", "person"]
    model: Annotated[ModelOut | None, Meta(description=_("Null when no model judged."))]
    reasons: list[str]
    timings_ms: TimingsOut | None
    fallback: Annotated[
        FallbackOut | None,
        Meta(description=_("Null unless it was decided before, while the model was away.")),
    ] = None


class MessageOut(msgspec.Struct, frozen=True):
    """One revision of a message, as it stands."""

    id: Annotated[str, Meta(description=_("Ours; a string, for it may exceed 2^53."))]
    external_id: str
    group: str
    revision: int
    status: Literal["pending", "decided", "undetermined", "deleted"]
    verdict: VerdictOut | None


class BatchResultOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of the message at `index`: `message` or `problem`, with its HTTP status."""

    index: int
    status: int
    message: MessageOut | UnsetType = UNSET
    replayed: Annotated[
        bool, Meta(description=_("True when the key was stored before: a repeat stores nothing."))
    ] = False
    problem: ProblemOut | UnsetType = UNSET


class BatchOut(msgspec.Struct, frozen=True):
    """One result for each message, in their order."""

    results: list[BatchResultOut]


class MessagesOut(msgspec.Struct, frozen=True):
    """The messages found, in the order asked for, and the ids there is nothing for."""

    messages: list[MessageOut]
    missing: list[str] = []


StageName = Literal["queue", "claim", "encode", "inference", "store", "push", "total"]
MessageClassName = Literal["single", "batch", "backlog"]


class StageOut(msgspec.Struct, frozen=True):
    """How long one stage took, in milliseconds, to 1 % of each value."""

    stage: StageName
    message_class: Annotated[
        MessageClassName | None, Meta(description=_("Null over all messages."))
    ]
    count: int
    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


class StagesOut(msgspec.Struct, frozen=True):
    """Every stage that was measured, in the order of a message's way, over all processes."""

    window_s: int
    stages: list[StageOut]


class HealthOut(msgspec.Struct, frozen=True):
    status: Literal["ok", "ready"]
