"""Asking PostgreSQL by statements written by hand, for what every load of the review page asks.

Django takes 0.3 to 1 ms to put such a query together, PostgreSQL 0.1 ms to answer it; and what
Django asks in five queries one statement tells, all of one snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import connection


def fetch_rows(sql: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """All rows; JSON comes as text."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def fetch_row(sql: str, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    """The row of a statement that always has one."""
    (row,) = fetch_rows(sql, parameters)
    return row
