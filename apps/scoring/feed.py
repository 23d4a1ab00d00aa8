"""The live feed of verdicts: all are counted, the newest of each kind are shown.

Through Redis go ids and counts. `apps.dashboard` reads the texts in the web process, once a frame
for all viewers.
"""

from __future__ import annotations

from collections.abc import Sequence

from apps.core import realtime
from apps.policies.models import Action
from apps.scoring.sinks import StoredVerdict

# Of each kind and batch; the hub keeps the newest of what comes.
_IDS_SENT = 8
_ROWS_SHOWN = 24
# A verdict without a label: `hold` as an action, a kind of its own to those who watch.
UNDETERMINED = "undetermined"
# No verdict: what viewers have of these messages has to go.
ERASED = "erased"


def tell_viewers(verdicts: Sequence[StoredVerdict]) -> None:
    """Publish, on commit, how many verdicts of each kind there are and some of their messages."""
    kinds: dict[str, list[int]] = {}
    for verdict in verdicts:
        kind = UNDETERMINED if verdict.label is None else verdict.action
        kinds.setdefault(kind, []).append(verdict.message_id)
    for kind, ids in kinds.items():
        realtime.publish(realtime.VERDICTS, str(kind), ids=ids[-_IDS_SENT:], count=len(ids))


def tell_erased(message_ids: Sequence[int]) -> None:
    """Have viewers take the texts of these messages off their screens, once they are erased."""
    if message_ids:
        realtime.publish(realtime.VERDICTS, ERASED, ids=message_ids)


def shown_ids(events: Sequence[realtime.Event]) -> list[int]:
    """Which of a frame's messages to show.

    Some of each kind, so that a stream of `allow` does not push the rare ones out.
    """
    newest_first = [list(reversed(event.ids)) for event in events]
    rank = {Action.ALLOW.value: 1}
    ordered = sorted(zip(events, newest_first, strict=True), key=lambda e: rank.get(e[0].kind, 0))
    share = max(1, _ROWS_SHOWN // max(1, len(ordered)))
    picked = [id_ for _, ids in ordered for id_ in ids[:share]]
    spare = [id_ for _, ids in ordered for id_ in ids[share:]]
    return (picked + spare)[:_ROWS_SHOWN]
