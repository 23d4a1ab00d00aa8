"""Which open items a person may get, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.policies.models import Label
from apps.review.grams import asked
from apps.review.models import Cause, Language
from apps.review.statements import fetch_rows


@dataclass(frozen=True, slots=True)
class QueueFilters:
    """What part of the queue somebody works on. Nothing set means all of it."""

    label: Label | None = None
    cause: Cause | None = None
    group_id: int | None = None
    language: Language | None = None
    text: str = ""


def query_of(filters: QueueFilters) -> str:
    """What stands in the address for these filters, always in the same order."""
    parts = {
        "label": filters.label,
        "cause": filters.cause,
        "group": filters.group_id,
        "lang": filters.language,
        "q": filters.text,
    }
    return urlencode({name: str(value) for name, value in parts.items() if value})


@dataclass(frozen=True, slots=True)
class Part:
    """Some items, as conditions on `review_reviewitem AS item` in statements written by hand.

    `sql` is made of words of ours alone; what people wrote is among the parameters.
    """

    sql: str
    parameters: Mapping[str, Any]

    def narrowed(self, sql: str, **parameters: Any) -> Part:
        return Part(f"{self.sql} AND {sql}", {**self.parameters, **parameters})

    def rows(self, columns: str, then: str = "", **parameters: Any) -> list[tuple[Any, ...]]:
        """These columns of each item; `then` may group, order, limit and lock (`OF item`)."""
        sql = f"SELECT {columns} FROM review_reviewitem AS item WHERE {self.sql} {then}"  # noqa: S608
        return fetch_rows(sql, {**self.parameters, **parameters})

    def is_empty(self) -> bool:
        return not self.rows("1", "LIMIT 1")


def part_of(user: User, filters: QueueFilters) -> Part:
    """Open items that `user` may see. What went up to a lead is for leads, an appeal for anybody
    but whoever decided first.
    """
    conditions = ["item.state = 'open'", "item.barred_id IS DISTINCT FROM %(user)s"]
    if not may(user, Permission.REVIEW_LEAD):
        conditions.append("item.escalated_by_id IS NULL")
    if filters.label is not None:
        conditions.append("item.label = %(label)s")
    if filters.cause == Cause.UNDETERMINED:
        # As it is counted: by the label that is missing.
        conditions.append("item.label IS NULL")
    elif filters.cause is not None:
        conditions.append("item.cause = %(cause)s")
    if filters.group_id is not None:
        conditions.append("item.group_id = %(group)s")
    if filters.language is not None:
        conditions.append("item.language = %(language)s")
    wanted = asked(filters.text)
    if wanted:
        conditions.append("item.grams @> %(grams)s::int[]")
    parameters = {
        "user": user.pk,
        "label": filters.label,
        "cause": filters.cause,
        "group": filters.group_id,
        "language": filters.language,
        "grams": wanted,
    }
    return Part(" AND ".join(conditions), parameters)


def wave_part(user: User, wave_id: int | None) -> Part:
    """The open members of a wave that `user` may see; without a wave nothing."""
    return part_of(user, QueueFilters()).narrowed("item.wave_id = %(wave)s", wave=wave_id)


_IS_FREE = """
(item.lease_until IS NULL OR item.lease_until <= %(now)s)
AND NOT EXISTS (
  SELECT FROM review_skip AS skip
  WHERE skip.moderator_id = %(user)s AND skip.until > %(now)s AND skip.item_id = item.message_id
)
AND (item.wave_id IS NULL OR (
  item.wave_id NOT IN (
    SELECT wave_id FROM review_reviewitem
    WHERE state = 'open' AND leased_by_id IS NOT NULL AND lease_until > %(now)s
    AND wave_id IS NOT NULL
  )
  AND item.wave_id NOT IN (
    SELECT skipped.wave_id FROM review_skip AS skip
    JOIN review_reviewitem AS skipped ON skipped.message_id = skip.item_id
    WHERE skip.moderator_id = %(user)s AND skip.until > %(now)s AND skipped.wave_id IS NOT NULL
  )
))
"""


def free_part(part: Part, user: User, now: datetime) -> Part:
    """Those that nobody has and that `user` did not just skip, nor any other of their waves."""
    return part.narrowed(_IS_FREE, user=user.pk, now=now)
