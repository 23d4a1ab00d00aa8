"""The live feed of verdicts: all are counted, the newest of each kind are shown.

Through Redis go ids and counts. The web process reads the texts, once a frame for all viewers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asgiref.sync import sync_to_async

from apps.core import realtime
from apps.policies.models import Action
from apps.scoring.models import Verdict
from apps.scoring.sinks import StoredVerdict

# Of each kind and batch; the hub keeps the newest of what comes.
_IDS_SENT = 8
_ROWS_SHOWN = 24
_TEXT_SHOWN = 280
# A verdict without a label: `hold` as an action, a kind of its own to those who watch.
UNDETERMINED = "undetermined"


def tell_viewers(verdicts: Sequence[StoredVerdict]) -> None:
    """Publish, on commit, how many verdicts of each kind there are and some of their messages."""
    kinds: dict[str, list[int]] = {}
    for verdict in verdicts:
        kind = UNDETERMINED if verdict.label is None else verdict.action
        kinds.setdefault(kind, []).append(verdict.message_id)
    for kind, ids in kinds.items():
        realtime.publish(realtime.VERDICTS, str(kind), ids=ids[-_IDS_SENT:], count=len(ids))


def _shown_ids(events: Sequence[realtime.Event]) -> list[int]:
    """Some of each kind, so that a stream of `allow` does not push the rare ones out."""
    newest_first = [list(reversed(event.ids)) for event in events]
    rank = {Action.ALLOW.value: 1}
    ordered = sorted(zip(events, newest_first, strict=True), key=lambda e: rank.get(e[0].kind, 0))
    share = max(1, _ROWS_SHOWN // max(1, len(ordered)))
    picked = [id_ for _, ids in ordered for id_ in ids[:share]]
    spare = [id_ for _, ids in ordered for id_ in ids[share:]]
    return (picked + spare)[:_ROWS_SHOWN]


def read_rows(message_ids: Sequence[int]) -> list[dict[str, Any]]:
    """Verdicts with their texts as the feed shows them, newest message first."""
    verdicts = (
        Verdict.objects.filter(message_id__in=message_ids, message__deleted_at=None)
        .select_related("message__group")
        .order_by("-message_id")
    )
    return [_row(verdict) for verdict in verdicts]


def _row(verdict: Verdict) -> dict[str, Any]:
    message = verdict.message
    text = message.text
    return {
        "id": message.pk,
        "group": str(message.group),
        "text": text[:_TEXT_SHOWN],
        "is_cut": len(text) > _TEXT_SHOWN,
        "label": verdict.label,
        "action": verdict.action,
        "acting_label": verdict.acting_label,
        "source": verdict.source,
        "scores": {
            "ok": verdict.score_ok,
            "spam": verdict.score_spam,
            "toxic": verdict.score_toxic,
            "ad": verdict.score_ad,
        },
        "reasons": verdict.reasons,
        "total_ms": verdict.total_ms,
        "at": verdict.created_at.isoformat(),
    }


async def build_frame(events: Sequence[realtime.Event]) -> dict[str, Any]:
    """The content of a frame: honest totals by kind, and a sample of the newest verdicts."""
    rows = await sync_to_async(read_rows, thread_sensitive=False)(_shown_ids(events))
    return {"totals": {event.kind: event.count for event in events}, "verdicts": rows}
