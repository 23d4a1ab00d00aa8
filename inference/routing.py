"""Which release judges a message: a sticky split, an explicit version, shadows. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from inference.config import ModelRef

__all__ = ["ReleaseShare", "Route", "Shadow", "TrafficSplit"]

SPAN = 2**64


@dataclass(frozen=True, slots=True)
class ReleaseShare:
    """A release and its part of the traffic, in [0, 1]."""

    release: ModelRef
    share: float


@dataclass(frozen=True, slots=True)
class Shadow:
    """A release that judges a sample too, without a say."""

    release: ModelRef
    sample: float = 1.0


@dataclass(frozen=True, slots=True)
class Route:
    release: ModelRef
    shadows: tuple[ModelRef, ...] = ()


class TrafficSplit:
    """Splits traffic by a key, so that one group always meets one release.

    The canary comes first in ``shares`` and keeps the low end of the key space: raising its share
    moves only groups that were not its own yet, lowering it only gives groups back.

    Args:
        shares: Must sum to 1. At least one.
        shadows: Releases that see a sample of everything.

    Raises:
        ValueError: shares that are negative or do not sum to 1, a release named twice.
    """

    def __init__(self, shares: Sequence[ReleaseShare], shadows: Sequence[Shadow] = ()) -> None:
        _check(shares)
        self._shadows = tuple(shadows)
        self._upper: list[tuple[float, ModelRef]] = []
        total = 0.0
        for each in shares:
            total += each.share
            self._upper.append((total, each.release))

    def route(self, key: str, explicit: ModelRef | None = None) -> Route:
        """Where a message goes.

        Args:
            key: What must stick together, for example a group's id.
            explicit: A release asked for by name; it wins over the split.
        """
        place = _place("split", key)
        release = explicit or next(
            (ref for upper, ref in self._upper if place < upper), self._upper[-1][1]
        )
        shadows = tuple(
            shadow.release
            for shadow in self._shadows
            if shadow.release != release and _place(f"shadow {shadow.release}", key) < shadow.sample
        )
        return Route(release, shadows)


def _check(shares: Sequence[ReleaseShare]) -> None:
    if any(each.share < 0 for each in shares):
        raise ValueError("a share of traffic cannot be negative")
    total = sum(each.share for each in shares)
    if abs(total - 1.0) > 1e-6:
        raise ValueError(f"shares of traffic must sum to 1, not {total:g}")
    if len({each.release for each in shares}) != len(shares):
        raise ValueError("a release is named twice")


def _place(salt: str, key: str) -> float:
    """A stable place in [0, 1); hash() differs from process to process."""
    digest = hashlib.blake2b(f"{salt}\0{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / SPAN
