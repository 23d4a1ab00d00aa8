"""Which texts are the same message with small changes: MinHash over runs of characters. Pure.

A text is taken as the model reads it (disguises undone), without spaces, marks and case, and with
each number as one zero: what a wave changes from copy to copy. Its set of runs of RUN_CHARS
characters is summed up by HASHES minima; two texts share each of them with a probability that is
their Jaccard similarity. One byte of each is kept, and BANDS hashes of ROWS minima each: texts that
share none of these are not compared at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

RUN_CHARS = 3
HASHES, BANDS, ROWS = 64, 6, 3
# Likelier than not found by a band, and with a third of the runs changed: a name, a link, a price.
ALIKE = 0.6
# Fewer distinct runs say too little: "ok" is not a wave of "ok", nor nothing one of nothing.
LEAST_RUNS = 8
# A wall of text is known by its beginning.
LOOKED_AT_CHARS = 1_000
# Runs hashed in one pass: keeps what a pass needs at a few megabytes.
_RUNS_A_PASS = 20_000

Array = npt.NDArray[Any]

_DROPPED = re.compile(r"[\W_]+")
_NUMBER = re.compile(r"\d+")
# Fixed for ever: stored signatures are compared with new ones.
_MIX = np.random.Generator(np.random.PCG64(20_261_130)).integers(
    0, 2**32, size=(2, HASHES), dtype=np.uint32
)
_ADD, _MULTIPLY = _MIX[0], _MIX[1] | np.uint32(1)
_BAND_MULTIPLY = np.array([0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35], dtype=np.uint32)


class Print(NamedTuple):
    """What a text is known by: a byte of each minimum, and its bands as signed 32-bit numbers."""

    signature: bytes
    bands: tuple[int, ...]


def essence(text: str) -> str:
    """What is compared of a text that was read as the model reads it."""
    return _NUMBER.sub("0", _DROPPED.sub("", text.casefold()))[:LOOKED_AT_CHARS]


def prints(texts: Sequence[str]) -> list[Print | None]:
    """One print a text, None where there is too little to compare. Texts as `essence` makes them.

    About 15 us a text of 50 characters in a batch, whose texts share NumPy's passes.
    """
    out: list[Print | None] = [None] * len(texts)
    group: list[int] = []
    runs = 0
    for at, text in enumerate(texts):
        if not _says_enough(text):
            continue
        group.append(at)
        runs += len(text)
        if runs >= _RUNS_A_PASS:
            _print_group(texts, group, out)
            group, runs = [], 0
    if group:
        _print_group(texts, group, out)
    return out


def likeness(one: bytes, other: bytes) -> float:
    """About how much of two texts' runs they share, 0 to 1: exact to 0.06 or so."""
    same = np.frombuffer(one, np.uint8) == np.frombuffer(other, np.uint8)
    # Bytes are equal by chance once in 256.
    return max((float(same.mean()) * 256 - 1) / 255, 0.0)


def is_alike(one: bytes, other: bytes) -> bool:
    return likeness(one, other) >= ALIKE


def most_different(texts: Sequence[str], count: int) -> list[tuple[int, float]]:
    """Indexes of the `count` texts that differ most from the first and from each other.

    With each how much it is like the first, by the runs themselves. Farthest first; ties go to
    the earlier one. The first text is never among them. Texts as `essence` makes them.
    """
    if len(texts) < 2:
        return []
    runs = [_run_set(text) for text in texts]
    to_first = [_jaccard(runs[0], other) for other in runs]
    nearest = list(to_first)
    chosen: list[int] = []
    left = set(range(1, len(texts)))
    while left and len(chosen) < count:
        at = min(left, key=lambda i: (nearest[i], i))
        left.discard(at)
        chosen.append(at)
        for i in left:
            nearest[i] = max(nearest[i], _jaccard(runs[at], runs[i]))
    return [(at, to_first[at]) for at in chosen]


def likenesses(texts: Sequence[str]) -> list[float]:
    """How much of its runs each text shares with the first, 0 to 1."""
    runs = [_run_set(text) for text in texts]
    return [_jaccard(runs[0], other) for other in runs]


def _says_enough(text: str) -> bool:
    return len(text) >= LEAST_RUNS + RUN_CHARS - 1 and len(_run_set(text)) >= LEAST_RUNS


def _run_set(text: str) -> set[str]:
    return {text[at : at + RUN_CHARS] for at in range(max(len(text) - RUN_CHARS + 1, 0))}


def _jaccard(one: set[str], other: set[str]) -> float:
    together = len(one | other)
    return len(one & other) / together if together else 0.0


def _print_group(texts: Sequence[str], group: Sequence[int], out: list[Print | None]) -> None:
    """One pass over several texts: a call of NumPy costs as much as the runs of a short text."""
    lengths = np.array([len(texts[at]) for at in group])
    hashes = _hash_runs("".join(texts[at] for at in group), lengths)
    starts = np.concatenate(([0], np.cumsum(lengths - RUN_CHARS + 1)[:-1]))
    mixed = hashes[:, None] ^ _ADD
    mixed *= _MULTIPLY
    minima = np.minimum.reduceat(mixed, starts, axis=0)
    signatures = (minima & np.uint32(0xFF)).astype(np.uint8)
    bands = _bands(minima)
    for row, at in enumerate(group):
        out[at] = Print(signatures[row].tobytes(), tuple(bands[row].tolist()))


def _hash_runs(text: str, lengths: Array) -> Array:
    """A well-mixed 32-bit hash of each run, from its code points; of none that spans two texts."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    ends = np.cumsum(lengths)[:-1, None]
    runs = codes[:-2] * np.uint32(0x9E3779B1)
    runs ^= codes[1:-1] * np.uint32(0x85EBCA6B)
    runs = (runs << np.uint32(13)) | (runs >> np.uint32(19))
    runs += codes[2:] * np.uint32(0xC2B2AE35)
    runs ^= runs >> np.uint32(16)
    runs *= np.uint32(0x85EBCA6B)
    runs ^= runs >> np.uint32(13)
    runs *= np.uint32(0xC2B2AE35)
    runs ^= runs >> np.uint32(16)
    mixed: Array = np.delete(runs, (ends - np.arange(1, RUN_CHARS)).ravel())
    return mixed


def _bands(minima: Array) -> Array:
    """Each band's rows as one number; the band's place is in it, so that places don't mix."""
    grouped = (minima[:, : BANDS * ROWS].reshape(len(minima), BANDS, ROWS) * _BAND_MULTIPLY).sum(
        axis=2, dtype=np.uint32
    )
    grouped ^= grouped >> np.uint32(15)
    grouped *= np.uint32(0x2C1B3C6D)
    grouped += np.arange(BANDS, dtype=np.uint32) * np.uint32(0x9E3779B1)
    signed: Array = grouped.view(np.int32)
    return signed
