"""What the review page needs to know of the person who has it open, in one statement."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.accounts.models import User
from apps.review.keys import merged
from apps.review.models import CheckAnswer, Decision
from apps.review.models.wellbeing import BLURRED_AT_FIRST
from apps.review.statements import fetch_row


@dataclass(frozen=True, slots=True)
class View:
    """A saved part of the queue."""

    id: int
    name: str
    query: str


@dataclass(frozen=True, slots=True)
class Spared:
    """Of `Wellbeing` what a page goes by."""

    blurred: Sequence[str] = BLURRED_AT_FIRST
    is_gray: bool = False
    holds_to_reveal: bool = False


@dataclass(frozen=True, slots=True)
class Own:
    """`decided_today` counts standing decisions; `undoable` is what U takes back."""

    keys: Mapping[str, str]
    care: Spared
    views: Sequence[View]
    decided_today: int
    undoable: Decision | CheckAnswer | None


# Answers to blind checks count like decisions, and their ids are of one row with them.
_OWN = """
WITH made AS (
  SELECT id, decided_at, false AS is_answer, NOT is_joined AND reverses_id IS NULL AND NOT EXISTS (
    SELECT FROM review_appeal WHERE result_id = decision.id
  ) AS is_first FROM review_decision AS decision
  WHERE moderator_id = %(user)s AND undone_at IS NULL AND decided_at >= %(since)s
  UNION ALL
  SELECT id, decided_at, true, true FROM review_checkanswer
  WHERE moderator_id = %(user)s AND undone_at IS NULL AND decided_at >= %(since)s
), newest AS (
  SELECT id, is_answer FROM made WHERE decided_at > %(undoable_since)s AND is_first
  ORDER BY id DESC LIMIT 1
)
SELECT keymap.keys, care.blurred, care.is_gray, care.holds_to_reveal,
  (SELECT coalesce(jsonb_agg(jsonb_build_array(id, name, query) ORDER BY name), '[]')
   FROM review_savedview WHERE person_id = %(user)s),
  (SELECT count(*) FROM made WHERE decided_at >= %(today)s), newest.id, newest.is_answer
FROM (SELECT) AS person
LEFT JOIN review_keymap AS keymap ON keymap.person_id = %(user)s
LEFT JOIN review_wellbeing AS care ON care.person_id = %(user)s
LEFT JOIN newest ON true
"""


def own_facts(user: User, *, today_since: datetime, undoable_since: datetime) -> Own:
    """What `user` chose, saved and did."""
    parameters = {
        "user": user.pk,
        "today": today_since,
        "undoable_since": undoable_since,
        "since": min(today_since, undoable_since),
    }
    row = fetch_row(_OWN, parameters)
    keys, blurred, is_gray, holds, views, decided_today, newest_id, is_answer = row
    return Own(
        keys=merged(json.loads(keys) if keys else {}),
        care=Spared() if blurred is None else Spared(blurred, is_gray, holds),
        views=[View(*columns) for columns in json.loads(views)],
        decided_today=decided_today,
        undoable=_made(newest_id, is_answer) if newest_id else None,
    )


def _made(id_: int, is_answer: bool) -> Decision | CheckAnswer | None:
    if is_answer:
        return CheckAnswer.objects.filter(pk=id_).first()
    return Decision.objects.select_related("joint").filter(pk=id_).first()
