"""Texts and list entries in one form, so that a comparison of tokens finds what people mean. Pure.

Case, width, composition and what can't be seen don't count. What people do to a text on purpose
(look-alikes, spaced letters, encoded links) is undone elsewhere, by the model's own normaliser;
whoever matches gives both texts.

A token is a word, or a single character of a script that writes no spaces between words, or a
space, or a single sign. So an entry made of tokens begins and ends at word boundaries where there
are such, and is found anywhere in Chinese, Japanese, Korean or Thai.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby

# Format characters, selectors and fillers: a test holds this to Unicode's own category.
_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Marks that no spelling needs once what belongs together is composed.
_STRAY_MARKS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
# Thai, Lao, Tibetan, Burmese, Hangul, Khmer, kana, ideographs.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029"
    "\u3038-\u303b\u3041-\u318f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_ASCII_TOKENS = re.compile(r"[a-z0-9]+|[^a-z0-9]")
_FULL_STOP_IN_HOST = re.compile(r"(?<=[a-z0-9])\u3002(?=[a-z0-9])")
_BRACKETED_DOT = re.compile(r" ?[\[(](?:\.|dot)[\])] ?")
_LAST_MARK = 0x1E_FFF
# More marks than that on one letter are no spelling (UAX 15 calls a text without them stream-safe).
MOST_MARKS = 30
_LONG_TEXT_CHARS = 256


def fold(text: str) -> str:
    """The text in lower case, one width and one composition, one space for any."""
    if text.isascii():
        return " ".join(text.lower().split())
    folded = unicodedata.normalize("NFKC", _without_mark_runs(_HIDDEN.sub("", text))).casefold()
    folded = _STRAY_MARKS.sub("", unicodedata.normalize("NFKC", folded))
    return " ".join(_HIDDEN.sub("", folded).split())


def _without_mark_runs(text: str) -> str:
    """Normalising sorts each run of marks in quadratic time: seconds for a text that is one run."""
    if len(text) <= _LONG_TEXT_CHARS:
        return text
    return _patterns()[2].sub(r"\1", text)


def tokens(folded: str) -> list[str]:
    """A folded text, cut; joined again the tokens are the text."""
    if folded.isascii():
        return _ASCII_TOKENS.findall(folded)
    return _patterns()[0].findall(folded)


def hosts(folded: str) -> list[str]:
    """Whatever is written like a host name in a folded text, links or not."""
    if "\u3002" in folded:
        folded = _FULL_STOP_IN_HOST.sub(".", folded)
    if "[" in folded or "(" in folded:
        folded = _BRACKETED_DOT.sub(".", folded)
    if "." not in folded:
        return []
    return [host if "xn--" not in host else decode_host(host) for host in _find_hosts(folded)]


def _find_hosts(folded: str) -> list[str]:
    return _patterns()[1].findall(folded)


def decode_host(host: str) -> str:
    """Labels in punycode as people read them; one that is not valid stays."""
    return ".".join(map(_decode_label, host.split(".")))


def _decode_label(label: str) -> str:
    # Decoding takes quadratic time, and no label is longer.
    if not label.startswith("xn--") or len(label) > 63:
        return label
    try:
        return fold(label[4:].encode("ascii").decode("punycode"))
    except (UnicodeError, ValueError, OverflowError):
        return label


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Of tokens, of hosts and of runs of marks. Made when first needed: finding all marks takes
    some milliseconds.

    Each reads a text once: a run is taken whole and never given back.
    """
    found = list(
        _ranges(
            code for code in range(0x300, _LAST_MARK) if unicodedata.category(chr(code))[0] == "M"
        )
    )
    unspaced = re.compile(f"[{_UNSPACED}]")
    marks = "".join(part for part in found if not unspaced.match(part))
    word = rf"(?:[^\W_{_UNSPACED}]|[{marks}])++"
    label = rf"[\w{marks}-]"
    # The last two are letters that become marks.
    mark = f"[{''.join(found)}\uff9e\uff9f]"
    return (
        re.compile(rf"{word}|.", re.DOTALL),
        re.compile(rf"(?<!{label}){label}++(?:\.{label}++)+"),
        re.compile(f"({mark}{{{MOST_MARKS}}}){mark}++"),
    )


def _ranges(codes: Iterable[int]) -> Iterator[str]:
    """Code points as the ranges of a character class."""
    for _, run in groupby(enumerate(codes), lambda pair: pair[1] - pair[0]):
        found = [code for _, code in run]
        yield f"{chr(found[0])}-{chr(found[-1])}"
