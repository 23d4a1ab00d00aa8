"""What the card says of a sender: how much they wrote, what became of it, trust and strikes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet

from apps.chat.models import CHUNK_ID_BITS, Message
from apps.policies.models import Action
from apps.review.models import Strike
from apps.review.statements import fetch_row
from apps.review.trust import LAST_MESSAGES, Fate, Trust, trust_of

# Enough to tell a newcomer from a regular; counting on would cost what nobody reads.
SENDER_COUNT_MOST = 300
REMOVED_DAYS = 30


@dataclass(frozen=True, slots=True)
class SenderFacts:
    """About the newest SENDER_COUNT_MOST messages; `removed` is by people, in REMOVED_DAYS.

    Trust and strikes leave the message out that is judged.
    """

    messages: int
    groups: int
    removed: int
    waiting: int
    trust: Trust
    strikes: Sequence[Strike]

    @property
    def is_capped(self) -> bool:
        return self.messages == SENDER_COUNT_MOST


# In the order of `message_by_sender` (NEWEST_OF_SENDER); the fates are of the newest but the one
# that is judged: a person's decision that stands, else the newest verdict.
_FACTS = f"""
WITH sent AS MATERIALIZED (
  SELECT id, group_id FROM chat_message WHERE sender_id = %(sender)s
  ORDER BY id >> {CHUNK_ID_BITS + 12} DESC, id DESC LIMIT {SENDER_COUNT_MOST}
), stands AS MATERIALIZED (
  SELECT sent.id, decision.action, decision.decided_at FROM sent
  JOIN review_decision AS decision
    ON decision.item_id = sent.id AND decision.undone_at IS NULL
), fates AS (
  SELECT coalesce(stands.action, verdict.action) AS action,
    stands.action IS NOT NULL AS is_by_person
  FROM (
    SELECT id FROM sent WHERE id <> %(id)s ORDER BY id DESC LIMIT {LAST_MESSAGES}
  ) AS last
  LEFT JOIN stands USING (id)
  LEFT JOIN LATERAL (
    SELECT action FROM scoring_verdict WHERE message_id = last.id
    ORDER BY created_at DESC LIMIT 1
  ) AS verdict ON true
)
SELECT
  (SELECT count(*) FROM sent), (SELECT count(DISTINCT group_id) FROM sent),
  (SELECT count(*) FROM stands WHERE action = 'remove' AND decided_at > %(since)s),
  (SELECT count(*) FROM sent JOIN review_reviewitem AS item ON item.message_id = sent.id
   WHERE item.state = 'open' AND sent.id <> %(id)s),
  (SELECT coalesce(jsonb_agg(jsonb_build_array(action, is_by_person)), '[]') FROM fates
   WHERE action IS NOT NULL),
  EXISTS (SELECT FROM review_strike WHERE sender_id = %(sender)s AND withdrawn_at IS NULL)
"""  # noqa: S608 (constants of ours)


def sender_facts(message: Message, now: datetime) -> SenderFacts:
    """About the sender of a message that is judged; one statement, and one for strikes."""
    parameters = {
        "sender": message.sender_id,
        "id": message.pk,
        "since": now - timedelta(days=REMOVED_DAYS),
    }
    sent, groups, removed, waiting, fates, has_strikes = fetch_row(_FACTS, parameters)
    strikes = _strikes_beside(message, now) if has_strikes else []
    read = (Fate(Action(action), is_by_person) for action, is_by_person in json.loads(fates))
    return SenderFacts(sent, groups, removed, waiting, trust_of(read, len(strikes)), strikes)


def _strikes_beside(message: Message, now: datetime) -> list[Strike]:
    counting = strikes_of(message.sender_id, now=now).exclude(decision__item_id=message.pk)
    return list(counting.select_related("moderator", "decision"))


def strikes_of(sender_id: int, *, now: datetime) -> QuerySet[Strike]:
    """A sender's strikes that count, the newest first."""
    counting = Strike.objects.filter(
        sender_id=sender_id,
        withdrawn_at__isnull=True,
        expires_at__gt=now,
        decision__undone_at__isnull=True,
    )
    return counting.order_by("-given_at")
