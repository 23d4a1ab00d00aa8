"""What the documentation page shows, taken from the OpenAPI document and the route table."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.api.operations import Operation
from apps.api.problems import ProblemKind


@dataclass(frozen=True, slots=True)
class FieldEntry:
    """A line of a table: a field of the body, or a parameter."""

    name: str
    type: str
    is_required: bool
    description: str


@dataclass(frozen=True, slots=True)
class OperationEntry:
    id: str
    method: str
    path: str
    summary: str
    description: str
    needs_key: bool
    parameters: list[FieldEntry]
    fields: list[FieldEntry]
    answer_status: int
    answer_description: str
    answer_fields: list[FieldEntry]
    problems: list[ProblemKind]
    example: str


def operation_entries(
    operations: Sequence[Operation], document: dict[str, Any], base_url: str
) -> list[OperationEntry]:
    """One entry for each operation, in the order of the route table."""
    schemas = document["components"]["schemas"]
    return [
        OperationEntry(
            id=operation.id,
            method=operation.method,
            path=operation.path,
            summary=operation.summary,
            description=operation.description,
            needs_key=operation.needs_key,
            parameters=[
                FieldEntry(p.name, _type(p.schema, schemas), p.is_required, p.description)
                for p in operation.parameters
            ],
            fields=_fields(operation.body.__name__, schemas) if operation.body else [],
            answer_status=operation.answer.status,
            answer_description=operation.answer.description,
            answer_fields=_answer_fields(operation, schemas),
            problems=operation.all_problems,
            example=_curl(operation, base_url),
        )
        for operation in operations
    ]


# Described by the operations that give or take one alone; within others only named.
_DESCRIBED_ALONE = frozenset({"MessageIn", "MessageOut", "ProblemOut"})


def _answer_fields(operation: Operation, schemas: dict[str, Any]) -> list[FieldEntry]:
    content = operation.answer.content
    return _fields(content.__name__, schemas) if content not in (None, dict) else []


def _fields(name: str, schemas: dict[str, Any], prefix: str = "") -> list[FieldEntry]:
    """The fields of a struct, those of an object within it right after it."""
    entries = []
    schema = schemas[name]
    for field, described in schema["properties"].items():
        inner, is_list = _struct_name(described)
        path = prefix + field + ("[]" if is_list else "")
        entries.append(
            FieldEntry(
                path,
                _type(described, schemas),
                field in schema.get("required", []),
                described.get("description", ""),
            )
        )
        if inner is not None and inner not in _DESCRIBED_ALONE:
            entries += _fields(inner, schemas, f"{path}.")
    return entries


def _struct_name(schema: dict[str, Any]) -> tuple[str | None, bool]:
    """The struct that a field holds, if it holds one, and whether it holds a list of them."""
    for choice in [schema, *schema.get("anyOf", [])]:
        if "$ref" in choice:
            return str(choice["$ref"]).rsplit("/", 1)[-1], False
        if "$ref" in choice.get("items", {}):
            return str(choice["items"]["$ref"]).rsplit("/", 1)[-1], True
    return None, False


def _type(schema: Any, schemas: dict[str, Any]) -> str:
    """A short name of a schema's type, with its limits."""
    if "$ref" in schema:
        return "object"
    if "anyOf" in schema:
        return " | ".join(_type(choice, schemas) for choice in schema["anyOf"])
    if "enum" in schema:
        return " | ".join("null" if value is None else str(value) for value in schema["enum"])
    types = schema.get("type", "any")
    name = " | ".join(types) if isinstance(types, list) else str(types)
    return name + _limits(schema)


def _limits(schema: Any) -> str:
    low = schema.get("minLength", schema.get("minItems", schema.get("minimum")))
    high = schema.get("maxLength", schema.get("maxItems", schema.get("maximum")))
    if high is not None:
        return f" ({low or 0:,} – {high:,})"
    return f" ({schema['format']})" if "format" in schema else ""


def _curl(operation: Operation, base_url: str) -> str:
    url = base_url + (operation.example_path or operation.path)
    parts = ["curl"]
    if operation.method not in ("GET", "POST"):
        parts.append(f"-X {operation.method}")
    if operation.needs_key:
        parts.append('-H "Authorization: Bearer $API_KEY"')
    if operation.body_example is not None:
        parts.append("-H 'Content-Type: application/json'")
        body = json.dumps(operation.body_example, ensure_ascii=False, indent=2)
        parts.append(f"-d {shlex.quote(body)}")
    parts.append(shlex.quote(url))
    return " \\\n  ".join(parts)
