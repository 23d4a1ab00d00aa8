"""A text that is cut ends with a whole character, whatever it is made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.cutting import cut_whole
from apps.core.marks import Kind, pieces

WHOLE = {
    "family": "👨\u200d👩\u200d👧\u200d👦",
    "skin tone": "👍🏽",
    "profession": "👩🏽\u200d💻",
    "flag": "🇨🇭",
    "England's flag": "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "heart": "❤\ufe0f\u200d🔥",
    "keycap": "1\ufe0f\u20e3",
    "accents": "e\u0301\u0323",
    "Korean, spelt out": "\u1112\u1161\u11ab",
    "Devanagari": "क्\u200dषि",
    "line end": "\r\n",
}


@pytest.mark.parametrize("whole", WHOLE.values(), ids=WHOLE.keys())
def test_what_is_seen_as_one_character_stays_or_goes_as_one(whole: str) -> None:
    text = f"ab{whole}{whole}c"
    for most in range(2, len(text) + 1):
        cut = cut_whole(text, most)
        ends = [2, 2 + len(whole), 2 + 2 * len(whole), len(text)]
        assert cut == text[: max(end for end in ends if end <= most)]


@pytest.mark.parametrize(
    "whole", [v for k, v in WHOLE.items() if k != "line end"], ids=lambda whole: ascii(whole)
)
def test_nothing_at_the_cut_is_taken_for_a_disguise(whole: str) -> None:
    for most in range(3, 3 * len(whole)):
        marked = pieces(cut_whole(f"hi {whole * 3}", most))
        assert {piece.kind for piece in marked} <= {Kind.PLAIN}


def test_flags_are_counted_from_the_first_of_their_run() -> None:
    assert cut_whole("🇨🇭🇩🇪🇫🇷", 3) == "🇨🇭"


def test_one_character_longer_than_all_is_cut_through() -> None:
    assert cut_whole("Z" + "\u0301" * 50, 10) == "Z" + "\u0301" * 9


@given(st.text(), st.integers(1, 40))
def test_a_cut_text_is_a_beginning_of_bounded_length(text: str, most: int) -> None:
    cut = cut_whole(text, most)
    assert text.startswith(cut)
    assert len(cut) <= most
    assert cut or not text
