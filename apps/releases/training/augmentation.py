"""Variants of training texts: other lengths, and the disguises that people use.

Lengths, because the public data leaks its labels through them (adverts are long, chat is short).
Disguises, because the normaliser doesn't undo all of them. Both are made for every label alike, so
that neither being short nor being disguised becomes a sign of one.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from apps.releases.training.corpus import Row

ROWS_CROPPED = 0.15
ROWS_JOINED = 0.08
ROWS_DISGUISED = 0.12
SHORTEST_CROP, LONGEST_CROP = 12, 60

INVISIBLE = "\u200b\u200c\u2060\u00ad\u2063\ufeff"
LOOK_ALIKES = str.maketrans("aceopxyiAEKMHOPCTX", "асеорхуіАЕКМНОРСТХ")
LEET = str.maketrans("oieastOIEAST", "013457013457")
HOMOPHONES = {
    "微信": ("薇信", "威信", "徽信", "V信", "微❤", "vx"),
    "加": ("+", "➕", "伽"),
    "钱": ("米", "💰"),
    "群": ("裙", "峮"),
    "赚": ("zhuan", "賺"),
    "扣": ("抠", "q"),
}


def crop(text: str, rng: random.Random) -> str:
    """A piece of a longer text, cut at spaces if it has them."""
    width = rng.randint(SHORTEST_CROP, LONGEST_CROP)
    start = rng.randrange(0, max(1, len(text) - width))
    piece = text[start : start + width]
    if " " in piece.strip():
        piece = piece[piece.index(" ") if start else 0 : piece.rindex(" ") or None]
    return piece.strip() or text


def hide(text: str, rng: random.Random) -> str:
    """Invisible characters inside."""
    return "".join(c + (rng.choice(INVISIBLE) if rng.random() < 0.2 else "") for c in text)


def swap_look_alikes(text: str, rng: random.Random) -> str:
    return "".join(c.translate(LOOK_ALIKES) if rng.random() < 0.4 else c for c in text)


def write_leet(text: str, rng: random.Random) -> str:
    words = (w.translate(LEET) if rng.random() < 0.4 else w for w in text.split(" "))
    return " ".join(words)


def space_out(text: str, rng: random.Random) -> str:
    """One stretch of the text with a symbol between its letters."""
    if len(text) < 4:
        return text
    start = rng.randrange(0, len(text) - 3)
    end = min(len(text), start + rng.randint(3, 10))
    return text[:start] + rng.choice((" ", "-", ".", "*", "/")).join(text[start:end]) + text[end:]


def stretch(text: str, rng: random.Random) -> str:
    return re.sub(
        r"[aeiouy](?=\W|$)",
        lambda m: m.group() * (rng.randint(3, 6) if rng.random() < 0.4 else 1),
        text,
    )


def change_case(text: str, rng: random.Random) -> str:
    return "".join(c.upper() if rng.random() < 0.5 else c for c in text)


def drop_letter(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text)) if text else 0
    return text[:at] + text[at + 1 :]


def use_homophones(text: str, rng: random.Random) -> str:
    for plain, others in HOMOPHONES.items():
        text = text.replace(plain, rng.choice(others))
    return text


DISGUISES: tuple[Callable[[str, random.Random], str], ...] = (
    hide,
    swap_look_alikes,
    write_leet,
    space_out,
    stretch,
    change_case,
    drop_letter,
    use_homophones,
)


def augment(rows: Sequence[Row], rng: random.Random) -> list[Row]:
    """New rows made from the given ones."""
    made = []
    plain = [row for row in rows if row.label == "ok"]
    for row in rows:
        draw = rng.random()
        if draw < ROWS_CROPPED and row.label != "toxic" and len(row.text) > LONGEST_CROP:
            made.append(replace(row, text=crop(row.text, rng), weak=True))
        elif (
            draw < ROWS_CROPPED + ROWS_JOINED and row.label == "ok" and len(row.text) < LONGEST_CROP
        ):
            other = rng.choice(plain)
            if other.lang == row.lang:
                made.append(replace(row, text=f"{row.text} {other.text}"))
        elif draw > 1 - ROWS_DISGUISED:
            made.append(replace(row, text=rng.choice(DISGUISES)(row.text, rng)))
    return made
