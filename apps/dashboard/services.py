"""Keeping the record of what comes in and what waits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Max

from apps.chat.models import IDS_PER_CHUNK, Message
from apps.core import realtime
from apps.dashboard.models import InflowSample
from apps.dashboard.selectors import Backlog, read_backlog

KEPT_FOR = timedelta(hours=1)
ONE_SECOND = timedelta(seconds=1)
# A message gets its time when its transaction begins; by then nearly all have committed.
SETTLED_AFTER = timedelta(seconds=2)
# After a pause of the sampler at most so many seconds are filled in.
MOST_SECONDS = 60
# Requests that ran side by side took their ids in another order than their times.
OVERLAP_IDS = 32 * IDS_PER_CHUNK
MOST_IDS = 1_000 * IDS_PER_CHUNK

_COUNT = """
SELECT date_trunc('second', received_at), count(*)
FROM chat_message
WHERE id >= %s AND received_at >= %s AND received_at < %s
GROUP BY 1
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
    samples = list(_samples(since, until, from_id, high_id, read_backlog(now=now)))
    InflowSample.objects.bulk_create(samples, ignore_conflicts=True)
    InflowSample.objects.filter(second__lt=now - KEPT_FOR).delete()
    if samples:
        realtime.publish(realtime.OPERATE, "sampled")
    return len(samples)


def _samples(
    since: datetime, until: datetime, from_id: int, high_id: int, backlog: Backlog
) -> Iterator[InflowSample]:
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [from_id, since, until])
        received = dict(cursor.fetchall())
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
