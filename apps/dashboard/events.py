"""The time line's events: cause under effect.

Every worker sees every replica, so each change would be told as often as there are workers. So
nobody tells: one task compares what all of them say in their samples, the worst-off view of each
replica as the page shows it, with what was last written, and writes what is different. What people
changed is in the audit record and is read from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.audit.models import AuditEvent
from apps.dashboard.figures import RATE_WINDOW_S, replica_rows, worker_rows
from apps.dashboard.models import OperationalEvent
from apps.dashboard.presenting import BREAKER_WORDS, STATUS_WORDS
from apps.scoring.samples import read_samples

KEPT_FOR = timedelta(days=31)
MOST_EVENTS = 500
Kind = OperationalEvent.Kind
Thing = tuple[str, str]
# Of these nothing is written before something else has happened.
_CALM = "closed"
STARTED, STOPPED, LEFT = "started", "stopped", "left"
_LOCK = 0x6576656E7473

STATE_WORDS: dict[str, Promise] = {
    **STATUS_WORDS,
    **BREAKER_WORDS,
    STARTED: gettext_lazy("started"),
    STOPPED: gettext_lazy("stopped"),
    LEFT: gettext_lazy("left"),
}
# The colour, beside the word.
_LOOKS = {
    **dict.fromkeys(("open", "forced_open", "down", STOPPED), "down"),
    **dict.fromkeys(("half_open", "ramping"), "half-open"),
    **dict.fromkeys(("ejected", "draining", "live"), "degraded"),
}


@transaction.atomic
def record_events(*, now: datetime) -> int:
    """Write what has changed since the last look. Two at once wait for each other.

    Args:
        now: the database's time, as the samples carry it.

    Returns:
        How many events were written.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    last = _last_states()
    changed = [
        OperationalEvent(at=now, kind=kind, subject=subject, state=state, reason=reason[:200])
        for (kind, subject), (state, reason) in _seen(now, last)
        if state != last.get((kind, subject), _CALM)
    ]
    OperationalEvent.objects.bulk_create(changed)
    OperationalEvent.objects.filter(at__lt=now - KEPT_FOR).delete()
    return len(changed)


def _last_states() -> dict[Thing, str]:
    newest = OperationalEvent.objects.order_by("kind", "subject", "-at", "-id")
    return {(e.kind, e.subject): e.state for e in newest.distinct("kind", "subject")}


def _seen(now: datetime, last: dict[Thing, str]) -> Iterator[tuple[Thing, tuple[str, str]]]:
    recent = read_samples(now - timedelta(seconds=RATE_WINDOW_S))
    live = {row.name for row in worker_rows(recent, now=now) if row.state != "gone"}
    for name in sorted(live):
        yield (Kind.WORKER, name), (STARTED, "")
    for kind, name in last:
        if kind == Kind.WORKER and name not in live:
            yield (kind, name), (STOPPED, "")
    replicas = replica_rows(recent, now=now)
    for row in replicas:
        yield (Kind.REPLICA, row.name), (row.status, row.reason)
        yield (Kind.BREAKER, row.name), (row.breaker, row.breaker_reason)
    # Without any worker nobody knows anything of replicas.
    known = {row.name for row in replicas}
    for kind, name in last if known else ():
        if kind == Kind.REPLICA and name not in known:
            yield (kind, name), (LEFT, "")


@dataclass(frozen=True, slots=True)
class Shown:
    """One event on the time line. `until_s` is None for what has no length or still holds."""

    lane: str
    at_s: float
    until_s: float | None
    words: str
    look: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def read_events(since: datetime, until: datetime) -> list[Shown]:
    """The newest events between the two instants, oldest first, in the reader's language."""
    machines = _machines(since, until)
    return sorted([*machines, *_publications(since, until)], key=lambda event: event.at_s)


def _machines(since: datetime, until: datetime) -> list[Shown]:
    newest = OperationalEvent.objects.filter(at__gte=since, at__lt=until).order_by("-at", "-id")
    ends: dict[Thing, float] = {}
    shown = []
    for event in newest[:MOST_EVENTS]:
        thing = (event.kind, event.subject)
        shown.append(_shown(event, ends.get(thing)))
        ends[thing] = event.at.timestamp()
    return shown


def _shown(event: OperationalEvent, until_s: float | None) -> Shown:
    word = str(STATE_WORDS.get(event.state, event.state))
    return Shown(
        lane=event.kind,
        at_s=event.at.timestamp(),
        until_s=until_s,
        words=f"{event.subject} {word}",
        look=_LOOKS.get(event.state, ""),
        reason=event.reason,
    )


def _publications(since: datetime, until: datetime) -> list[Shown]:
    published = AuditEvent.objects.filter(
        target_type="policy", at__gte=since, at__lt=until
    ).order_by("-id")
    return [
        Shown(
            lane="policy",
            at_s=event.at.timestamp(),
            until_s=None,
            words=_("version %(n)s published") % {"n": (event.after or {}).get("version", "")},
            look="",
            reason="",
        )
        for event in published[:MOST_EVENTS]
    ]
