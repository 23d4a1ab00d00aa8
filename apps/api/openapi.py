"""The OpenAPI 3.1 document, made from the route table and the structs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import msgspec

from apps.api.operations import Answer, Operation, Parameter
from apps.api.problems import ProblemKind, ProblemOut
from apps.api.schemas import MessageIn

_REFERENCES = "#/components/schemas/{name}"
_REQUEST_ID = {"X-Request-Id": {"$ref": "#/components/headers/RequestId"}}


def openapi_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The whole document, as JSON values."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Chatwarden API",
            "version": "1",
            "summary": "Chat backends submit messages here and ask for verdicts.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": _schemas(operations),
            "headers": {
                "RequestId": {
                    "description": "Yours, if you sent a short plain one, or ours.",
                    "schema": {"type": "string"},
                }
            },
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schemas(operations: Sequence[Operation]) -> dict[str, Any]:
    # MessageIn is only named by hand, in the items of a batch.
    structs: list[type] = [ProblemOut, MessageIn]
    for operation in operations:
        structs += [s for s in (operation.body, operation.answer.content) if s not in (None, dict)]
    _, schemas = msgspec.json.schema_components(
        list(dict.fromkeys(structs)), ref_template=_REFERENCES
    )
    return dict(schemas)


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": operation.description,
        "security": [{"key": []}] if operation.needs_key else [],
        "responses": _responses(operation),
    }
    if operation.parameters:
        described["parameters"] = [_parameter(p) for p in operation.parameters]
    if operation.body is not None:
        content: dict[str, Any] = {"schema": _reference(operation.body)}
        if operation.body_example is not None:
            content["example"] = operation.body_example
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": content},
        }
    return described


def _responses(operation: Operation) -> dict[str, Any]:
    responses = {str(operation.answer.status): _answer(operation.answer)}
    for status, kinds in groupby(operation.all_problems, key=lambda kind: kind.status):
        responses[str(status)] = _problem(list(kinds))
    return responses


def _answer(answer: Answer) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": answer.description,
        "headers": {
            **_REQUEST_ID,
            **{
                name: {"description": text, "schema": {"type": "string"}}
                for name, text in answer.headers.items()
            },
        },
    }
    if answer.content is not None:
        schema = {"type": "object"} if answer.content is dict else _reference(answer.content)
        described["content"] = {"application/json": {"schema": schema}}
    return described


def _problem(kinds: list[ProblemKind]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": " ".join(f"`{kind.slug}`: {kind.title}." for kind in kinds),
        "headers": dict(_REQUEST_ID),
        "content": {"application/problem+json": {"schema": _reference(ProblemOut)}},
    }
    if any(kind.retry_after_s is not None for kind in kinds):
        described["headers"]["Retry-After"] = {
            "description": "Seconds to wait.",
            "schema": {"type": "integer"},
        }
    return described


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.is_required,
        "description": parameter.description,
        "schema": dict(parameter.schema),
    }


def _reference(struct: type) -> dict[str, str]:
    return {"$ref": _REFERENCES.format(name=struct.__name__)}
