"""Labelled rows, as `messages.jsonl` and `functional_tests.jsonl` hold them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LABELS = ("ok", "spam", "toxic", "ad")


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled text. `weak` says that a rule or another model gave the label."""

    text: str
    label: str
    lang: str
    source: str
    split: str
    weak: bool = False

    @property
    def label_index(self) -> int:
        return LABELS.index(self.label)


def read_rows(path: Path) -> list[Row]:
    """Read a JSON-lines file of labelled texts.

    Raises:
        ValueError: a line has no text or an unknown label; the message names the line only.
    """
    rows = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            record = json.loads(line)
            if not isinstance(record.get("text"), str) or record.get("label") not in LABELS:
                raise ValueError(f"{path.name}, line {number}: needs a text and one of {LABELS}")
            rows.append(
                Row(
                    text=record["text"],
                    label=record["label"],
                    lang=record.get("lang", ""),
                    source=record.get("source", ""),
                    split=record.get("split", "test"),
                    weak=bool(record.get("weak")),
                )
            )
    return rows


def in_split(rows: Iterable[Row], split: str) -> list[Row]:
    """The rows of one split, in file order."""
    return [row for row in rows if row.split == split]
