"""docs/inference.md says what the code does."""

from __future__ import annotations

from pathlib import Path

from inference.errors import InferenceError

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "inference.md").read_text(encoding="utf-8")


def leaves(error_class: type[InferenceError]) -> list[type[InferenceError]]:
    """The classes that are raised: those below a family's head, and heads that are raised too."""
    below = [each for sub in error_class.__subclasses__() for each in leaves(sub)]
    families = {"inference_error", "request_error", "replica_error", "timeout"}
    return below if error_class.kind in families else [error_class, *below]


def test_the_failure_table_has_every_class_and_its_flags() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in TEXT.splitlines()
        if line.startswith("| `") and line.count("|") == 6
    ]
    told = {kind.strip("`"): tuple(flag == "yes" for flag in flags) for kind, _, *flags in rows}
    expected = {
        each.kind: (each.retryable, each.counts_against_replica, each.ejects_replica)
        for each in leaves(InferenceError)
        if each.__module__ == "inference.errors"
    }
    assert told == expected


def test_every_file_has_its_line() -> None:
    files = {path.name for path in (ROOT / "inference").glob("*.py")} - {"__init__.py"}
    missing = {name for name in files if f"`{name}`" not in TEXT}
    assert missing == set()
