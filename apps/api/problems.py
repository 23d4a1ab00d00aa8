"""What can go wrong, as RFC 9457 problem documents. The types are stable: clients match on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

DOCS_PATH = "/api/v1/docs"


@dataclass(frozen=True, slots=True)
class ProblemKind:
    slug: str
    status: int
    title: str
    retry_after_s: int | None = None

    @property
    def type_uri(self) -> str:
        """Resolves to the kind's paragraph in the documentation of this very server."""
        return f"{DOCS_PATH}#{self.slug}"


MALFORMED = ProblemKind("malformed-json", 400, "The body is not valid JSON")
UNAUTHENTICATED = ProblemKind("unauthenticated", 401, "The API key is missing or not valid")
NOT_FOUND = ProblemKind("not-found", 404, "There is nothing at this address")
METHOD_NOT_ALLOWED = ProblemKind("method-not-allowed", 405, "This address has no such method")
CONFLICT = ProblemKind("revision-conflict", 409, "This revision says something else already")
TOO_LARGE = ProblemKind("body-too-large", 413, "The body is too large")
UNSUPPORTED = ProblemKind("unsupported-media-type", 415, "The body has to be JSON")
INVALID = ProblemKind("invalid-request", 422, "A field is not valid")
INTERNAL = ProblemKind("internal-error", 500, "Something is wrong on our side")
OVERLOADED = ProblemKind("overloaded", 503, "Too many messages are waiting", retry_after_s=1)
UNAVAILABLE = ProblemKind("unavailable", 503, "The database is away", retry_after_s=2)

ALL_KINDS = (
    MALFORMED,
    UNAUTHENTICATED,
    NOT_FOUND,
    METHOD_NOT_ALLOWED,
    CONFLICT,
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
