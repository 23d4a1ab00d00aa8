"""Putting chunks in line so that no group waits behind another's burst.

Start-time fair queueing, a unit of virtual time being one message. A chunk starts where its
group's last waiting chunk finishes, but not before now; workers claim by start. So a burst of one
group lines up far into its own future, and a message of a quiet group starts now: it is in the
next claim. Nothing is reserved: with one group alone, its chunks follow each other at full speed.

"Now" is the start of the chunk claimed last, kept in a sequence because writing to one neither
locks nor waits for a commit. All other state is the backlog itself: a group without waiting
chunks has nothing to remember.

A request's messages are split by group only where it matters: a group with `OWN_CHUNK_FROM` or
more of them gets a chunk of its own, the rest share one in lane 0, which advances by the most
messages any single group has in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

# Below this a chunk of its own costs more (two more rows written) than the unfairness.
OWN_CHUNK_FROM = 64
SHARED_LANE = 0


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """Which messages of a request, by position, share a chunk. `cost` is its virtual length."""

    positions: Sequence[int]
    lane: int
    cost: int


def plan_chunks(group_ids: Sequence[int]) -> list[ChunkPlan]:
    """Distribute a request's messages over chunks, order kept within each.

    Args:
        group_ids: of each message to be stored; at most `IDS_PER_CHUNK`.

    Returns:
        One plan for a request of one group or of small groups; several when large ones are in it.
    """
    sizes = Counter(group_ids)
    if len(sizes) <= 1:
        return [ChunkPlan(range(len(group_ids)), lane, size) for lane, size in sizes.items()]
    large = {group for group, size in sizes.items() if size >= OWN_CHUNK_FROM}
    lanes: dict[int, list[int]] = {}
    for position, group in enumerate(group_ids):
        lanes.setdefault(group if group in large else SHARED_LANE, []).append(position)
    most = max((size for group, size in sizes.items() if group not in large), default=0)
    return [
        ChunkPlan(positions, lane, most if lane == SHARED_LANE else len(positions))
        for lane, positions in lanes.items()
    ]


_INSERT = """
INSERT INTO chat_chunk (id, size, lane, start_tag, finish_tag)
SELECT new.id, new.size, new.lane, turn.start, turn.start + new.cost
FROM unnest(%s::bigint[], %s::smallint[], %s::bigint[], %s::bigint[]) AS new (id, size, lane, cost)
CROSS JOIN LATERAL (
    SELECT greatest(
        (SELECT last_value FROM chat_virtual_time),
        (SELECT max(finish_tag) FROM chat_chunk WHERE lane = new.lane)
    ) AS start
) AS turn
"""


def insert_chunks(chunk_ids: Sequence[int], plans: Sequence[ChunkPlan]) -> None:
    """Put chunks in line, in the caller's transaction.

    Two requests of one group that run at once may get overlapping turns: they can't see each
    other's rows. That shifts a turn by a request's size and needs no lock to prevent.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _INSERT,
            [
                list(chunk_ids),
                [len(plan.positions) for plan in plans],
                [plan.lane for plan in plans],
                [plan.cost for plan in plans],
            ],
        )
