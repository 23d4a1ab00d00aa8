"""The operations on messages: each decodes, calls one service or selector, and encodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from django.db import transaction

from apps.api.collector import IngestCollector
from apps.api.database import DatabaseThreads
from apps.api.erasing import erasing_key
from apps.api.http import Headers, Request, Response
from apps.api.ids import parse_id
from apps.api.intake import read_batch, read_message
from apps.api.problems import CONFLICT, NOT_FOUND, FieldError, Problem, invalid
from apps.api.schemas import (
    ID_MOST_CHARS,
    LOOKUP_MOST_IDS,
    BatchOut,
    BatchResultOut,
    MessageOut,
    MessagesOut,
)
from apps.api.selectors import find_messages, find_revisions, key_of_message
from apps.audit.services import Actor
from apps.chat.services import Deleted, Ingested, NewMessage, Outcome, delete_message
from apps.review.services.erasure import erase_message
from apps.review.services.intake import withdraw

_REPLAYED: tuple[bytes, bytes] = (b"idempotent-replay", b"true")


class MessageOperations:
    """The handlers, bound to the collector and the database threads of one process."""

    def __init__(self, collector: IngestCollector, database: DatabaseThreads) -> None:
        self._collector = collector
        self._database = database

    async def create(self, request: Request) -> Response:
        message = read_message(await request.json_body())
        [ingested] = await self._collector.submit([message])
        if ingested.outcome is Outcome.CONFLICT:
            raise _conflict(message, ingested, at="")
        headers: Headers = [(b"location", f"/api/v1/messages/{ingested.id}".encode())]
        if ingested.outcome is Outcome.REPEATED:
            headers.append(_REPLAYED)
        return Response.json(_as_stored(message, ingested), 201, headers)

    async def create_batch(self, request: Request) -> Response:
        items = read_batch(await request.json_body())
        messages = [item for item in items if isinstance(item, NewMessage)]
        stored = iter(await self._collector.submit(messages) if messages else [])
        results = [
            _refused(index, item, request)
            if isinstance(item, Problem)
            else _result(index, item, next(stored), request)
            for index, item in enumerate(items)
        ]
        return Response.json(BatchOut(results))

    async def get(self, request: Request) -> Response:
        message_id = _id_in_path(request)
        found = await self._database.run(partial(find_messages, [message_id]))
        if message_id not in found:
            raise _no_such_message()
        return Response.json(found[message_id])

    async def find(self, request: Request) -> Response:
        query = request.query(frozenset({"ids", "group", "external_id"}))
        if "ids" not in query:
            group, external_id = _key_in_query(query)
            found = await self._database.run(
                partial(find_revisions, group=group, external_id=external_id)
            )
            return Response.json(MessagesOut(found))
        if len(query) > 1:
            raise _bad("ids", "can't be combined with group and external_id")
        return Response.json(await self._by_ids(_ids_in_query(query["ids"])))

    async def delete(self, request: Request) -> Response:
        message_id = _id_in_path(request)
        remove = _removal(request, request.query(frozenset({"erase"})))
        await self._database.run(partial(_remove_by_id, message_id, remove))
        return Response(204)

    async def delete_by_key(self, request: Request) -> Response:
        query = request.query(frozenset({"group", "external_id", "erase"}))
        group, external_id = _key_in_query(query)
        remove = _removal(request, query)
        await self._database.run(partial(remove, group, external_id))
        return Response(204)

    async def _by_ids(self, ids: Sequence[int]) -> MessagesOut:
        found = await self._database.run(partial(find_messages, ids))
        return MessagesOut(
            [found[id_] for id_ in ids if id_ in found],
            [str(id_) for id_ in ids if id_ not in found],
        )


def _as_stored(message: NewMessage, ingested: Ingested) -> MessageOut:
    """What the answer to a submission says, the first time and each time after.

    It tells that the message is stored, not how it is judged: GET tells that.
    """
    return MessageOut(
        id=str(ingested.id),
        external_id=message.external_id,
        group=message.group,
        revision=message.revision,
        status="deleted" if ingested.is_deleted else "pending",
        verdict=None,
    )


def _result(
    index: int, message: NewMessage, ingested: Ingested, request: Request
) -> BatchResultOut:
    if ingested.outcome is Outcome.CONFLICT:
        return _refused(index, _conflict(message, ingested, f"/messages/{index}"), request)
    return BatchResultOut(
        index,
        201,
        message=_as_stored(message, ingested),
        replayed=ingested.outcome is Outcome.REPEATED,
    )


def _refused(index: int, problem: Problem, request: Request) -> BatchResultOut:
    return BatchResultOut(index, problem.kind.status, problem=problem.document(request.request_id))


def _conflict(message: NewMessage, ingested: Ingested, at: str) -> Problem:
    return Problem(
        CONFLICT,
        f"Nothing was stored: message {ingested.id} has this group, external_id and revision "
        f"({message.revision}), but another sender, text or quoted_text. "
        "Send an edit with a higher revision.",
        errors=[FieldError("is taken", f"{at}/revision")],
    )


def _no_such_message() -> Problem:
    return Problem(NOT_FOUND, "There is no message with this id. Check the id you were given.")


def _id_in_path(request: Request) -> int:
    message_id = parse_id(request.path_values["id"])
    if message_id is None:
        raise _no_such_message()
    return message_id


def _ids_in_query(value: str) -> list[int]:
    words = value.split(",")
    if len(words) > LOOKUP_MOST_IDS:
        raise _bad("ids", f"must hold at most {LOOKUP_MOST_IDS} ids")
    ids = [parse_id(word) for word in words]
    if None in ids:
        raise _bad("ids", "must be ids separated by commas")
    return [id_ for id_ in dict.fromkeys(ids) if id_ is not None]


def _key_in_query(query: dict[str, str]) -> tuple[str, str]:
    for name in ("group", "external_id"):
        if name not in query:
            raise _bad(name, "is required")
        if not 0 < len(query[name]) <= ID_MOST_CHARS:
            raise _bad(name, f"must be 1 to {ID_MOST_CHARS} characters long")
    return query["group"], query["external_id"]


def _bad(parameter: str, detail: str) -> Problem:
    return invalid([FieldError(detail, parameter=parameter)])


def _actor(request: Request) -> Actor:
    assert request.key is not None
    return Actor.of_key(request.key)


Removal = Callable[[str, str], object]


def _removal(request: Request, query: dict[str, str]) -> Removal:
    """What is to be done with a message, named by the backend's ids of group and message."""
    wish = query.get("erase", "false")
    if wish not in ("true", "false"):
        raise _bad("erase", "must be true or false")
    if wish == "false":
        return partial(_delete, _actor(request))
    key = erasing_key(request)
    return lambda group, external_id: erase_message(group=group, external_id=external_id, by=key)


def _remove_by_id(message_id: int, remove: Removal) -> None:
    key = key_of_message(message_id)
    if key is None:
        raise _no_such_message()
    remove(*key)


@transaction.atomic
def _delete(actor: Actor, group: str, external_id: str) -> Deleted:
    """Delete, and take the message out of the moderators' queue in the same transaction."""
    deleted = delete_message(group=group, external_id=external_id, actor=actor)
    if deleted.message_ids:
        withdraw(message_ids=deleted.message_ids)
    return deleted
