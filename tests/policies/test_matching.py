"""What lists find: tables of what people write, and properties over what nobody would."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from apps.policies.folding import _HIDDEN, MOST_MARKS, fold, hosts, tokens
from apps.policies.matching import Fault, Matched, Matcher, PatternError, RuleSpec, pattern_key
from apps.policies.models import Action, Label, RuleKind
from apps.releases.training.paths import TOKENIZER_DIR, load_normalizer

NORMALIZER = load_normalizer().Normalizer(TOKENIZER_DIR)


def term(pattern: str, label: Label = Label.SPAM, action: Action = Action.REMOVE) -> RuleSpec:
    return RuleSpec(RuleKind.TERM, pattern, label, action)


def domain(pattern: str, label: Label = Label.AD, action: Action = Action.REMOVE) -> RuleSpec:
    return RuleSpec(RuleKind.DOMAIN, pattern, label, action)


def allowed(spec: RuleSpec) -> RuleSpec:
    return spec._replace(label=Label.OK, action=Action.ALLOW)


def match(text: str, *specs: RuleSpec, is_away: bool = False) -> Matched | None:
    """As a worker does it: with what the model's normaliser undoes, if anything."""
    undone, _ = NORMALIZER.undo([text]).get(0, (None, 0))
    return Matcher(enumerate(specs), is_away=is_away).match(text, undone)


def found(text: str, spec: RuleSpec) -> bool:
    return match(text, spec) is not None


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("casino", "Best CASINO in town"),
        ("casino", "casino."),
        ("  Casino ", "(casino)"),
        ("free coins", "FREE \n\t coins!!"),
        ("加微信", "想要的加微信聊"),
        ("加微信", "加薇信 加微信"),
        ("카지노", "카지노를"),
        ("คาสิโน", "เล่นคาสิโนออนไลน์"),
        ("vx加", "VX加我"),
        ("straße", "STRASSE"),
        ("café", "cafe\u0301"),
        ("b**p", "what the b**p"),
        ("$x", "pay me $X now"),
        ("Co(de", "use co(de today"),
        ("c++", "C++ rocks"),
        ("a.b", "so a.b it is"),
        ("(", "well (no)"),
        ("हिन्दी", "यह हिन्दी है"),
        ("t.me/winners", "join https://t.me/winners now"),
        ("👍🏽", "ok 👍🏽"),
    ],
)
def test_entry_is_found(pattern: str, text: str) -> None:
    assert found(text, term(pattern))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("ass", "class pass assume"),
        ("free coins", "free the coins"),
        ("free coins", "freecoins"),
        ("b**p", "b*p"),
        (".*", "anything at all"),
        ("a|b", "a or b"),
        ("हिन्द", "हिन्दी"),
        ("加微信", "加入微信群"),
        ("itch", "6 bitches"),
        ("casino", ""),
        ("casino", "   "),
    ],
)
def test_entry_is_not_found_in_what_only_looks_like_it(pattern: str, text: str) -> None:
    assert not found(text, term(pattern))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("free money", "fr\u2062ee m\u200bon\u2068ey"),
        ("casino", "ca\u00adsi\u00adno"),
        ("casino", "ca\ufe0fsino"),
        ("casino", "ca\U000e0061sino"),
        ("free money", "fr\u0435\u0435 m\u043eney"),
        ("free", "𝐟𝐫𝐞𝐞 stuff"),
        ("free", "ｆｒｅｅ stuff"),
        ("加微信", "加 微 信"),
        ("加薇芯", "加-薇-芯"),
        ("casino", "c a s i n o"),
        ("free", "freeeee"),
        ("free money", "fr33 m0n3y"),
        ("casino", "c\u0337a\u0337s\u0337i\u0337n\u0337o\u0337"),
    ],
)
def test_disguised_text_is_as_the_clean_one(pattern: str, text: str) -> None:
    assert found(text, term(pattern))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("evil.example", "see http://evil.example/x?y=1"),
        ("evil.example", "see EVIL.Example"),
        ("evil.example", "a.b.evil.example:8080"),
        ("*.evil.example", "shop.evil.example"),
        ("https://evil.example/offer", "evil.example"),
        ("evil.example.", "evil.example..."),
        ("evil.example", "user@evil.example"),
        ("evil.example", "http://good.example@evil.example/"),
        ("evil.example", "http://ev%69l.example/"),
        ("evil.example", "http://good.example/?u=http%3A%2F%2Fevil.example"),
        ("evil.example", "evil[.]example"),
        ("evil.example", "evil(dot)example"),
        ("evil.example", "evil。example"),
        ("evil.example", "ｅｖｉｌ．ｅｘａｍｐｌｅ"),
        ("пример.рф", "http://xn--e1afmkfd.xn--p1ai/"),
        ("xn--e1afmkfd.xn--p1ai", "смотри пример.рф"),
        ("evil.example", "3\u0435vil.example \u0435vil.example"),
        ("1.2.3.4", "http://1.2.3.4/x"),
    ],
)
def test_domain_is_found(pattern: str, text: str) -> None:
    assert found(text, domain(pattern))


@pytest.mark.parametrize(
    "text",
    [
        "notevil.example",
        "evil.example.org",
        "evil-example",
        "evil example",
        "the evil. Example follows",
        "evil.examples",
    ],
)
def test_other_domain_is_not_found(text: str) -> None:
    assert not found(text, domain("evil.example"))


@pytest.mark.parametrize(
    ("kind", "pattern", "fault"),
    [
        (RuleKind.TERM, "", Fault.EMPTY),
        (RuleKind.TERM, " \u200b\u3164 ", Fault.EMPTY),
        (RuleKind.TERM, "x" * 201, Fault.TOO_LONG),
        (RuleKind.TERM, "\ufdfa" * 20, Fault.TOO_LONG),
        (RuleKind.DOMAIN, "localhost", Fault.NOT_A_DOMAIN),
        (RuleKind.DOMAIN, "two words.example", Fault.NOT_A_DOMAIN),
        (RuleKind.DOMAIN, "a.example b.example", Fault.NOT_A_DOMAIN),
        (RuleKind.DOMAIN, "...", Fault.NOT_A_DOMAIN),
        (RuleKind.DOMAIN, "http://", Fault.NOT_A_DOMAIN),
        (RuleKind.DOMAIN, "*.example", Fault.NOT_A_DOMAIN),
    ],
)
def test_entry_that_cannot_be_used_is_refused(kind: RuleKind, pattern: str, fault: Fault) -> None:
    with pytest.raises(PatternError) as refused:
        pattern_key(kind, pattern)
    assert refused.value.fault is fault


# ---------- which entry decides ----------


def decided(text: str, *specs: RuleSpec, is_away: bool = False) -> int | None:
    matched = match(text, *specs, is_away=is_away)
    return None if matched is None else matched.rule_id


def test_strictest_decides_then_the_one_listed_first() -> None:
    hold, remove = term("coins", action=Action.HOLD), term("free")
    assert decided("free coins", hold, remove) == 1
    assert decided("coins", hold, remove) == 0
    assert decided("free coins", term("coins"), term("free coins")) == 0


def test_blocking_wins_over_allowing() -> None:
    assert decided("free coins", allowed(term("coins")), term("free")) == 1
    assert decided("coins", allowed(term("coins")), term("free")) == 0


def test_allowing_does_not_count_where_it_must_not() -> None:
    assert decided("coins", allowed(term("coins")), is_away=True) is None
    assert decided("c\u200boins", allowed(term("coins"))) is None
    assert decided("free c\u200boins", allowed(term("free"))) is None


def test_allowed_domain_counts_only_when_no_other_is_named() -> None:
    ours = allowed(domain("ours.example"))
    assert decided("see https://ours.example/a", ours) == 0
    assert decided("see https://sub.ours.example/a", ours) == 0
    assert decided("see ours.example and else.example", ours) is None
    assert decided("http://ours.example@else.example/", ours) is None
    assert decided("http://ours.example/ el%73e.example", ours) is None
    assert decided("no link at all", ours) is None


def test_narrowest_listed_domain_decides_about_a_host() -> None:
    listed = (domain("evil.example"), allowed(domain("good.evil.example")))
    assert decided("good.evil.example", *listed) == 1
    assert decided("x.good.evil.example", *listed) == 1
    assert decided("evil.example", *listed) == 0
    assert decided("good.evil.example evil.example", *listed) == 0


def test_entry_kept_for_an_outage_counts_only_then() -> None:
    kept = term("coins")._replace(only_away=True)
    assert decided("coins", kept) is None
    assert decided("coins", kept, is_away=True) == 0
    assert decided("coins", term("coins", action=Action.HOLD), kept) == 0
    assert decided("coins", term("coins", action=Action.HOLD), kept, is_away=True) == 1


def test_match_says_whether_a_disguise_hid_it() -> None:
    plain, hidden = match("casino", term("casino")), match("c a s i n o", term("casino"))
    assert plain is not None
    assert hidden is not None
    assert (plain.is_undone, hidden.is_undone) == (False, True)


# ---------- properties ----------

WORDS = st.sampled_from(["a", "b", "ab", "加", "微", "信", " ", ".", "-", "A", "é", "ß"])
TEXTS = st.lists(WORDS, max_size=12).map("".join)


def _holds(text: str, pattern: str) -> bool:
    """The plain way: the entry's tokens stand somewhere in the text's."""
    where, what = tokens(fold(text)), tokens(fold(pattern))
    return any(where[at : at + len(what)] == what for at in range(len(where) - len(what) + 1))


@given(TEXTS, st.lists(TEXTS.filter(lambda p: bool(fold(p))), min_size=1, max_size=6))
def test_automaton_finds_what_looking_for_each_entry_finds(
    text: str, patterns: Sequence[str]
) -> None:
    matched = Matcher(enumerate(map(term, patterns))).match(text)
    expected = [at for at, pattern in enumerate(patterns) if _holds(text, pattern)]
    assert (matched.rule_id if matched else None) == (expected[0] if expected else None)


@given(st.text())
def test_any_text_is_cut_into_tokens_that_make_it_up_again(text: str) -> None:
    assert "".join(tokens(fold(text))) == fold(text)


@given(st.text(min_size=1, max_size=20))
def test_what_is_listed_is_found_in_itself(pattern: str) -> None:
    assume(fold(pattern))
    assert Matcher([(1, term(pattern))]).match(f"so {pattern} !") is not None


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_text_and_no_entry_makes_it_fail(text: str, pattern: str) -> None:
    for kind in RuleKind:
        try:
            key = pattern_key(kind, pattern)
        except PatternError:
            continue
        assert key
        Matcher([(1, RuleSpec(kind, pattern, Label.AD, Action.HOLD))]).match(text, text)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 20_000,
        "a." * 10_000,
        "-." * 10_000,
        "加" * 20_000,
        "a b " * 5_000,
        "xn--" * 5_000,
        "[.]" * 6_000,
        "xn--" + "9" * 19_000 + ".example",
        "\u0301" * 20_000,
    ],
)
def test_long_text_is_read_to_its_end(text: str) -> None:
    """With entries whose beginnings repeat all along; quadratic work would take minutes."""
    specs = [
        term("a" * 150),
        term("加" * 150 + "!"),
        term("a b " * 40 + "c"),
        domain("a.a.a.a.example"),
    ]
    assert match(f"{text} needle", *specs, term("needle")) == Matched(
        4, Label.SPAM, Action.REMOVE, False
    )


def test_hidden_characters_are_those_that_unicode_calls_format() -> None:
    # These are drawn, though of that category: signs before numbers, a list separator, hieroglyph
    # and shorthand layout.
    drawn = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    drawn |= set(range(0x13430, 0x13460))
    missed = [
        code
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) == "Cf"
        and code not in drawn
        and not _HIDDEN.match(chr(code))
    ]
    assert missed == []


def test_host_is_read_from_within_a_sentence() -> None:
    assert hosts(fold("Go to (shop.example), or v1.2!")) == ["shop.example", "v1.2"]


# Sorting a run of marks takes quadratic time: a text of 20,000 took seconds, a batch of them a
# worker's lease. Of each pair one stands before the other, whichever way they are written.
@pytest.mark.parametrize("pair", ["\u064b\u0650", "\u0f72\u0f71", "\u0f73", "\u05b0\u05b4"])
def test_long_run_of_marks_is_cut_before_it_is_sorted(pair: str) -> None:
    folded = fold("b" + pair * 10_000 + " pills")
    assert len(folded) <= len("b") + 2 * MOST_MARKS + len(" pills")
    assert folded.endswith(" pills")
