"""From a body to messages that may be stored: every check that a message has to pass."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import UNSET, UnsetType

from apps.api import strict_json
from apps.api.problems import FieldError, Problem, invalid
from apps.api.schemas import (
    METADATA_MOST_BYTES,
    METADATA_MOST_LEVELS,
    BatchIn,
    MessageIn,
)
from apps.chat.services import NewMessage

_message_decoder = msgspec.json.Decoder(MessageIn)
_batch_decoder = msgspec.json.Decoder(BatchIn)


def read_message(raw: bytes | msgspec.Raw, at: str = "") -> NewMessage:
    """The message in `raw`, whose pointer is `at`. Raises Problem."""
    sent = strict_json.decode(raw, _message_decoder, at)
    if strict_json.may_hide_faults(raw, *_keys_and_strings(sent)):
        strict_json.inspect(bytes(raw), at)
    return NewMessage(
        group=sent.group,
        external_id=sent.external_id,
        revision=sent.revision or 1,
        sender=sent.sender.id,
        sender_name=sent.sender.name or "",
        text=sent.text,
        quoted_text=sent.quoted_text or "",
        reply_to=sent.reply_to or "",
        metadata=_metadata(sent.metadata, f"{at}/metadata"),
        sent_at=_time(sent.sent_at, f"{at}/sent_at"),
    )


def read_batch(raw: bytes) -> list[NewMessage | Problem]:
    """For each message of a batch, the message or what is wrong with it.

    Raises Problem when the body is no batch at all. A body that msgspec can't even split (half a
    surrogate pair in one text is enough) is taken apart by the slow parser, so that one bad
    message never takes the others with it.
    """
    items: Sequence[msgspec.Raw | Problem]
    try:
        items = split = _batch_decoder.decode(raw).messages
    except msgspec.ValidationError:
        strict_json.decode(raw, _batch_decoder)
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        items = _split_slowly(raw)
    else:
        if raw.count(b":") != 1 + sum(bytes(item).count(b":") for item in split):
            strict_json.inspect(raw)
    return [_read_item(item, f"/messages/{index}") for index, item in enumerate(items)]


def _read_item(item: msgspec.Raw | Problem, at: str) -> NewMessage | Problem:
    if isinstance(item, Problem):
        return item
    try:
        return read_message(item, at)
    except Problem as problem:
        return problem


def _split_slowly(raw: bytes) -> list[msgspec.Raw | Problem]:
    tree = strict_json.parse(raw)
    wrapper = _wrapper_of(tree)
    # What is wrong with the wrapper itself is wrong with the request.
    strict_json.decode(msgspec.json.encode(wrapper), _batch_decoder)
    items = dict(tree)["messages"]
    return [_checked(item, f"/messages/{index}") for index, item in enumerate(items)]


def _wrapper_of(tree: object) -> object:
    """The document with its messages blanked out."""
    if not isinstance(tree, strict_json.Pairs):
        return [] if isinstance(tree, list) else None
    strict_json.refuse_faulty_keys(tree)
    return {key: [None] * len(value) if isinstance(value, list) else None for key, value in tree}


def _checked(item: object, at: str) -> msgspec.Raw | Problem:
    errors = strict_json.faults(item, at)
    if errors:
        return invalid(errors)
    return msgspec.Raw(msgspec.json.encode(strict_json.plain(item)))


def _keys_and_strings(sent: MessageIn) -> tuple[int, tuple[str, ...]]:
    """How many keys a message was given, and its strings; its metadata counts as a string."""
    keys, strings = 5, [sent.group, sent.external_id, sent.sender.id, sent.text]
    for value in (sent.sender.name, sent.sent_at, sent.reply_to, sent.quoted_text):
        if value is not UNSET:
            keys += 1
            strings.append(value or "")
    keys += (sent.revision is not UNSET) + (sent.metadata is not UNSET)
    if sent.metadata is not UNSET:
        strings.append(bytes(sent.metadata).decode("utf-8", "replace"))
    return keys, tuple(strings)


def _time(value: str | UnsetType | None, at: str) -> datetime | None:
    if not value:
        return None
    try:
        time = msgspec.convert(value, datetime)
    except msgspec.ValidationError as error:
        raise _refused(
            at, "must be an RFC 3339 date and time that exists, such as 2026-11-30T12:00:00Z"
        ) from error
    if time.tzinfo is None:
        raise _refused(at, "must have an offset from UTC, such as Z or +08:00")
    try:
        return time.astimezone(UTC)
    except OverflowError as error:
        raise _refused(at, "must lie in the years 1 to 9999 in UTC") from error


def _metadata(raw: msgspec.Raw | UnsetType, at: str) -> msgspec.Raw | None:
    """Checked by the slow parser: it is rare, short, and kept as it came."""
    if raw is UNSET:
        return None
    document = bytes(raw)
    if document == b"null":
        return None
    if len(document) > METADATA_MOST_BYTES:
        raise _refused(at, f"must be at most {METADATA_MOST_BYTES:,} bytes of JSON")
    tree = strict_json.parse(document)
    if not isinstance(tree, strict_json.Pairs):
        raise _refused(at, "must be an object")
    if strict_json.depth_of(tree) > METADATA_MOST_LEVELS:
        raise _refused(at, f"must be nested at most {METADATA_MOST_LEVELS} levels deep")
    errors = strict_json.faults(tree, at)
    if errors:
        raise invalid(errors)
    # Encoded again: PostgreSQL refuses numbers that Python has rounded, such as 1e-20000.
    return msgspec.Raw(msgspec.json.encode(strict_json.plain(tree)))


def _refused(at: str, detail: str) -> Problem:
    return invalid([FieldError(detail, at)])
