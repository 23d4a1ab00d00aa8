"""Searching texts in any language: short runs of characters, hashed, for an array index. Pure.

PostgreSQL's own full-text search needs words, which Chinese does not separate, and `pg_trgm` is an
extension that the embedded server does not carry. So each queued text is kept as the set of its
runs: two and three characters of a word, one and two of Chinese, Japanese and Korean.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from array import array
from functools import lru_cache

# More than any chat message needs; a wall of text is found by its beginning.
INDEXED_CHARS = 2_000

_IDEOGRAPHS = "\u3040-\u9fff\uac00-\ud7a3"
# What `str.isalnum` takes: `\w` without the underscore.
_WORD = re.compile(r"[^\W_]+")
_PART = re.compile(f"[{_IDEOGRAPHS}]+|[^{_IDEOGRAPHS}]+")


def indexed(text: str) -> list[int]:
    """Everything that a search may ask of `text`, sorted."""
    return sorted(set().union(*map(_kept, _words(text))))


def asked(query: str) -> list[int]:
    """What a text must have to match: the longest runs that are kept of each word.

    Empty when the query holds nothing that could be found, such as a single letter.
    """
    found: set[int] = set()
    for word in _words(query):
        size = min(len(word), 2 if _is_ideograph(word[0]) else 3)
        found.update(_hash(run) for run in _runs(word, size) if len(run) > 1 or _is_ideograph(run))
    return sorted(found)


# Chats say the same words again and again.
@lru_cache(maxsize=50_000)
def _kept(word: str) -> frozenset[int]:
    """The runs of one word, hashed."""
    is_ideographic = _is_ideograph(word[0])
    sizes = (1, 2, 3) if is_ideographic else (2, 3)
    if not (is_ideographic or word.isascii()):
        return frozenset(_hash(run) for size in sizes for run in _runs(word, size))
    # All its characters take the same number of bytes: cut these, a third of the time.
    encoded, width = word.encode(), 3 if is_ideographic else 1
    unsigned = [
        zlib.crc32(encoded[start : start + size * width])
        for size in sizes
        for start in range(0, len(encoded) - size * width + 1, width)
    ]
    return frozenset(array("i", array("I", unsigned).tobytes()))


def _words(text: str) -> list[str]:
    """Lower-case, without costumes and hidden characters; a word has ideographs only, or none."""
    folded = unicodedata.normalize("NFKC", text[:INDEXED_CHARS]).casefold()
    if not folded.isascii():
        folded = "".join([c for c in folded if unicodedata.category(c) != "Cf"])
    return [part for word in _WORD.findall(folded) for part in _PART.findall(word)]


def _runs(word: str, size: int) -> list[str]:
    return [word[start : start + size] for start in range(len(word) - size + 1)]


def _is_ideograph(character: str) -> bool:
    return "\u3040" <= character[0] <= "\u9fff" or "\uac00" <= character[0] <= "\ud7a3"


def _hash(run: str) -> int:
    """A signed 32-bit number, as the column holds."""
    value = zlib.crc32(run.encode("utf-8", "surrogatepass"))
    return value - (1 << 32) if value >= 1 << 31 else value
