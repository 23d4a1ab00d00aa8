"""Showing text of strangers: what can't be seen or isn't what it seems becomes a named box. Pure.

Nothing that people wrote reaches the page as a control: direction overrides, invisible characters
and stacks of combining marks are cut into pieces that a template draws as boxes. What languages
and emoji need (joiners between Arabic or Indic letters, variation selectors after pictures, the
tags of a flag) is left alone.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache


class Kind(StrEnum):
    PLAIN = "plain"
    LOOK = "look"  # a letter that passes for another
    INVISIBLE = "invisible"
    CONTROL = "control"  # would turn the direction of what follows, or is no text at all
    STACK = "stack"  # combining marks beyond what any script piles up


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of plain text, or one marked character. `name` is what its box says."""

    kind: Kind
    text: str
    name: str = ""

    @property
    def code_point(self) -> str:
        return f"{ord(self.text[0]):04X}"

    @property
    def title(self) -> str:
        return f"U+{self.code_point} {unicodedata.name(self.text[0], '')}".strip()


MARKS_KEPT = 3
_BIDI = {
    0x202A: "LRE", 0x202B: "RLE", 0x202C: "PDF", 0x202D: "LRO", 0x202E: "RLO",
    0x2066: "LRI", 0x2067: "RLI", 0x2068: "FSI", 0x2069: "PDI",
    0x200E: "LRM", 0x200F: "RLM", 0x061C: "ALM",
}  # fmt: skip
_INVISIBLE = {
    0x00AD: "SHY", 0x034F: "CGJ", 0x180E: "MVS", 0x200B: "ZWSP", 0x200C: "ZWNJ", 0x200D: "ZWJ",
    0x2060: "WJ", 0x2061: "FA", 0x2062: "IT", 0x2063: "IS", 0x2064: "IP", 0xFEFF: "BOM",
    0x115F: "HCF", 0x1160: "HJF", 0x17B4: "KIV", 0x17B5: "KIV", 0x2800: "BLANK", 0x3164: "HF",
    0xFFA0: "HHF",
}  # fmt: skip
_ZWNJ, _ZWJ, _BLACK_FLAG = "\u200c", "\u200d", "\U0001f3f4"
_JOINING_SCRIPTS = {
    "ARABIC", "SYRIAC", "MONGOLIAN", "NKO", "MANDAIC", "DEVANAGARI", "BENGALI", "GURMUKHI",
    "GUJARATI", "ORIYA", "TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA", "KHMER", "MYANMAR",
}  # fmt: skip
_LINE_BREAKS = "\n\t"
# Alphabets with letters that pass for Latin ones. (Han, kana and Hangul beside Latin are no trick.)
_ALPHABETS = {
    "LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "COPTIC", "CHEROKEE", "GOTHIC", "LISU", "DESERET",
    "GEORGIAN",
}  # fmt: skip


def pieces(text: str) -> list[Piece]:
    """Cut `text` into plain runs and marked characters; joined again they are `text`."""
    if text.isascii() and text.isprintable():
        return [Piece(Kind.PLAIN, text)] if text else []
    looks = _look_alikes(text)
    out: list[Piece] = []
    plain: list[str] = []
    for at, character in enumerate(text):
        kind, name = _judge(text, at, looks)
        if kind is Kind.PLAIN:
            plain.append(character)
            continue
        if plain:
            out.append(Piece(Kind.PLAIN, "".join(plain)))
            plain = []
        if kind is Kind.STACK and out and out[-1].kind is Kind.STACK:
            stacked = out.pop().text + character
            out.append(Piece(Kind.STACK, stacked, f"+{len(stacked)}"))
        else:
            out.append(Piece(kind, character, name))
    if plain:
        out.append(Piece(Kind.PLAIN, "".join(plain)))
    return out


def count_kinds(cut: list[Piece]) -> Counter[Kind]:
    """How many characters of each kind are marked."""
    counts: Counter[Kind] = Counter()
    for piece in cut:
        if piece.kind is not Kind.PLAIN:
            counts[piece.kind] += len(piece.text)
    return counts


def _judge(text: str, at: int, looks: frozenset[int]) -> tuple[Kind, str]:
    character = text[at]
    code = ord(character)
    if at in looks:
        return Kind.LOOK, character
    if 0x20 <= code < 0x7F or character in _LINE_BREAKS:
        return Kind.PLAIN, ""
    if code in _BIDI:
        return Kind.CONTROL, _BIDI[code]
    category = unicodedata.category(character)
    if category == "Mn":
        return (Kind.STACK, "+1") if _is_piled(text, at) else _judge_mark(text, at)
    if code in _INVISIBLE or category in {"Cf", "Co", "Cn"} or _is_selector(code):
        return _judge_hidden(text, at)
    if category in {"Cc", "Cs", "Zl", "Zp"}:
        return Kind.CONTROL, f"{code:02X}"
    return Kind.PLAIN, ""


def _judge_mark(text: str, at: int) -> tuple[Kind, str]:
    code = ord(text[at])
    if _is_selector(code) or code in _INVISIBLE:
        return _judge_hidden(text, at)
    return Kind.PLAIN, ""


def _judge_hidden(text: str, at: int) -> tuple[Kind, str]:
    code = ord(text[at])
    if _is_needed(text, at):
        return Kind.PLAIN, ""
    if 0xE0000 <= code <= 0xE007F:
        return Kind.INVISIBLE, f"TAG {chr(code - 0xE0000)}" if 0xE0020 < code < 0xE007F else "TAG"
    if _is_selector(code):
        return Kind.INVISIBLE, "VS"
    return Kind.INVISIBLE, _INVISIBLE.get(code, f"{code:04X}")


def _is_needed(text: str, at: int) -> bool:
    """Whether spelling or an emoji needs this joiner, selector or tag."""
    character, before = text[at], text[at - 1] if at else ""
    after = text[at + 1] if at + 1 < len(text) else ""
    if character in (_ZWNJ, _ZWJ):
        if _script(before) in _JOINING_SCRIPTS or _script(after) in _JOINING_SCRIPTS:
            return bool(before and not before.isspace())
        return character == _ZWJ and _is_picture(before) and _is_picture(after)
    if _is_selector(ord(character)):
        return _is_picture(before) or _is_keycap(text, at) or "CJK" in unicodedata.name(before, "")
    if 0xE0020 <= ord(character) <= 0xE007F:
        return text[:at].rstrip("".join(map(chr, range(0xE0020, 0xE0080)))).endswith(_BLACK_FLAG)
    return False


def _is_selector(code: int) -> bool:
    return 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF or 0x180B <= code <= 0x180D


def _is_picture(character: str) -> bool:
    """An emoji, or what stands at the end of one: a selector or a skin tone."""
    return bool(character) and (
        unicodedata.category(character) in {"So", "Sk"} or _is_selector(ord(character))
        or character in "\u2194\u2195\u25b6\u25c0\u2640\u2642\u2764\u203c\u2049\u3030\u303d"
    )  # fmt: skip


def _is_keycap(text: str, at: int) -> bool:
    return text[at + 1 : at + 2] == "\u20e3" or text[at - 1 : at] in tuple("0123456789#*")


def _is_piled(text: str, at: int) -> bool:
    """Whether this is a combining mark with `MARKS_KEPT` of them before it."""
    if at < MARKS_KEPT:
        return False
    before = text[at - MARKS_KEPT : at]
    return all(unicodedata.category(c) == "Mn" and not _is_selector(ord(c)) for c in before)


def _look_alikes(text: str) -> frozenset[int]:
    """Where letters are not what they look like: styled ones, and strangers inside a word."""
    found: set[int] = set()
    for start, end in _words(text):
        letters = [(at, _script(text[at])) for at in range(start, end)]
        alphabets = Counter(script for _, script in letters if script in _ALPHABETS)
        if len(alphabets) > 1:
            main = max(alphabets, key=lambda script: (alphabets[script], script == "LATIN"))
            found.update(at for at, s in letters if s in _ALPHABETS and s != main)
        found.update(at for at, _ in letters if _is_styled(text[at]))
    return frozenset(found)


def _words(text: str) -> Iterator[tuple[int, int]]:
    """Runs of letters, marks, digits and whatever hides between them, beyond ASCII alone."""
    start = None
    for at in range(len(text) + 1):
        inside = at < len(text) and (
            text[at].isalnum() or unicodedata.category(text[at]) in {"Mn", "Mc", "Cf"}
        )
        if inside and start is None:
            start = at
        elif not inside and start is not None:
            if not text[start:at].isascii():
                yield start, at
            start = None


@lru_cache(maxsize=4096)
def _script(character: str) -> str:
    """The first word of the character's name, which for letters is the script."""
    if not character or not character.isalpha():
        return ""
    return unicodedata.name(character, "").split(" ")[0]


@lru_cache(maxsize=4096)
def _is_styled(character: str) -> bool:
    """Full-width, mathematical, circled: a costume of an ASCII letter or digit."""
    if character.isascii():
        return False
    plain = unicodedata.normalize("NFKC", character)
    return plain != character and plain.isascii() and plain.isalnum()
