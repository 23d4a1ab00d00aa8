"""What a card says in words."""

from __future__ import annotations

import pytest

from apps.review.presenting import reason_words
from apps.scoring.reasons import KILLED_WORKERS, NOT_FINITE, POISONED, UNDONE


@pytest.mark.parametrize("code", ["model:toxic", *(f"undone:{name}" for name in UNDONE)])
def test_a_reason_is_told_in_words(code: str) -> None:
    [words] = reason_words([code])
    assert words != code
    assert "_" not in words


@pytest.mark.parametrize("code", [POISONED, NOT_FINITE, KILLED_WORKERS])
def test_an_undetermined_verdict_says_why_in_words(code: str) -> None:
    [words] = reason_words([code])
    assert words.startswith("Undetermined: ")


def test_a_reason_of_a_newer_release_is_shown_as_it_is() -> None:
    assert reason_words(["model:gossip", "weather:fine"]) == ["model:gossip", "weather:fine"]
