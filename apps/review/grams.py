"""Searching texts in any language: short runs of characters, hashed, for an array index. Pure.

PostgreSQL's own full-text search needs words, which Chinese does not separate, and `pg_trgm` is an
extension that the embedded server does not carry. So each queued text is kept as the set of its
runs: two and three characters of a word, one and two of Chinese, Japanese and Korean.
"""

from __future__ import annotations

import unicodedata
import zlib
from collections.abc import Iterator

# More than any chat message needs; a wall of text is found by its beginning.
INDEXED_CHARS = 2_000


def indexed(text: str) -> list[int]:
    """Everything that a search may ask of `text`, sorted."""
    runs = (run for word in _words(text) for size in (1, 2, 3) for run in _runs(word, size))
    return sorted({_hash(run) for run in runs if len(run) > 1 or _is_ideograph(run)})


def asked(query: str) -> list[int]:
    """What a text must have to match: the longest runs that are kept of each word.

    Empty when the query holds nothing that could be found, such as a single letter.
    """
    found: set[int] = set()
    for word in _words(query):
        size = min(len(word), 2 if _is_ideograph(word[0]) else 3)
        found.update(_hash(run) for run in _runs(word, size) if len(run) > 1 or _is_ideograph(run))
    return sorted(found)


def _words(text: str) -> Iterator[str]:
    """Lower-case, without costumes and hidden characters; a word has ideographs only, or none."""
    folded = unicodedata.normalize("NFKC", text[:INDEXED_CHARS]).casefold()
    word = ""
    for character in folded:
        if unicodedata.category(character) == "Cf":
            continue
        if not character.isalnum():
            character = ""
        if word and (not character or _is_ideograph(character) != _is_ideograph(word[0])):
            yield word
            word = ""
        word += character
    if word:
        yield word


def _runs(word: str, size: int) -> Iterator[str]:
    for start in range(len(word) - size + 1):
        yield word[start : start + size]


def _is_ideograph(character: str) -> bool:
    return "\u3040" <= character[0] <= "\u9fff" or "\uac00" <= character[0] <= "\ud7a3"


def _hash(run: str) -> int:
    """A signed 32-bit number, as the column holds."""
    value = zlib.crc32(run.encode("utf-8", "surrogatepass"))
    return value - (1 << 32) if value >= 1 << 31 else value
