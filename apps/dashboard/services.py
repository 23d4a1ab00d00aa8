"""Keeping the record of what comes in and what waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Max

from apps.chat.models import IDS_PER_CHUNK, Message
from apps.dashboard.bursts import LEAST_PER_S, OVERLAP_IDS, note_bursts
from apps.dashboard.consumers import tell_sampled
from apps.dashboard.models import InflowSample
from apps.dashboard.selectors import Backlog, read_backlog

KEPT_FOR = timedelta(hours=1)
ONE_SECOND = timedelta(seconds=1)
# A message gets its time when its transaction begins; by then nearly all have committed.
SETTLED_AFTER = timedelta(seconds=2)
# After a pause of the sampler at most so many seconds are filled in.
MOST_SECONDS = 60
MOST_IDS = 1_000 * IDS_PER_CHUNK

# By second, and by second and group where a group sends a lot: one look at the rows for both.
_COUNT = """
SELECT second, group_id, count(*)
FROM (
  SELECT date_trunc('second', received_at) AS second, group_id FROM chat_message
  WHERE id >= %s AND received_at >= %s AND received_at < %s
) AS messages
GROUP BY GROUPING SETS ((second), (second, group_id))
HAVING GROUPING(group_id) = 1 OR count(*) >= %s
"""


@transaction.atomic
def record_inflow(*, now: datetime) -> int:
    """Count the messages of each settled second since the last call, and tell the dashboards.

    Two at once do no harm: a second is written once.

    Returns:
        How many seconds were written.
    """
    last = InflowSample.objects.order_by("-second").first()
    until = (now - SETTLED_AFTER).replace(microsecond=0)
    since = until - (ONE_SECOND if last is None else MOST_SECONDS * ONE_SECOND)
    if last is not None:
        since = max(since, last.second + ONE_SECOND)
    high_id = Message.objects.aggregate(high=Max("id"))["high"] or 0
    from_id = max(0, high_id - MOST_IDS, (last.high_id if last else high_id) - OVERLAP_IDS)
    received, by_group = _count(since, until, from_id)
    samples = list(_samples(since, until, received, high_id, read_backlog(now=now)))
    # Waits for another run that writes the same seconds, so that what follows is told once.
    InflowSample.objects.bulk_create(samples, ignore_conflicts=True)
    note_bursts(by_group, {sample.second: sample.received for sample in samples})
    InflowSample.objects.filter(second__lt=now - KEPT_FOR).delete()
    if samples:
        tell_sampled()
    return len(samples)


Counts = dict[datetime, int]
ByGroup = dict[datetime, dict[int, int]]


def _count(since: datetime, until: datetime, from_id: int) -> tuple[Counts, ByGroup]:
    """Messages by second; and by second and group, of groups that send a lot."""
    received: Counts = {}
    by_group: ByGroup = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [from_id, since, until, LEAST_PER_S])
        for second, group_id, count in cursor.fetchall():
            if group_id is None:
                received[second] = count
            else:
                by_group[second][group_id] = count
    return received, by_group


def _samples(
    since: datetime, until: datetime, received: Counts, high_id: int, backlog: Backlog
) -> Iterator[InflowSample]:
    second = since
    while second < until:
        is_last = second + ONE_SECOND == until
        yield InflowSample(
            second=second,
            received=received.get(second, 0),
            high_id=high_id,
            waiting=backlog.messages if is_last else None,
            oldest_age_s=backlog.oldest_age_s if is_last else None,
        )
        second += ONE_SECOND
