"""Kappa and alpha give the figures of their authors' own examples, and nothing where undefined."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.review.agreement import cohens_kappa, krippendorffs_alpha

ANSWERS = st.sampled_from(["ok", "spam", "toxic", "ad"])
PAIRS = st.lists(st.tuples(ANSWERS, ANSWERS), max_size=40)


def test_kappa_of_a_known_table() -> None:
    # 20 both yes, 5 and 10 apart, 15 both no: observed 0.7, by chance 0.5.
    table = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15
    assert cohens_kappa(table) == pytest.approx(0.4)


def test_alpha_of_krippendorffs_example() -> None:
    # The reliability data of the paper's section C: four observers, twelve units, gaps.
    observers = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    ]
    units = [[v for v in column if v is not None] for column in zip(*observers, strict=True)]
    assert krippendorffs_alpha(units) == pytest.approx(0.743, abs=0.0005)


def test_alpha_of_krippendorffs_two_observers() -> None:
    # Section A of the paper: ten units, two values, alpha 0.095.
    first = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    second = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    units = list(zip(first, second, strict=True))
    assert krippendorffs_alpha(units) == pytest.approx(0.095, abs=0.0005)


@pytest.mark.parametrize("pairs", [[], [("ok", "ok")], [("ok", "ok")] * 9])
def test_undefined_is_none_and_not_a_number(pairs: list[tuple[str, str]]) -> None:
    assert cohens_kappa(pairs) is None
    assert krippendorffs_alpha(pairs) is None


@given(PAIRS)
def test_both_lie_between_minus_one_and_one(pairs: list[tuple[str, str]]) -> None:
    for figure in (cohens_kappa(pairs), krippendorffs_alpha(pairs)):
        assert figure is None or -1 <= figure <= 1


@given(PAIRS)
def test_neither_depends_on_order_or_who_was_first(pairs: list[tuple[str, str]]) -> None:
    turned = [(second, first) for first, second in reversed(pairs)]
    for measure in (cohens_kappa, krippendorffs_alpha):
        one, other = measure(pairs), measure(turned)
        assert (one is None) == (other is None)
        assert one is None or one == pytest.approx(other)


@given(st.lists(ANSWERS, min_size=2, max_size=40).filter(lambda given: len(set(given)) > 1))
def test_full_agreement_is_one(given: list[str]) -> None:
    pairs = [(answer, answer) for answer in given]
    assert cohens_kappa(pairs) == pytest.approx(1)
    assert krippendorffs_alpha(pairs) == pytest.approx(1)


def test_answers_by_chance_come_to_about_nothing() -> None:
    chance = random.Random(7)
    pairs = [(chance.randrange(3), chance.randrange(3)) for _ in range(20_000)]
    assert cohens_kappa(pairs) == pytest.approx(0, abs=0.03)
    assert krippendorffs_alpha(pairs) == pytest.approx(0, abs=0.03)
