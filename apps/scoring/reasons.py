"""The codes in a verdict's `reasons`: why it is what it is, for the API and the console.

`model:<label>` a threshold acted on the model's score; `rule:<id>` an entry of the policy's lists
decided; `undone:<what>` normalising undid an obfuscation; `undetermined:<why>` nothing could be
concluded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from apps.policies.models import Label

# The bits of the ensemble's UNDONE output, lowest first. A test holds this to the normaliser's
# own table in triton_models/, which the application need not have beside it.
UNDONE: tuple[str, ...] = (
    "invisible_chars",
    "look_alikes",
    "spaced_letters",
    "stretched",
    "full_width",
    "leet",
    "bidi_controls",
    "encoded_links",
    "combining_marks",
    "invalid_utf8",
    "truncated",
)

POISONED = "undetermined:poisoned_input"
NOT_FINITE = "undetermined:not_finite"
KILLED_WORKERS = "undetermined:killed_workers"


def undone_names(mask: int) -> Iterator[str]:
    """The names of the bits that are set; bits of a newer normaliser are left out."""
    return (name for bit, name in enumerate(UNDONE) if mask >> bit & 1)


@lru_cache(maxsize=4096)
def model_reasons(acting_label: Label | None, undone: int) -> tuple[str, ...]:
    """Why the model's verdict is what it is."""
    acting = () if acting_label is None else (f"model:{acting_label}",)
    return (*acting, *(f"undone:{name}" for name in undone_names(undone)))


@lru_cache(maxsize=4096)
def rule_reasons(rule_id: int, undone: int) -> tuple[str, ...]:
    """Why an entry's verdict is what it is."""
    return (f"rule:{rule_id}", *(f"undone:{name}" for name in undone_names(undone)))
