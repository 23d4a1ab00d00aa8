"""Text of strangers is shown, never obeyed; what people's scripts and emoji need is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.marks import Kind, count_kinds, pieces
from apps.core.templatetags.hostile import marked, marked_line, marked_plain


def kinds(text: str) -> list[tuple[Kind, str]]:
    return [(p.kind, p.name) for p in pieces(text) if p.kind is not Kind.PLAIN]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("fr\u2062ee m\u200bon\u2068ey", ["IT", "ZWSP", "FSI"]),
        ("ca\u00adsi\u00adno", ["SHY", "SHY"]),
        ("wo\u2060rd", ["WJ"]),
        ("a\ufe0fb", ["VS"]),
        ("hi\U000e0041\U000e0042", ["TAG A", "TAG B"]),
        ("\ufefftext", ["BOM"]),
        ("a\u200cb", ["ZWNJ"]),
        ("a\u200db", ["ZWJ"]),
        ("\u3164", ["HF"]),
        ("\u2800\u2800", ["BLANK", "BLANK"]),
        ("safe \u202egpj.exe\u202c", ["RLO", "PDF"]),
        ("bell\x07", ["07"]),
        ("private \ue000", ["E000"]),
    ],
)
def test_hidden_characters_are_named(text: str, names: list[str]) -> None:
    assert [name for _, name in kinds(text)] == names


@pytest.mark.parametrize(
    "text",
    [
        "می\u200cخواهم",  # Persian needs the joiner
        "क्\u200dष",  # Devanagari too
        "👨\u200d👩\u200d👧\u200d👦",
        "❤\ufe0f\u200d🔥",
        "1\ufe0f\u20e3",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "👍🏽 🇨🇳",
        "Việt Nam, naïve café",
        "日本語 と English, QQ群 加V信",
        "Привет, мир",
        "Ελλάδα",
        "שלום עולם",
        "two\nlines\tand a tab",
    ],
)
def test_what_scripts_and_emoji_need_is_left_alone(text: str) -> None:
    assert kinds(text) == []


@pytest.mark.parametrize(
    ("text", "code_points"),
    [
        ("fr\u0435\u0435 m\u043eney", ["0435", "0435", "043E"]),
        ("pаypаl", ["0430", "0430"]),
        ("Mосква", ["004D"]),
        ("ｆree", ["FF46"]),
        ("𝐟ree", ["1D41F"]),
        ("\u0391bc", ["0391"]),
    ],
)
def test_letters_that_pass_for_others_show_their_code_point(
    text: str, code_points: list[str]
) -> None:
    found = [p.code_point for p in pieces(text) if p.kind is Kind.LOOK]
    assert found == code_points


def test_invisible_character_does_not_hide_a_mixed_word() -> None:
    assert (Kind.LOOK, "е") in kinds("fr\u200bее")


def test_stack_of_marks_is_cut_to_what_a_line_holds() -> None:
    cut = pieces("z" + "\u0300" * 40)
    assert [(p.kind, p.name) for p in cut[1:]] == [(Kind.STACK, "+37")]
    assert count_kinds(cut) == {Kind.STACK: 37}


def test_box_says_code_point_and_name_when_pointed_at() -> None:
    html = marked("a\u202eb")
    assert 'data-kind="control"' in html
    assert 'title="U+202E RIGHT-TO-LEFT OVERRIDE"' in html
    assert "\u202e" not in html


def test_markup_is_text() -> None:
    assert "<script>" not in marked("<script>alert(1)</script>\u200b")
    assert "&lt;script&gt;" in marked("<script>")


def test_row_has_one_line() -> None:
    assert marked_line(" two\n\nlines\t ") == "two lines"


def test_where_markup_cannot_go_the_name_stands_in_brackets() -> None:
    assert marked_plain("evil\u202e  group\u200b") == "evil[RLO] group[ZWSP]"


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_nothing_is_lost_whatever_the_text(text: str) -> None:
    assert "".join(piece.text for piece in pieces(text)) == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_no_direction_control_reaches_the_page(text: str) -> None:
    assert not set(marked(text)) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068")
