"""From each character's share to the parts of a text that carry its verdict. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# A word that weighs less than this part of the heaviest is not shown, nor is one below LEAST.
SHOWN_FROM = 0.2
LEAST = 0.05
# So many characters that are no words may lie within a span ("c-a-s-i-n-o", ", ").
GAP_CHARS = 3
LEVELS: tuple[float, ...] = (0.33, 0.66)


@dataclass(frozen=True, slots=True)
class Span:
    """`[start, end)` of a text, in code points. `level` is 1 (weak) to 3; `weight` in logits."""

    start: int
    end: int
    weight: float
    level: int


def find_spans(text: str, shares: Sequence[float]) -> list[Span]:
    """The parts of `text` that speak most for the label whose `shares` these are, in order."""
    words = [(start, end, float(sum(shares[start:end]))) for start, end in _words(text)]
    heaviest = max((weight for _, _, weight in words), default=0.0)
    least = max(heaviest * SHOWN_FROM, LEAST)
    shown = [word for word in words if word[2] >= least]
    return [_span(*part, heaviest) for part in _joined(shown)]


def carried_over(spans: Sequence[Span], offsets: Sequence[int]) -> list[Span]:
    """The same spans in another form of the text: `offsets[i]` is where its character i came from.

    Offsets never fall, so each span stays one part; one whose characters are all gone is left out.
    """
    found = []
    for span in spans:
        inside = [at for at, raw in enumerate(offsets) if span.start <= raw < span.end]
        if inside:
            found.append(Span(inside[0], inside[-1] + 1, span.weight, span.level))
    return found


def _joined(words: Sequence[tuple[int, int, float]]) -> Iterator[tuple[int, int, float]]:
    """Neighbours become one span."""
    start, end, weight = 0, -GAP_CHARS - 1, 0.0
    for word in words:
        if word[0] - end > GAP_CHARS:
            if weight:
                yield start, end, weight
            start, weight = word[0], 0.0
        end, weight = word[1], weight + word[2]
    if weight:
        yield start, end, weight


def _span(start: int, end: int, weight: float, heaviest: float) -> Span:
    share = weight / heaviest
    return Span(start, end, weight, 1 + sum(share >= least for least in LEVELS))


def _words(text: str) -> Iterator[tuple[int, int]]:
    """Words with what hides in them; of scripts that write none, single characters."""
    start = None
    for at, character in enumerate(text):
        inside, alone = _is_in_word(character), _is_ideograph(character)
        if start is not None and (not inside or alone or _is_ideograph(text[at - 1])):
            yield start, at
            start = None
        if inside and start is None:
            start = at
    if start is not None:
        yield start, len(text)


def _is_in_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character) in {"Mn", "Mc", "Me", "Cf"}


def _is_ideograph(character: str) -> bool:
    return "\u3040" <= character <= "\u9fff" or "\U00020000" <= character <= "\U0003ffff"
