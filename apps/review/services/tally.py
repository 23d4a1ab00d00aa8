"""Keeping the queue's counts short. (A trigger keeps them right: see migration 0003.)"""

from __future__ import annotations

from django.db import connection, transaction

_SETTLE = """
WITH taken AS (
  DELETE FROM review_queuetally
  WHERE id IN (SELECT id FROM review_queuetally ORDER BY id FOR UPDATE SKIP LOCKED)
  RETURNING group_id, label, is_escalated, change
)
INSERT INTO review_queuetally (group_id, label, is_escalated, change)
SELECT group_id, label, is_escalated, sum(change) FROM taken
GROUP BY 1, 2, 3 HAVING sum(change) <> 0
"""


@transaction.atomic
def settle() -> None:
    """Add up the rows of each group and label. The sums stay what they are, in every snapshot."""
    with connection.cursor() as cursor:
        cursor.execute(_SETTLE)
