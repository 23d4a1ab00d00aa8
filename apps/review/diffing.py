"""What an edit changed, word by word. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum

# Comparing takes the product of both lengths; a longer text is shown as it was, not compared.
COMPARED_WORDS = 1_500
_WORD = re.compile(r"[\u3040-\u9fff\U00020000-\U0003ffff]|\w+|\s+|.", re.DOTALL)


class Fate(StrEnum):
    KEPT = "kept"
    ADDED = "added"
    TAKEN = "taken"


@dataclass(frozen=True, slots=True)
class Change:
    """A run of text and whether the newer revision kept, added or took it."""

    fate: Fate
    text: str


def changes(old: str, new: str) -> list[Change]:
    """How `old` became `new`. What is kept and added joined is `new`, kept and taken `old`."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    if max(len(before), len(after)) > COMPARED_WORDS:
        return [Change(Fate.TAKEN, old), Change(Fate.ADDED, new)]
    return list(_changes(before, after))


def _changes(before: list[str], after: list[str]) -> Iterator[Change]:
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        taken, added = "".join(before[old_start:old_end]), "".join(after[new_start:new_end])
        if tag == "equal":
            yield Change(Fate.KEPT, added)
            continue
        if taken:
            yield Change(Fate.TAKEN, taken)
        if added:
            yield Change(Fate.ADDED, added)
