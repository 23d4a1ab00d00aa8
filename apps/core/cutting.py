"""Cutting a text to a length without cutting through what people see as one character.

Half of a family of emoji, or of England's flag, is another picture, and the joiner that is left at
its end would be shown as a hidden character: as if somebody had tried to deceive.
"""

from __future__ import annotations

import unicodedata

_ZWJ = "\u200d"
_MARKS = {"Mn", "Me", "Mc"}


def cut_whole(text: str, most: int) -> str:
    """The first `most` code points, or so many fewer that the last character is whole.

    Args:
        text: One code point more than `most` is enough to know.
        most: At least 1. A single character that is longer than that is cut through.
    """
    if len(text) <= most:
        return text
    at = most
    while at and _is_within(text, at):
        at -= 1
    return text[: at or most]


def _is_within(text: str, at: int) -> bool:
    """Whether the code points before and after `at` belong to one character (UAX #29, nearly)."""
    before, after = text[at - 1], text[at]
    if _ZWJ in (before, after) or (before == "\r" and after == "\n"):
        return True
    if unicodedata.category(after) in _MARKS or _is_modifier(after):
        return True
    if _is_jamo_after(before, after):
        return True
    return _is_flag_letter(after) and _flag_letters_before(text, at) % 2 == 1


def _is_modifier(character: str) -> bool:
    """A skin tone, or a tag of a flag."""
    return "\U0001f3fb" <= character <= "\U0001f3ff" or "\U000e0020" <= character <= "\U000e007f"


def _is_jamo_after(before: str, after: str) -> bool:
    """Whether a Korean syllable that is spelt out goes on: consonants, then a vowel and a final."""
    if not ("\u1100" <= before <= "\u11ff" and "\u1100" <= after <= "\u11ff"):
        return False
    return after >= "\u1160" or before < "\u1160"


def _is_flag_letter(character: str) -> bool:
    """Two of these are a flag."""
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flag_letters_before(text: str, at: int) -> int:
    first = at
    while first and _is_flag_letter(text[first - 1]):
        first -= 1
    return at - first
