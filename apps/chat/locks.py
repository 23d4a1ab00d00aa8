"""One lock that keeps a deletion and the arrival of a further revision apart.

Both work on a message by its key, and either may come first: without a lock, an arrival that has
looked for a deletion but has not committed is missed by the deletion, and lives on. Arrivals take
the lock shared, so they never wait for each other; a deletion takes it alone, for its own group
only (groups share 64 locks, so that one transaction can't fill PostgreSQL's lock table).

It has to be taken by a statement of its own: a statement sees what was committed when it began,
not when it got its lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from django.db import connection

# Any number no other part uses: advisory locks share one space.
DELETION_LOCK = 0x43574445
_BUCKETS = 64


def bucket_of(group: str) -> int:
    return crc32(group.encode()) % _BUCKETS


def buckets_of(groups: Iterable[str]) -> list[int]:
    """Sorted, so that two transactions never wait for each other in a circle."""
    return sorted({bucket_of(group) for group in groups})


def lock_groups(groups: Iterable[str]) -> None:
    """Keep arrivals in these groups, and whoever deletes or erases there, out until the
    transaction ends. Take it first of all.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_advisory_xact_lock(%s, bucket)) FROM unnest(%s::integer[]) AS bucket",
            [DELETION_LOCK, buckets_of(groups)],
        )


def keep_arrivals_out() -> None:
    """Until the transaction ends. Take it first of all: whoever deletes a message holds a bucket
    while it waits for rows.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_advisory_xact_lock(%s, bucket)) FROM generate_series(0, %s) AS bucket",
            [DELETION_LOCK, _BUCKETS - 1],
        )
