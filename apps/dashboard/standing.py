"""What was last said of each thing, found at the same cost however much has happened.

The newest event of a thing is marked, unless it says that the thing is over: what is over needs
no remembering, since whatever comes then is new. So there are as many marked events as there are
things, and not as many as a month of restarts leaves behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q

from apps.dashboard.models import OperationalEvent

Kind = OperationalEvent.Kind
STARTED, STOPPED, LEFT, DEPLOYED = "started", "stopped", "left", "deployed"
BURST, OVER = "burst", "over"
_ENDS = {STOPPED, LEFT, OVER}


def standing(*kinds: Kind) -> list[OperationalEvent]:
    """The newest event of each thing of these kinds that is not over."""
    return list(OperationalEvent.objects.filter(is_standing=True, kind__in=kinds))


def tell(events: Sequence[OperationalEvent]) -> None:
    """Write events, those of one thing oldest first; each stands in place of the one before it.

    The caller sees to it that no other does this for the same things at the same time.
    """
    if not events:
        return
    newest = {_thing(event): event for event in events}
    for event in events:
        event.is_standing = newest[_thing(event)] is event and event.state not in _ENDS
    before = Q()
    for kind, subject in newest:
        before |= Q(kind=kind) if subject is None else Q(kind=kind, subject=subject)
    OperationalEvent.objects.filter(before, is_standing=True).update(is_standing=False)
    OperationalEvent.objects.bulk_create(events)


def _thing(event: OperationalEvent) -> tuple[str, str | None]:
    """There is one code that was deployed last, whatever its version."""
    return event.kind, None if event.kind == Kind.DEPLOY else event.subject
