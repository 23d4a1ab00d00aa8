"""What can go wrong, as RFC 9457 problem documents. The types are stable: clients match on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from django.utils.translation import gettext_noop as _

DOCS_PATH = "/api/v1/docs"


@dataclass(frozen=True, slots=True)
class ProblemKind:
    slug: str
    status: int
    title: str
    meaning: str
    retry_after_s: int | None = None

    @property
    def type_uri(self) -> str:
        """Resolves to the kind's paragraph in the documentation of this very server."""
        return f"{DOCS_PATH}#{self.slug}"


MALFORMED = ProblemKind(
    "malformed-json",
    400,
    _("The body is not valid JSON"),
    _("Nothing was stored. Send one JSON document in UTF-8, without a byte-order mark."),
)
UNAUTHENTICATED = ProblemKind(
    "unauthenticated",
    401,
    _("The API key is missing or not valid"),
    _("Send `Authorization: Bearer KEY` with a key that is neither revoked nor expired."),
)
NOT_PERMITTED = ProblemKind(
    "not-permitted",
    403,
    _("The API key may not do this"),
    _("Nothing was done. An admin can make a key that may erase."),
)
NOT_FOUND = ProblemKind(
    "not-found",
    404,
    _("There is nothing at this address"),
    _("Check the path, or the id that you were given."),
)
NO_SUCH_MESSAGE = ProblemKind(
    "no-such-message",
    404,
    _("There is no such message"),
    _(
        "Nothing was stored: what the body speaks about was never submitted, or was deleted. "
        "`errors` names the field."
    ),
)
METHOD_NOT_ALLOWED = ProblemKind(
    "method-not-allowed",
    405,
    _("This address has no such method"),
    _("The header Allow names those that it has."),
)
CONFLICT = ProblemKind(
    "revision-conflict",
    409,
    _("This revision says something else already"),
    _(
        "A message with this group, external_id and revision is stored, with another sender, text "
        "or quoted_text. Nothing was changed. Send an edit with a higher revision."
    ),
)
NOTHING_TO_APPEAL = ProblemKind(
    "nothing-to-appeal",
    409,
    _("Nothing stands that could be appealed"),
    _(
        "The message is allowed without a person's decision, waits for a person, or was decided "
        "so recently that the decision may still be taken back. Nothing was changed."
    ),
)
TOO_LARGE = ProblemKind(
    "body-too-large",
    413,
    _("The body is too large"),
    _("A body holds at most 4 MiB. Send fewer messages at a time."),
)
UNSUPPORTED = ProblemKind(
    "unsupported-media-type",
    415,
    _("The body has to be JSON"),
    _("Send `Content-Type: application/json`, and no Content-Encoding."),
)
INVALID = ProblemKind(
    "invalid-request",
    422,
    _("A field is not valid"),
    _(
        "Nothing was stored. `errors` names each place, in the body by a JSON pointer, and what is "
        "wrong there. Sending the same again answers the same."
    ),
)
INTERNAL = ProblemKind(
    "internal-error",
    500,
    _("Something is wrong on our side"),
    _("Send the same request again; it takes effect once. Tell the operator the request_id."),
)
OVERLOADED = ProblemKind(
    "overloaded",
    503,
    _("Too many messages are waiting"),
    _("Send the same request again after Retry-After seconds; it takes effect once."),
    retry_after_s=1,
)
UNAVAILABLE = ProblemKind(
    "unavailable",
    503,
    _("The database is away"),
    _("Send the same request again after Retry-After seconds; it takes effect once."),
    retry_after_s=2,
)

ALL_KINDS = (
    MALFORMED,
    UNAUTHENTICATED,
    NOT_PERMITTED,
    NOT_FOUND,
    NO_SUCH_MESSAGE,
    METHOD_NOT_ALLOWED,
    CONFLICT,
    NOTHING_TO_APPEAL,
    TOO_LARGE,
    UNSUPPORTED,
    INVALID,
    INTERNAL,
    OVERLOADED,
    UNAVAILABLE,
)


class FieldError(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong: where in the body (RFC 6901), or in which parameter, and what."""

    detail: str
    pointer: str | None = None
    parameter: str | None = None


class ProblemOut(msgspec.Struct, frozen=True, omit_defaults=True, rename={"type_uri": "type"}):
    """An RFC 9457 problem: what happened, what it means, what to do."""

    type_uri: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[FieldError] = []


class Problem(Exception):  # noqa: N818
    """Raised anywhere under the API; the app's edge turns it into the answer."""

    def __init__(
        self,
        kind: ProblemKind,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        super().__init__(kind.slug)
        self.kind = kind
        self.detail = detail
        self.errors = list(errors)
        self.headers = list(headers)
        if kind.retry_after_s is not None:
            self.headers.append((b"retry-after", str(kind.retry_after_s).encode()))

    def document(self, request_id: str) -> ProblemOut:
        kind = self.kind
        return ProblemOut(
            kind.type_uri, kind.title, kind.status, self.detail, request_id, self.errors
        )


def invalid(errors: Sequence[FieldError]) -> Problem:
    """A 422 that names its first error in the sentence and all of them in `errors`."""
    first = errors[0]
    where = first.pointer or first.parameter or "The body"
    return Problem(
        INVALID,
        f"Nothing was stored: {where} {first.detail}. Correct it and send it again.",
        errors=errors,
    )


def database_away() -> Problem:
    return Problem(
        UNAVAILABLE,
        "The database did not answer, so it is not certain that the request took effect. "
        "Send the same request again after Retry-After seconds: it takes effect once.",
    )
