"""Messages with the verdict that stands: a person's over the model's and the lists', these over
what the lists said while the model was away.

One statement; each part of it walks a primary key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from django.db import connection

from apps.api.schemas import (
    AppealOut,
    ErasureOut,
    FallbackOut,
    MessageOut,
    ModelOut,
    ScoresOut,
    TimingsOut,
    VerdictOut,
)
from apps.chat.models import Erasure

_STANDING = """
SELECT m.id, m.external_id, g.external_id, m.revision, m.deleted_at IS NOT NULL,
  v.source, v.label, v.action, v.score_ok, v.score_spam, v.score_toxic, v.score_ad, v.reasons,
  v.queue_ms, v.inference_ms, v.total_ms, v.kind, v.model_name, v.model_version,
  p.label, p.action, f.label, f.action
FROM chat_message m
JOIN chat_group g ON g.id = m.group_id
LEFT JOIN LATERAL (
  SELECT v.*, r.kind, r.model_name, r.model_version
  FROM scoring_verdict v JOIN releases_release r ON r.id = v.release_id
  WHERE v.message_id = m.id
  ORDER BY v.source = 'model' DESC, v.source = 'rules' DESC, v.label IS NOT NULL DESC,
    r.is_active DESC, v.created_at DESC
  LIMIT 1
) v ON true
LEFT JOIN scoring_verdict f
  ON f.message_id = m.id AND f.source = 'fallback' AND f.release_id <> v.release_id
LEFT JOIN review_decision p ON p.item_id = m.id AND p.undone_at IS NULL
"""


def find_messages(ids: Sequence[int]) -> dict[int, MessageOut]:
    """The messages that there are among `ids`, by id."""
    return _found(_STANDING + "WHERE m.id = ANY(%s)", [list(ids)])


def find_revisions(*, group: str, external_id: str) -> list[MessageOut]:
    """Every revision of one message by its backend's ids, the newest first."""
    where = "WHERE g.external_id = %s AND m.external_id = %s ORDER BY m.revision DESC"
    return list(_found(_STANDING + where, [group, external_id]).values())


def key_of_message(message_id: int) -> tuple[str, str] | None:
    """The group and external id of a message, or None."""
    found = find_messages([message_id]).get(message_id)
    return (found.group, found.external_id) if found else None


_APPEAL = """
SELECT a.id, a.item_id,
  CASE WHEN a.state = 'open' AND i.state = 'withdrawn' THEN 'withdrawn' ELSE a.state END,
  a.action, a.label, a.reason, a.opened_at, a.decided_at
FROM review_appeal a JOIN review_reviewitem i ON i.message_id = a.item_id
WHERE a.id = %s
"""


def find_appeal(appeal_id: int) -> AppealOut | None:
    """The appeal as it stands, or None."""
    with connection.cursor() as cursor:
        cursor.execute(_APPEAL, [appeal_id])
        row = cursor.fetchone()
    if row is None:
        return None
    id_, message_id, status, action, label, reason, opened_at, decided_at = row
    return AppealOut(
        id=str(id_),
        message_id=str(message_id),
        status=status,
        action=action,
        label=label,
        reason=reason or None,
        opened_at=opened_at.isoformat(),
        decided_at=decided_at.isoformat() if decided_at else None,
    )


def find_erasure(erasure_id: int) -> ErasureOut | None:
    """How far the erasure of a sender has come, or None."""
    erasure = Erasure.objects.filter(pk=erasure_id).first()
    return None if erasure is None else as_erasure(erasure)


def as_erasure(erasure: Erasure) -> ErasureOut:
    finished_at = erasure.finished_at
    return ErasureOut(
        id=str(erasure.pk),
        status="done" if finished_at else "running",
        messages=erasure.messages,
        requested_at=erasure.requested_at.isoformat(),
        finished_at=finished_at.isoformat() if finished_at else None,
    )


def _found(sql: str, parameters: list[Any]) -> dict[int, MessageOut]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return {row[0]: _message(row) for row in cursor.fetchall()}


def _message(row: tuple[Any, ...]) -> MessageOut:
    id_, external_id, group, revision, is_deleted = row[:5]
    verdict = _verdict(row)
    if is_deleted:
        return MessageOut(str(id_), external_id, group, revision, "deleted", None)
    return MessageOut(str(id_), external_id, group, revision, _status(verdict), verdict)


def _status(verdict: VerdictOut | None) -> Literal["pending", "decided", "undetermined"]:
    if verdict is None:
        return "pending"
    return "undetermined" if verdict.label is None else "decided"


def _verdict(row: tuple[Any, ...]) -> VerdictOut | None:
    source, label, action = row[5:8]
    person_label, person_action = row[19:21]
    if source is None and person_label is None:
        return None
    scores = ScoresOut(*row[8:12]) if row[8] is not None else None
    by_person = person_label is not None
    return VerdictOut(
        label=person_label if by_person else label,
        confidence=None if by_person or scores is None or label is None else getattr(scores, label),
        scores=scores,
        action=person_action if by_person else action,
        source="person" if by_person else source,
        model=ModelOut(row[17], row[18]) if source == "model" else None,
        reasons=row[12] or [],
        timings_ms=TimingsOut(*row[13:16]) if source is not None else None,
        fallback=_fallback(row),
    )


def _fallback(row: tuple[Any, ...]) -> FallbackOut | None:
    label, action = row[21:23]
    if label is None:
        return None
    return FallbackOut(label, action, changed=(label, action) != row[6:8])
