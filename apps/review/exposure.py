"""What somebody has seen of what hurts, how long they have worked, and whether a break is due."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.db.models import Count, Q
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.review.models import Exposure, Wellbeing

WEEK_DAYS = 7
# Nothing seen for so long is a break; longer spells than the window are as long as it.
PAUSE = timedelta(minutes=10)
WINDOW = timedelta(hours=4)


@dataclass(frozen=True, slots=True)
class Seen:
    """Messages shown, and of them severe ones whose text was seen."""

    shown: int
    severe: int


@dataclass(frozen=True, slots=True)
class Spell:
    """Work without a break."""

    minutes: int
    severe: int


@dataclass(frozen=True, slots=True)
class Reminder:
    """A break that is due, and why."""

    spell: Spell
    is_long: bool
    is_severe: bool


def care_of(user: User) -> Wellbeing:
    """What the user chose to be spared; as it is at first, when they chose nothing."""
    return Wellbeing.objects.filter(person=user).first() or Wellbeing(person=user)


def own_figures(user: User, *, now: datetime) -> dict[str, Seen]:
    """What the user saw `today` and in the last seven days (`week`)."""
    return _sums(Q(person=user), timezone.localdate(now))


def team_figures(lead: User, *, now: datetime) -> dict[str, Seen]:
    """The same of everybody together. Of no one by themselves: it is nothing to compare people by.

    Raises:
        PermissionDenied: The user is no lead.
    """
    require(lead, Permission.REVIEW_LEAD)
    return _sums(Q(), timezone.localdate(now))


def _sums(whose: Q, today: date) -> dict[str, Seen]:
    of_today, severe = Q(day=today), Q(is_severe=True)
    week = Exposure.objects.filter(whose, day__gt=today - timedelta(days=WEEK_DAYS))
    sums = week.aggregate(
        today=Count("pk", filter=of_today),
        today_severe=Count("pk", filter=of_today & severe),
        week=Count("pk"),
        week_severe=Count("pk", filter=severe),
    )
    return {part: Seen(sums[part], sums[f"{part}_severe"]) for part in ("today", "week")}


def reminder(user: User, *, now: datetime | None = None) -> Reminder | None:
    """The break that is due to the user, if they want to be told."""
    now = now or timezone.now()
    care = care_of(user)
    if care.put_off_until is not None and care.put_off_until > now:
        return None
    if not care.break_after_min and not care.break_after_severe:
        return None
    spell = spell_of(_lately(user, now), now)
    is_long = 0 < care.break_after_min <= spell.minutes
    is_severe = 0 < care.break_after_severe <= spell.severe
    return Reminder(spell, is_long, is_severe) if is_long or is_severe else None


def _lately(user: User, now: datetime) -> Iterable[tuple[datetime, bool]]:
    since = now - WINDOW
    # By day too: that is how the index goes.
    own = Exposure.objects.filter(person=user, day__gte=timezone.localdate(since))
    newest_first = own.filter(seen_at__gt=since).order_by("-seen_at")
    return newest_first.values_list("seen_at", "is_severe")


def spell_of(newest_first: Iterable[tuple[datetime, bool]], now: datetime) -> Spell:
    """The spell that lasts at `now`, from when each message was seen and whether it was severe."""
    began, severe = now, 0
    for seen_at, is_severe in newest_first:
        if began - seen_at >= PAUSE:
            break
        began = seen_at
        severe += is_severe
    return Spell(int((now - began).total_seconds() // 60), severe)
