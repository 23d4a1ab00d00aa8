"""How nuisances dodge filters: what the product is there to see through."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
LOOK_ALIKES = str.maketrans("aeopcxyEAOPCTHKM", "аеорсхуЕАОРСТНКМ")
STRETCHED = frozenset("aeiou")


def sprinkle_invisible(text: str, random: Random) -> str:
    """Invisible characters between some of the visible ones."""
    return "".join(c + (random.choice(INVISIBLE) if random.random() < 0.2 else "") for c in text)


def swap_look_alikes(text: str, random: Random) -> str:
    """Cyrillic letters that look like the Latin ones, in about half the words."""
    words = text.split(" ")
    return " ".join(
        word.translate(LOOK_ALIKES) if random.random() < 0.5 else word for word in words
    )


def space_out(text: str, random: Random) -> str:
    """A space or a dot after each character of a stretch."""
    start = random.randrange(max(1, len(text) // 2))
    mark = random.choice(" .·")
    return text[:start] + mark.join(text[start : start + 8]) + text[start + 8 :]


def stretch_letters(text: str, random: Random) -> str:
    """Vowels held down."""
    return "".join(
        c * random.randint(2, 5) if c in STRETCHED and random.random() < 0.15 else c for c in text
    )


def leave_alone(text: str, random: Random) -> str:
    return text


WAYS: tuple[Callable[[str, Random], str], ...] = (
    leave_alone,
    leave_alone,
    sprinkle_invisible,
    swap_look_alikes,
    space_out,
    stretch_letters,
)


def disguise(text: str, random: Random) -> str:
    """One copy of a nuisance, in one of the disguises or in none."""
    return random.choice(WAYS)(text, random)
