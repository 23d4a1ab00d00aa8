"""The live verdict feed: a sample of the newest verdicts, and it says so.

What people wrote is for those who may review it (`may_read_messages`); all others see which message
it was and what was decided. Their rows have no text at all, so there is none to be left out later.
Text is cut and its hidden characters are named here, once for all viewers; the browser only puts
the pieces into the page as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from django.contrib.auth.models import AnonymousUser
from django.db.models import QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.chat.models import Message
from apps.core.cutting import cut_whole
from apps.core.marks import Kind, Piece, pieces
from apps.policies.models import Action, Label
from apps.scoring.models import Source, Verdict

SHOWN = 40
# Of this many of the newest verdicts the page's first feed is filtered.
LOOKED_AT = 2_000
MOST_CHARACTERS = 160
MOST_NAME_CHARACTERS = 60
UNDETERMINED = "none"


SOURCE_WORDS: dict[str, Promise] = {
    Source.MODEL: gettext_lazy("model"),
    Source.RULES: gettext_lazy("rules"),
    Source.FALLBACK: gettext_lazy("fallback"),
    Source.PERSON: gettext_lazy("person"),
}


def may_read_messages(user: User | AnonymousUser) -> bool:
    """Whether this person is shown texts on the operator's pages: the one rule for all of them."""
    return may(user, Permission.REVIEW)


@dataclass(frozen=True, slots=True)
class Row:
    """One verdict. `label` is "" for undetermined; `score` is that of the label, 0 to 1.

    `text` is None for those who may not read messages.
    """

    message_id: int
    at: str
    label: str
    score: float | None
    action: str
    source: str
    text: str | None
    group: str
    group_key: str
    reasons: Sequence[str]
    total_ms: float
    is_deleted: bool
    # Whether people have, or had, it to look at.
    is_in_review: bool

    @property
    def label_word(self) -> str:
        return str(Label(self.label).label) if self.label else _("undetermined")

    @property
    def action_word(self) -> str:
        return str(Action(self.action).label)

    @property
    def source_word(self) -> str:
        return str(SOURCE_WORDS.get(self.source, self.source))

    def without_text(self) -> Self:
        return replace(self, text=None)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": str(self.message_id),
            "at": self.at,
            "label": self.label,
            "score": self.score,
            "action": self.action,
            "source": self.source,
            "text": None if self.text is None else _cut(self.text),
            "group": _cut(self.group),
            "reasons": list(self.reasons),
            "ms": self.total_ms,
            "deleted": self.is_deleted,
            "review": self.is_in_review,
            "groupKey": self.group_key,
        }


def _cut(text: str) -> list[list[str]]:
    """Runs of plain text as [text], marked characters as [name, kind, title]."""
    return [_piece_json(piece) for piece in pieces(text)]


def _piece_json(piece: Piece) -> list[str]:
    if piece.kind is Kind.PLAIN:
        return [piece.text]
    return [piece.name, piece.kind.value, piece.title]


def _line(text: str, most: int) -> str:
    """One line of at most `most` characters: what does not fit the row is not sent."""
    return cut_whole(" ".join(cut_whole(text, 2 * most).split()), most)


def latest_rows(
    *, with_text: bool, label: str = "", action: str = "", source: str = "", group: str = ""
) -> list[Row]:
    """The newest verdicts, newest first; with a filter, those among the last `LOOKED_AT`.

    Args:
        with_text: for people who may read messages.
        label, action, source: what a verdict must have; empty asks for all.
        group: the key that the chat backend gives the group.
    """
    newest = Verdict.objects.order_by("-message_id", "-created_at")
    if label or action or source or group:
        ids = list(newest.values_list("message_id", flat=True)[:LOOKED_AT])
        if group:
            ids = _of_group(ids, group)
        newest = _filtered(newest.filter(message_id__in=ids), label, action, source)
    rows = _rows(newest, SHOWN)
    return rows if with_text else [row.without_text() for row in rows]


def _of_group(message_ids: Sequence[int], group: str) -> list[int]:
    of_group = Message.objects.filter(id__in=message_ids, group__external_id=group)
    return list(of_group.values_list("id", flat=True))


def _filtered(
    verdicts: QuerySet[Verdict], label: str, action: str, source: str
) -> QuerySet[Verdict]:
    if action:
        verdicts = verdicts.filter(action=action)
    if source:
        verdicts = verdicts.filter(source=source)
    if label == UNDETERMINED:
        return verdicts.filter(label=None)
    return verdicts.filter(label=label) if label else verdicts


def rows_of(message_ids: Sequence[int]) -> list[Row]:
    """The verdicts on these messages, newest first, with their texts: a frame's sample."""
    verdicts = Verdict.objects.filter(message_id__in=message_ids)
    return _rows(verdicts.order_by("-message_id", "-created_at"), None)


def rows_of_verdicts(verdicts: QuerySet[Verdict], most: int) -> list[Row]:
    """The first of these, in their order, with their texts."""
    return _rows(verdicts, most)


# All of a row at once: the feed is read four times a second, and each further query is a wait for
# PostgreSQL and for a processor. Joined to named messages only, so that no plan reads more.
_READ = (
    *("message_id", "created_at", "label", "action", "source", "reasons", "total_ms"),
    *(f"score_{label}" for label in Label.values),
    *("message__text", "message__deleted_at", "message__group__name"),
    *("message__group__external_id", "message__reviewitem"),
)


def _rows(verdicts: QuerySet[Verdict], most: int | None) -> list[Row]:
    if most is not None:
        ids = list(verdicts.values_list("message_id", flat=True)[:most])
        verdicts = verdicts.filter(message_id__in=ids)
    # Of a message with two, which the lists alone decided first, the newer.
    newest: dict[int, Row] = {}
    for values in verdicts.values(*_READ):
        if values["message_id"] not in newest:
            newest[values["message_id"]] = _row(values)
    return list(newest.values())


def _row(values: Mapping[str, Any]) -> Row:
    label, at = values["label"], values["created_at"]
    is_deleted = values["message__deleted_at"] is not None
    key = values["message__group__external_id"]
    return Row(
        message_id=values["message_id"],
        at=f"{at:%H:%M:%S}.{at.microsecond // 1000:03}",
        label=label or "",
        score=values[f"score_{label}"] if label else None,
        action=values["action"],
        source=values["source"],
        text="" if is_deleted else _line(values["message__text"], MOST_CHARACTERS),
        group=_line(values["message__group__name"] or key, MOST_NAME_CHARACTERS),
        group_key=key,
        reasons=values["reasons"],
        total_ms=values["total_ms"],
        is_deleted=is_deleted,
        is_in_review=values["message__reviewitem"] is not None,
    )
