"""Near-duplicates are found, and what only looks short or empty is none."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.review.near_duplicates import (
    BANDS,
    essence,
    is_alike,
    likeness,
    likenesses,
    most_different,
    prints,
)
from apps.review.reading import as_read

WORDS = [
    "join",
    "channel",
    "today",
    "earn",
    "double",
    "deposit",
    "bonus",
    "market",
    "signal",
    "trader",
    "expert",
    "private",
    "invite",
    "number",
    "winner",
    "account",
    "crypto",
    "gift",
    "withdraw",
    "weekly",
    "profit",
    "guaranteed",
    "contact",
    "admin",
    "quickly",
]
OFFERS = [
    "Earn 500 USDT a day from home, write to my assistant Lucy for the private channel",
    "加微信领取免费金币，今天注册就送大礼包，名额有限快来加入我们的交流群",
    "שלום לכולם, הצטרפו עכשיו לערוץ שלנו וקבלו מתנה בחינם לכל החיים",
]


def print_of(text: str) -> tuple[bytes, tuple[int, ...]]:
    printed = prints([essence(read) for read in as_read([text])])[0]
    assert printed is not None
    return printed


def are_near(one: str, other: str) -> bool:
    first, second = prints([essence(read) for read in as_read([one, other])])
    assert first is not None
    assert second is not None
    shares_band = bool(set(first.bands) & set(second.bands))
    return shares_band and is_alike(first.signature, second.signature)


@pytest.mark.parametrize("text", OFFERS)
def test_copies_are_near_in_any_costume(text: str) -> None:
    costumes = [
        text.upper(),
        text.replace(" ", "   "),
        f"{text}!!!",
        f" {text} \U0001f4b0\U0001f4b0",
    ]
    costumes.append(text[0] + "\u200b" + text[1:9] + "\u2060" + text[9:])
    assert all(are_near(text, costume) for costume in costumes)


def test_copies_with_another_number_name_or_link_are_near() -> None:
    first = "Hello, I am Lucy. I made 5,300 dollars last week with this group: t.me/abc1"
    assert are_near(
        first, "Hello, I am Mary. I made 9,120 dollars last week with this group: t.me/x77"
    )


def test_disguised_letters_do_not_make_another_text() -> None:
    text = "free money for everybody in this group, join today"
    assert are_near(text, text.replace("e", "\u0435").replace("o", "0"))


def test_different_texts_are_not_near() -> None:
    assert not any(are_near(a, b) for a in OFFERS for b in OFFERS if a != b)
    assert not are_near("you won a prize, click to get it", "did you see the match last night?")


@pytest.mark.parametrize(
    "text", ["", " ", "\ufeff", "ok", "hi there", "😀" * 30, "!!!" * 20, "1 2 3 4 5 6 7 8"]
)
def test_what_says_too_little_is_no_near_duplicate_of_anything(text: str) -> None:
    assert prints([essence(text)]) == [None]


@pytest.mark.parametrize("text", ["ha" * 400, "a" * 15_000, "加" * 500])
def test_repetition_is_not_taken_for_content(text: str) -> None:
    assert prints([essence(text)]) == [None]


@given(st.lists(st.text(max_size=80), max_size=12))
def test_print_does_not_depend_on_what_else_is_in_the_batch(texts: list[str]) -> None:
    cut = [essence(text) for text in texts]
    assert prints(cut) == [prints([text])[0] for text in cut]


@given(st.text(min_size=20, max_size=2000))
def test_any_text_has_a_print_of_fixed_size_or_none(text: str) -> None:
    printed = prints([essence(text)])[0]
    if printed is not None:
        assert len(printed.signature) == 64
        assert len(printed.bands) == BANDS
        assert all(-(2**31) <= band < 2**31 for band in printed.bands)
        assert likeness(printed.signature, printed.signature) == 1.0


@given(st.integers(0, 2**32), st.integers(0, 12))
def test_likeness_estimates_the_share_of_common_runs(seed: int, changes: int) -> None:
    rnd = random.Random(seed)
    words = rnd.choices(WORDS, k=24)
    other = list(words)
    for _ in range(changes):
        other[rnd.randrange(len(other))] = rnd.choice(WORDS)
    texts = [essence(" ".join(words)), essence(" ".join(other))]
    first, second = prints(texts)
    assert first is not None
    assert second is not None
    exact = likenesses(texts)[1]
    # Four standard deviations of 64 trials.
    assert abs(likeness(first.signature, second.signature) - exact) < 0.26
    if exact > 0.9:
        assert set(first.bands) & set(second.bands)


def test_unrelated_texts_hardly_ever_share_a_band() -> None:
    rnd = random.Random(7)
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    texts = ["".join(rnd.choices(alphabet, k=60)) for _ in range(300)]
    printed = [one for one in prints(texts) if one is not None]
    pairs = [(a, b) for at, a in enumerate(printed) for b in printed[:at]]
    sharing = sum(bool(set(a.bands) & set(b.bands)) for a, b in pairs)
    assert sharing <= len(pairs) / 1000


def test_most_different_ones_come_farthest_first() -> None:
    same, close, far = "aaaabbbbccccdddd", "aaaabbbbccccdddx", "wwwwxxxxyyyyzzzz"
    chosen = most_different([same, same, close, far], 2)
    assert chosen[0] == (3, 0.0)
    assert chosen[1][0] == 2
    assert most_different([same], 3) == []
    assert most_different([same, same], 3) == [(1, 1.0)]


def test_lone_surrogates_do_no_harm() -> None:
    assert print_of("broken \ud83d text that somebody has sent us anyway")
