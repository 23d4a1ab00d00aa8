"""The time line's events: cause under effect.

Every worker sees every replica, so each change would be told as often as there are workers. So
nobody tells: one task compares what all of them say in their samples, the worst-off view of each
replica as the page shows it, with what was last written, and writes what is different. What
breakers went through between two samples is in the samples, with its time. What people changed is
in the audit record, alerts in their own table: these are read from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.audit.models import AuditEvent
from apps.chat.models import Group
from apps.core.cutting import cut_whole
from apps.core.templatetags.hostile import marked_plain
from apps.dashboard.controls import wish_word
from apps.dashboard.courses import CALM, Step, breaker_steps
from apps.dashboard.feed import MOST_NAME_CHARACTERS
from apps.dashboard.figures import RATE_WINDOW_S, by_process, replica_rows
from apps.dashboard.heartbeat import ROLE as WEB_ROLE
from apps.dashboard.models import OperationalEvent
from apps.dashboard.presenting import BREAKER_WORDS, STATUS_WORDS
from apps.dashboard.reasons import reason_words
from apps.dashboard.standing import (
    BURST,
    DEPLOYED,
    LEFT,
    OVER,
    STARTED,
    STOPPED,
    Kind,
    standing,
    tell,
)
from apps.scoring.samples import HEARTBEAT_LOST_AFTER, Sample, read_samples

KEPT_FOR = timedelta(days=31)
MOST_EVENTS = 500
Thing = tuple[str, str]
_PROCESSES = {Kind.WORKER, Kind.WEB}
_LOCK = 0x6576656E7473

STATE_WORDS: dict[str, Promise] = {
    **STATUS_WORDS,
    **BREAKER_WORDS,
    STARTED: gettext_lazy("started"),
    STOPPED: gettext_lazy("stopped"),
    LEFT: gettext_lazy("left"),
    DEPLOYED: gettext_lazy("deployed"),
    BURST: gettext_lazy("sends a burst"),
    OVER: gettext_lazy("burst over"),
}
# The colour, beside the word.
_LOOKS = {
    **dict.fromkeys(("open", "forced_open", "down", STOPPED), "down"),
    **dict.fromkeys(("half_open", "ramping"), "half-open"),
    **dict.fromkeys(("ejected", "draining", "live", BURST), "degraded"),
}
# The lane of each kind, where it is not called the same.
_LANES = {Kind.DEPLOY: "act"}


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
    since = now - timedelta(seconds=RATE_WINDOW_S)
    recent, last = read_samples(since), _last_events()
    changed = [
        OperationalEvent(at=now, kind=kind, subject=subject, state=state, reason=reason[:200])
        for (kind, subject), (state, reason) in _seen(recent, now, last)
        if (kind, subject) not in last or state != last[kind, subject].state
    ]
    changed += _breakers(breaker_steps(recent, now=now, since=since), last, now)
    changed += _deployed(recent, now)
    tell(changed)
    OperationalEvent.objects.filter(at__lt=now - KEPT_FOR, is_standing=False).delete()
    return len(changed)


LastEvents = dict[Thing, OperationalEvent]


def _last_events() -> LastEvents:
    known = standing(Kind.BREAKER, Kind.REPLICA, Kind.WORKER, Kind.WEB)
    return {(event.kind, event.subject): event for event in known}


def _seen(
    recent: Sequence[Sample], now: datetime, last: LastEvents
) -> Iterator[tuple[Thing, tuple[str, str]]]:
    live = {
        (kind_of_role(process.newest.role), name)
        for name, process in by_process(recent).items()
        if now - process.newest.at <= HEARTBEAT_LOST_AFTER
    }
    for thing in sorted(live):
        yield thing, (STARTED, "")
    for kind, name in last:
        if kind in _PROCESSES and (kind, name) not in live:
            yield (kind, name), (STOPPED, "")
    replicas = replica_rows(recent, now=now)
    for row in replicas:
        yield (Kind.REPLICA, row.name), (row.status, row.reason)
    # Without any worker nobody knows anything of replicas.
    known = {row.name for row in replicas}
    for kind, name in last if known else ():
        if kind == Kind.REPLICA and name not in known:
            yield (kind, name), (LEFT, "")


def kind_of_role(role: str) -> Kind:
    return Kind.WEB if role == WEB_ROLE else Kind.WORKER


def _breakers(steps: Sequence[Step], last: LastEvents, now: datetime) -> Iterator[OperationalEvent]:
    """What is new since the last event of each; before the first a breaker was closed."""
    # How each stands now is told in any case: who held it open may have died.
    standing = {step.replica: replace(step, at=now) for step in steps}
    for step in (*steps, *standing.values()):
        thing = (str(Kind.BREAKER), step.replica)
        before = last.get(thing)
        if before is not None and step.at <= before.at:
            continue
        if step.state != (before.state if before else CALM):
            last[thing] = OperationalEvent(
                at=step.at,
                kind=Kind.BREAKER,
                subject=step.replica,
                state=step.state,
                reason=step.reason[:200],
            )
            yield last[thing]


def _deployed(recent: Sequence[Sample], now: datetime) -> Iterator[OperationalEvent]:
    """The version of whichever process began last, when it is not the one that was last told."""
    begun = [(s.gauges.started_s, s.gauges.version) for s in recent if s.gauges.started_s]
    if not begun:
        return
    version = max(begun)[1][:64]
    if version not in {event.subject for event in standing(Kind.DEPLOY)}:
        yield OperationalEvent(at=now, kind=Kind.DEPLOY, subject=version, state=DEPLOYED)


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


Source = Callable[[datetime, datetime], Iterable[Shown]]
_sources: list[Source] = []


def add_source(source: Source) -> None:
    """Let a room above have its events between two instants on the time line.

    Call it from `AppConfig.ready()`.
    """
    _sources.append(source)


def read_events(since: datetime, until: datetime) -> list[Shown]:
    """The newest events between the two instants, oldest first, in the reader's language."""
    sources = (_machines, _publications, _acts, *_sources)
    found = [event for source in sources for event in source(since, until)]
    return sorted(found, key=lambda event: event.at_s)


def _machines(since: datetime, until: datetime) -> list[Shown]:
    newest = OperationalEvent.objects.filter(at__gte=since, at__lt=until).order_by("-at", "-id")
    events = list(newest[:MOST_EVENTS])
    names = _group_names(events)
    ends: dict[Thing, float] = {}
    shown = []
    for event in events:
        thing = (event.kind, event.subject)
        shown.append(_shown(event, names.get(thing, event.subject), ends.get(thing)))
        ends[thing] = event.at.timestamp()
    return shown


def _group_names(events: Iterable[OperationalEvent]) -> dict[Thing, str]:
    keys = {event.subject for event in events if event.kind == Kind.BURST}
    groups = Group.objects.in_bulk([int(key) for key in keys])
    return {(str(Kind.BURST), str(key)): str(group) for key, group in groups.items()}


def _shown(event: OperationalEvent, name: str, until_s: float | None) -> Shown:
    word = str(STATE_WORDS.get(event.state, event.state))
    return Shown(
        lane=_LANES.get(Kind(event.kind), event.kind),
        at_s=event.at.timestamp(),
        until_s=until_s,
        words=f"{_line(name)} {word}",
        look=_LOOKS.get(event.state, ""),
        reason=reason_words(event.reason),
    )


def _line(name: str) -> str:
    """A group's name comes from outside: its hidden characters are named, and it is cut."""
    return cut_whole(marked_plain(name[: 2 * MOST_NAME_CHARACTERS]), MOST_NAME_CHARACTERS)


def _publications(since: datetime, until: datetime) -> list[Shown]:
    return [
        _point("policy", event, _("version %(n)s published") % {"n": _after(event, "version")})
        for event in _audited("policy", since, until)
    ]


def _acts(since: datetime, until: datetime) -> list[Shown]:
    return [
        _point("act", event, f"{_line(event.target_id)}: {wish_word(_after(event, 'value'))}")
        for event in _audited("control", since, until)
    ]


def _audited(target_type: str, since: datetime, until: datetime) -> Iterable[AuditEvent]:
    found = AuditEvent.objects.filter(target_type=target_type, at__gte=since, at__lt=until)
    return found.order_by("-id")[:MOST_EVENTS]


def _after(event: AuditEvent, name: str) -> Any:
    return (event.after or {}).get(name, "")


def _point(lane: str, event: AuditEvent, words: str) -> Shown:
    by = _("by %(name)s") % {"name": event.actor_name}
    return Shown(lane, event.at.timestamp(), None, words, look="", reason=by)
