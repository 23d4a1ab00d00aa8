"""A guess at the language of a text: English, Chinese, or another. Pure, microseconds a text.

Script tells most; among Latin letters small words do. A guess only sorts a queue: nobody loses a
message to a wrong one, since every message is in exactly one of the three parts.
"""

from __future__ import annotations

import re
import unicodedata

from apps.review.models import Language

# A wall of text is guessed by its beginning.
READ_CHARS = 600
_WORD = re.compile(r"[^\W\d_]+")
_ENGLISH = frozenset(
    _WORD.findall(
        "the and you for are this that with have not but all can your was what just get who how now"
        " from they will out about free here my me it is to of on in at we be do so if no or"
    )
)
_OTHER_LATIN = frozenset(
    # Spanish, Portuguese, French, German, Italian, Dutch, Polish, Turkish, Indonesian, Vietnamese:
    # words that are frequent there and are no English ones.
    _WORD.findall(
        "que de la el los las por para con una es y en un del se lo como pero muy esta"
        " não uma os ao você isso mais sem les des est pas pour dans vous avec une sur qui et le du"
        " der und das ist nicht ein ich mit auf zu von sie wir auch wie il di che sono"
        " gli het een niet je dat ik nie jest się czy bir ve bu için çok ben yang dan itu tidak"
        " saya ini untuk không là và của có cho"
    )
)


def guess(text: str) -> Language:
    """What `text` seems to be written in; what has no letters at all is `OTHER`."""
    folded = unicodedata.normalize("NFKC", text[:READ_CHARS]).casefold()
    letters = [character for character in folded if character.isalpha()]
    if not letters:
        return Language.OTHER
    if folded.isascii():
        return _guess_latin(_WORD.findall(folded))
    # A の on a shop's sign makes no Japanese.
    kana = sum("\u3040" <= c <= "\u30ff" or "\uac00" <= c <= "\ud7a3" for c in letters)
    if kana * 10 > len(letters):
        return Language.OTHER
    han = sum("\u3400" <= c <= "\u9fff" or c >= "\U00020000" for c in letters)
    # A Chinese word says about as much as four letters of an English one.
    if han * 4 >= len(letters) - han:
        return Language.ZH
    latin = sum("a" <= c <= "z" or "\u00c0" <= c <= "\u024f" for c in letters)
    if latin * 2 < len(letters):
        return Language.OTHER
    return _guess_latin(_WORD.findall(folded))


def _guess_latin(words: list[str]) -> Language:
    english = sum(word in _ENGLISH for word in words)
    other = sum(word in _OTHER_LATIN for word in words)
    if english != other:
        return Language.EN if english > other else Language.OTHER
    accented = sum(any("\u00c0" <= c <= "\u024f" for c in word) for word in words)
    return Language.OTHER if accented * 4 > len(words) else Language.EN
