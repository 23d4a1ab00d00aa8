"""Keeping the queue's counts short, and its pace. (Triggers write both: see migration 0005.)"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Sum
from django.utils import timezone

from apps.review.models import QueueFlow, QueueSample, QueueTally, ReviewItem, ReviewState

# What the figures look back to, and a day more.
PACE_KEPT = timedelta(days=15)

_SETTLE = """
WITH taken AS (
  DELETE FROM review_queuetally
  WHERE id IN (SELECT id FROM review_queuetally WHERE id IN (
    SELECT id FROM (
      SELECT id, count(*) OVER (PARTITION BY group_id, label, language, is_escalated) AS rows
      FROM review_queuetally
    ) AS counted WHERE rows > 1
  ) ORDER BY id FOR UPDATE SKIP LOCKED)
  RETURNING group_id, label, language, is_escalated, change
)
INSERT INTO review_queuetally (group_id, label, language, is_escalated, change)
SELECT group_id, label, language, is_escalated, sum(change) FROM taken
GROUP BY 1, 2, 3, 4 HAVING sum(change) <> 0
"""

# Only minutes that nothing more is written to: whoever wrote last has committed.
_SETTLE_PACE = """
WITH taken AS (
  DELETE FROM review_queueflow
  WHERE id IN (
    SELECT id FROM review_queueflow WHERE minute IN (
      SELECT minute FROM review_queueflow
      WHERE minute BETWEEN %(since)s AND %(until)s GROUP BY 1 HAVING count(*) > 1
    ) ORDER BY id FOR UPDATE SKIP LOCKED
  )
  RETURNING minute, arrived, decided
)
INSERT INTO review_queueflow (minute, arrived, decided)
SELECT minute, sum(arrived), sum(decided) FROM taken GROUP BY 1
"""


@transaction.atomic
def settle() -> None:
    """Add up the rows of each count and minute. The sums stay what they are, in every snapshot."""
    now = timezone.now()
    with connection.cursor() as cursor:
        cursor.execute(_SETTLE)
        span = {"since": now - timedelta(hours=1), "until": now - timedelta(minutes=2)}
        cursor.execute(_SETTLE_PACE, span)


@transaction.atomic
def sample(*, now: datetime | None = None) -> None:
    """Note how much is open and how old the oldest is; once a minute, however often it is called.

    What is older than `PACE_KEPT` is dropped.
    """
    now = now or timezone.now()
    waiting = ReviewItem.objects.filter(state=ReviewState.OPEN)
    oldest = waiting.order_by("opened_at").values_list("opened_at", flat=True).first()
    figures = {
        "open_items": queue_size(),
        "oldest_age_s": max((now - oldest).total_seconds(), 0.0) if oldest else 0.0,
    }
    minute = now.replace(second=0, microsecond=0)
    QueueSample.objects.bulk_create([QueueSample(minute=minute, **figures)], ignore_conflicts=True)
    for kept in (QueueSample, QueueFlow):
        kept.objects.filter(minute__lt=now - PACE_KEPT).delete()


def queue_size() -> int:
    """How many items are open in all."""
    return QueueTally.objects.aggregate(sum=Sum("change"))["sum"] or 0
