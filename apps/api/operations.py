"""The route table: what can be called, what it takes and what it answers.

The router, the OpenAPI document and the documentation page are made from it, so none of them can
say something else than the others.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.api import problems
from apps.api.http import Request, Response
from apps.api.problems import METHOD_NOT_ALLOWED, NOT_FOUND, Problem, ProblemKind

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One value in the path or the query. `schema` is JSON Schema."""

    name: str
    where: str
    description: str
    schema: Mapping[str, Any]
    is_required: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call that went well gives: `content` is a struct of `schemas`, None for no body."""

    status: int
    description: str
    content: type | None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `body` is the struct that it takes."""

    id: str
    method: str
    path: str
    summary: str
    description: str
    handler: Handler
    answer: Answer
    parameters: Sequence[Parameter] = ()
    body: type | None = None
    body_example: Mapping[str, Any] | None = None
    problems: Sequence[ProblemKind] = ()
    needs_key: bool = True
    example_path: str | None = None

    @property
    def all_problems(self) -> list[ProblemKind]:
        """Those of its own and those of its nature."""
        kinds = list(self.problems)
        if self.needs_key:
            kinds += [problems.UNAUTHENTICATED, problems.UNAVAILABLE, problems.INTERNAL]
        if self.body is not None:
            kinds += [problems.MALFORMED, problems.TOO_LARGE, problems.UNSUPPORTED]
        if self.body is not None or any(p.where == "query" for p in self.parameters):
            kinds.append(problems.INVALID)
        return sorted(dict.fromkeys(kinds), key=lambda kind: (kind.status, kind.slug))


class Router:
    """Finds the operation of a request; whole paths by a dict, templates by one pattern each."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = list(operations)
        self._exact: dict[str, dict[str, Operation]] = {}
        self._templates: list[tuple[re.Pattern[str], dict[str, Operation]]] = []
        for path in dict.fromkeys(op.path for op in operations):
            methods = {op.method: op for op in operations if op.path == path}
            if "{" in path:
                self._templates.append((_pattern(path), methods))
            else:
                self._exact[path] = methods

    def find(self, method: str, path: str) -> tuple[Operation, dict[str, str]]:
        """The operation and the values in its path. Raises Problem: 404 or 405."""
        methods, values = self._at(path)
        operation = methods.get("GET" if method == "HEAD" else method)
        if operation is None:
            allowed = ", ".join(sorted(methods))
            raise Problem(
                METHOD_NOT_ALLOWED,
                f"Nothing was done: this address takes {allowed}.",
                headers=[(b"allow", allowed.encode())],
            )
        return operation, values

    def _at(self, path: str) -> tuple[dict[str, Operation], dict[str, str]]:
        methods = self._exact.get(path)
        if methods is not None:
            return methods, {}
        for pattern, methods in self._templates:
            match = pattern.fullmatch(path)
            if match:
                return methods, match.groupdict()
        raise Problem(
            NOT_FOUND,
            f"Nothing was done: the API has no such address. {problems.DOCS_PATH} lists those "
            "that there are.",
        )


def _pattern(path: str) -> re.Pattern[str]:
    literal = re.escape(path).replace(r"\{", "{").replace(r"\}", "}")
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", literal))
