"""Numbers as the console writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from django.utils import translation

from apps.core.templatetags import figures


@pytest.mark.parametrize(
    ("write", "value", "written"),
    [
        (figures.count, None, "–"),
        (figures.count, 0, "0"),
        (figures.count, 1234567, "1,234,567"),
        (figures.rate, 0, "0"),
        (figures.rate, 0.3, "0.3"),
        (figures.rate, 9.96, "10"),
        (figures.rate, 5120.4, "5,120"),
        (figures.ms, 0.04, "0.0"),
        (figures.ms, 46.34, "46.3"),
        (figures.ms, 99.96, "100"),
        (figures.ms, 12345.6, "12,346"),
        (figures.percent, None, "–"),
        (figures.percent, 0.0, "0.0"),
        (figures.percent, 0.0031, "0.31"),
        (figures.percent, 0.125, "12.5"),
        (figures.percent, 1.0, "100.0"),
        (figures.whole_percent, 0.312, "31%"),
        (figures.whole_percent, 0.0001, "<1%"),
        (figures.score, None, ""),
        (figures.score, 0.86, ".86"),
        (figures.score, 1.0, "1.00"),
        (figures.duration, None, "–"),
        (figures.duration, 2.44, '2.4<span class="unit">s</span>'),
        (figures.duration, 9.97, '10<span class="unit">s</span>'),
        (figures.duration, 59.6, "1:00"),
        (figures.duration, 102, "1:42"),
        (figures.duration, 11110, "3:05:10"),
    ],
)
@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_a_number_is_written(
    write: Callable[[float | None], str], value: float | None, written: str, language: str
) -> None:
    with translation.override(language):
        assert write(value) == written


@dataclass
class Point:
    value: float | None


def drawn(*values: float | None) -> str:
    return figures.spark([Point(value) for value in values], "value")


def test_a_line_goes_through_every_value_in_the_box() -> None:
    assert drawn(0, 5, 10) == "M0.0,26.0 L100.0,14.0 L200.0,2.0"


def test_an_unknown_value_is_a_gap() -> None:
    assert drawn(10, None, 10) == "M0.0,2.0 M200.0,2.0"


def test_nothing_known_draws_nothing() -> None:
    assert drawn(None, None) == ""


def test_all_zero_lies_on_the_ground() -> None:
    assert drawn(0, 0) == "M0.0,26.0 L200.0,26.0"
