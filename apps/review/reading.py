"""How the model reads a text: the tokenizer's own normaliser, run here for the card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apps.releases.training.paths import load_normalizer, served_normalizer


@dataclass(frozen=True, slots=True)
class Reading:
    """The text with its disguise undone, and what the disguise was (`invisible_chars`, ...)."""

    text: str
    undone: tuple[str, ...]
    # Where each character of `text` came from, in code points of the text as sent.
    offsets: tuple[int, ...] = ()


def read(text: str) -> Reading | None:
    """The text as the model gets it; None when nothing in it is disguised.

    Plain folding (a full-width question mark, two spaces for one) is no news to anybody.
    """
    normalized = served_normalizer().normalize(text)
    if not normalized.undone:
        return None
    bits: dict[str, int] = load_normalizer().UNDONE_BITS
    undone = tuple(name for name, bit in bits.items() if normalized.undone & bit)
    return Reading(normalized.text, undone, tuple(normalized.offsets))


def as_read(texts: Sequence[str]) -> list[str]:
    """Each text with its disguise undone, or as it was sent where there is none."""
    whole = [load_normalizer().replace_surrogates(text) for text in texts]
    undone: dict[int, tuple[str, int]] = served_normalizer().undo(whole)
    return [undone[at][0] if at in undone else text for at, text in enumerate(whole)]
