"""Bursts: a group that suddenly sends a large part of everything. Cause, when latency is effect."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import connection

from apps.chat.models import IDS_PER_CHUNK
from apps.dashboard.models import InflowSample, OperationalEvent
from apps.dashboard.standing import BURST, OVER, Kind, standing, tell

# Requests that ran side by side took their ids in another order than their times.
OVERLAP_IDS = 32 * IDS_PER_CHUNK
# So many messages in a second, and so large a part of all of them.
LEAST_PER_S = 50
LEAST_SHARE = 0.2
# It is over when less than half of that came in so long.
CALM_S = 10

_LATELY = """
SELECT group_id, count(*) FROM chat_message
WHERE id >= %s AND received_at >= %s AND group_id = ANY(%s) GROUP BY group_id
"""


def note_bursts(
    seconds: Mapping[datetime, Mapping[int, int]], totals: Mapping[datetime, int]
) -> None:
    """Write which groups' bursts began or ended in these seconds.

    Args:
        seconds: messages by second and group, of groups with `LEAST_PER_S` at least.
        totals: messages of all groups, by second.
    """
    if not totals:
        return
    bursting = _bursting()
    for second in sorted(totals):
        for group_id, count in seconds.get(second, {}).items():
            share = count / totals[second]
            if share >= LEAST_SHARE and group_id not in bursting:
                bursting.add(group_id)
                _write(second, group_id, BURST, f"{count}/s · {share:.0%}")
    _end_those_over(bursting, max(totals))


def _bursting() -> set[int]:
    return {int(event.subject) for event in standing(Kind.BURST)}


def _end_those_over(bursting: set[int], last: datetime) -> None:
    if not bursting:
        return
    since = last - timedelta(seconds=CALM_S - 1)
    before = InflowSample.objects.filter(second__lt=since).order_by("-second").first()
    from_id = max(0, before.high_id - OVERLAP_IDS) if before else 0
    with connection.cursor() as cursor:
        cursor.execute(_LATELY, [from_id, since, list(bursting)])
        lately = dict(cursor.fetchall())
    begun = OperationalEvent.objects.filter(kind=Kind.BURST, state=BURST, at__gt=since)
    young = {int(event.subject) for event in begun}
    for group_id in bursting - young:
        if lately.get(group_id, 0) < CALM_S * LEAST_PER_S / 2:
            _write(last, group_id, OVER, "")


def _write(at: datetime, group_id: int, state: str, reason: str) -> None:
    subject = str(group_id)
    tell([OperationalEvent(at=at, kind=Kind.BURST, subject=subject, state=state, reason=reason)])
