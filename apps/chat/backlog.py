"""Putting chunks in line so that no group waits behind another's burst.

Start-time fair queueing, a unit of virtual time being one message. A chunk starts where its
group's last waiting chunk finishes, but not before now; workers claim by start. So a burst of one
group lines up far into its own future, and a message of a quiet group starts now: it is in the
next claim. Nothing is reserved: with one group alone, its chunks follow each other at full speed.

"Now" is the start of the chunk claimed last, kept in a sequence because writing to one neither
locks nor waits for a commit. All other state is the backlog itself: a group without waiting
chunks has nothing to remember.

A request's messages are split by group only where it matters: a group with `OWN_CHUNK_FROM` or
more of them gets chunks of its own, the rest share lane 0, which advances by the most messages any
single group has in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

# Below this a chunk of its own costs more (two more rows written) than the unfairness.
OWN_CHUNK_FROM = 64
MESSAGES_PER_CHUNK = 256
SHARED_LANE = 0


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """Which messages of a request, by position, share a chunk.

    `cost` is its virtual length; `skip` that of the request's chunks before it in its lane.
    """

    positions: Sequence[int]
    lane: int
    skip: int
    cost: int


def plan_chunks(groups: Sequence[str]) -> list[ChunkPlan]:
    """Distribute a request's messages over chunks, order kept within each.

    Args:
        groups: the group of each message, by its backend's id.

    Returns:
        Chunks of at most `MESSAGES_PER_CHUNK`: one lane for a request of one group or of small
        groups, several when large ones are in it.
    """
    sizes = Counter(groups)
    if len(sizes) <= 1:
        return [plan for group in sizes for plan in _cut(range(len(groups)), groups, _lane(group))]
    lanes = {g: _lane(g) if size >= OWN_CHUNK_FROM else SHARED_LANE for g, size in sizes.items()}
    positions: dict[int, list[int]] = {}
    for position, group in enumerate(groups):
        positions.setdefault(lanes[group], []).append(position)
    return [plan for lane, own in positions.items() for plan in _cut(own, groups, lane)]


def _cut(positions: Sequence[int], groups: Sequence[str], lane: int) -> list[ChunkPlan]:
    plans = []
    skip = 0
    for start in range(0, len(positions), MESSAGES_PER_CHUNK):
        part = positions[start : start + MESSAGES_PER_CHUNK]
        cost = max(Counter(groups[p] for p in part).values()) if lane == SHARED_LANE else len(part)
        plans.append(ChunkPlan(part, lane, skip, cost))
        skip += cost
    return plans


def _lane(group: str) -> int:
    """A number for a group whose row may not exist yet, never `SHARED_LANE`, within 63 bits."""
    digest = blake2b(group.encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1 | 1


# Where a chunk of `c` (lane, skip, cost) begins: joined laterally by the statement that stores it.
# Two requests of one group that run at once may get overlapping turns: they can't see each
# other's rows. That shifts a turn by a request's size and needs no lock to prevent.
TURN = """
SELECT c.skip + greatest(
    (SELECT last_value FROM chat_virtual_time),
    (SELECT max(finish_tag) FROM chat_chunk WHERE lane = c.lane)
) AS start
"""
