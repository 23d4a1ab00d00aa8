"""A policy's lists as the page draws them: what is listed, and what is being added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.functional import Promise

from apps.console.forms import OUTCOMES, WHEN, PublishForm
from apps.policies.matching import RuleSpec
from apps.policies.models import Action, Label, RuleKind
from apps.policies.services import RuleKey


@dataclass(frozen=True, slots=True)
class ListedRow:
    """One entry; `value` names it in the form."""

    spec: RuleSpec
    value: str
    is_dropped: bool


@dataclass(frozen=True, slots=True)
class Choice:
    value: str
    word: str | Promise
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class ListsPanel:
    """The entries, and the form that adds some, as it was sent when it was refused."""

    rows: Sequence[ListedRow]
    typed: str
    errors: Sequence[str]
    kinds: Sequence[Choice]
    outcomes: Sequence[Choice]
    times: Sequence[Choice]


def lists_panel(listed: Mapping[RuleKey, RuleSpec], form: PublishForm | None) -> ListsPanel:
    dropped = form.dropped() if form is not None else set()
    chosen = {name: str(form[name].value() or "") if form else "" for name in _FIELDS}
    return ListsPanel(
        rows=[
            ListedRow(spec, f"{key[0]}:{key[1]}", key in dropped) for key, spec in listed.items()
        ],
        typed=chosen["entries"],
        errors=[str(error) for error in form["entries"].errors] if form else [],
        kinds=[
            Choice(kind.value, kind.label, kind.value == chosen["entry_kind"]) for kind in RuleKind
        ],
        outcomes=[
            Choice(value, _outcome_word(value), value == chosen["entry_outcome"])
            for value, _ in OUTCOMES
        ],
        times=[Choice(value, word, value == chosen["entry_when"]) for value, word in WHEN],
    )


_FIELDS = ("entries", "entry_kind", "entry_outcome", "entry_when")


def _outcome_word(value: str) -> str:
    label, action = value.split(":")
    return f"{Label(label).label} · {Action(action).label}"
