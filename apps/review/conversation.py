"""The messages around one that is judged, its sender's last ones, and what became of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.chat.models import CHUNK_ID_BITS, Message
from apps.policies.models import Action, Label
from apps.review.statements import GROUP_NAME, IS_NEWEST, fetch_rows

CONTEXT_EACH_SIDE, CONTEXT_MOST = 5, 45
HISTORY_ROWS = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was made of a message. `label` is the one that acted, if one did; None: undetermined."""

    action: Action
    label: Label | None


@dataclass(frozen=True, slots=True)
class SeenMessage:
    """A message beside the one that is judged, or that one: its newest verdict and the decision
    that stands.
    """

    id: int
    group: str
    sender: str
    text: str
    received_at: datetime
    is_deleted: bool
    verdict: Outcome | None
    decision: Outcome | None
    is_judged: bool = False

    @property
    def is_erased(self) -> bool:
        """As of `Message`."""
        return not self.text


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages around one, in order; `next_each` asks for more of them, if there may be more."""

    rows: Sequence[SeenMessage]
    next_each: int | None


def conversation_of(rows: Sequence[SeenMessage], each: int = CONTEXT_EACH_SIDE) -> Conversation:
    """The rows, and how far to ask next: a side that is full may go on."""
    before = next(at for at, row in enumerate(rows) if row.is_judged)
    is_full = each in (before, len(rows) - 1 - before)
    goes_on = is_full and each < CONTEXT_MOST
    return Conversation(rows, min(each * 3, CONTEXT_MOST) if goes_on else None)


# `message_by_sender` has the order of the last part (NEWEST_OF_SENDER).
_BESIDE = f"""
SELECT id FROM chat_message AS message
WHERE group_id = %(group)s AND external_id <> %(external_id)s AND {IS_NEWEST}
"""  # noqa: S608 (constants of ours, here and below)
_AROUND = f"""
(SELECT 0 AS part, id FROM ({_BESIDE} AND id < %(id)s ORDER BY id DESC LIMIT %(each)s) AS before)
UNION ALL (SELECT 0, %(id)s)
UNION ALL
(SELECT 0, id FROM ({_BESIDE} AND id > %(id)s ORDER BY id LIMIT %(each)s) AS after)
"""  # noqa: S608
_HISTORY = f"""
UNION ALL
(SELECT 1, id FROM chat_message AS message
 WHERE sender_id = %(sender)s AND {IS_NEWEST}
 AND NOT (group_id = %(group)s AND external_id = %(external_id)s)
 ORDER BY id >> {CHUNK_ID_BITS + 12} DESC, id DESC LIMIT {HISTORY_ROWS})
"""  # noqa: S608
_SEEN = f"""
SELECT listed.part, message.id, {GROUP_NAME},
  CASE WHEN sender.erased_at IS NULL
    THEN coalesce(nullif(sender.name, ''), sender.external_id) ELSE '' END,
  message.text, message.received_at,
  message.deleted_at IS NOT NULL, decision.action, decision.label,
  verdict.action, verdict.label, verdict.acting_label
FROM ({{listed}}) AS listed
JOIN chat_message AS message ON message.id = listed.id
JOIN chat_group ON chat_group.id = message.group_id
JOIN chat_sender AS sender ON sender.id = message.sender_id
LEFT JOIN review_decision AS decision
  ON decision.item_id = message.id AND decision.undone_at IS NULL
LEFT JOIN LATERAL (
  SELECT action, label, acting_label FROM scoring_verdict WHERE message_id = message.id
  ORDER BY created_at DESC LIMIT 1
) AS verdict ON true
"""  # noqa: S608


def around(message: Message, each: int) -> list[SeenMessage]:
    """The conversation: `each` messages before, this one, `each` after."""
    return _read(_AROUND, message, each)[0]


def around_and_history(message: Message) -> tuple[list[SeenMessage], list[SeenMessage]]:
    """The conversation, and the sender's last messages besides this one, in any group."""
    return _read(_AROUND + _HISTORY, message, CONTEXT_EACH_SIDE)


def _read(listed: str, message: Message, each: int) -> tuple[list[SeenMessage], list[SeenMessage]]:
    parameters = {
        "id": message.pk,
        "group": message.group_id,
        "external_id": message.external_id,
        "sender": message.sender_id,
        "each": each,
    }
    parts: tuple[list[SeenMessage], list[SeenMessage]] = ([], [])
    for part, *columns in fetch_rows(_SEEN.format(listed=listed), parameters):
        parts[part].append(_seen(columns, message.pk))
    said, history = parts
    said.sort(key=lambda seen: seen.id)
    history.sort(key=lambda seen: -seen.id)
    return said, history


def _seen(columns: Sequence[Any], judged_id: int) -> SeenMessage:
    id_, group, sender, text, received_at, is_deleted, decided, decided_as, *verdict = columns
    action, label, acting_label = verdict
    return SeenMessage(
        id=id_,
        group=group,
        sender=sender,
        text=text,
        received_at=received_at,
        is_deleted=is_deleted,
        verdict=_outcome(action, acting_label if label and acting_label else label),
        decision=_outcome(decided, decided_as),
        is_judged=id_ == judged_id,
    )


def _outcome(action: str | None, label: str | None) -> Outcome | None:
    return Outcome(Action(action), Label(label) if label else None) if action else None
