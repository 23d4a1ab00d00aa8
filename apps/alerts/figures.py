"""The figures that rules may watch, what each is called, and the rule it starts with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db import models
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.dashboard.figures import Figures
from apps.dashboard.selectors import Backlog, Inflow

# An operator who holds a breaker open knows it.
_BROKEN = {"open", "half_open"}


class Figure(models.TextChoices):
    OLDEST_PENDING = "oldest_pending_s", _("Oldest pending message, s")
    OPEN_BREAKERS = "open_breakers", _("Replicas with an open breaker")
    # xgettext:no-python-format
    # xgettext:no-python-format
    UNDECIDED = "undecided_percent", _("Fallback and undetermined, % of verdicts")
    P99 = "p99_ms", _("End to end p99, ms")
    BACKLOG = "backlog", _("Messages that wait")
    WORKERS = "live_workers", _("Workers that live")
    TRAFFIC = "received_per_s", _("Messages in, a second")
    CLOCK_SKEW = "clock_skew_s", _("Clock difference to the database, s")


@dataclass(frozen=True, slots=True)
class Default:
    """The rule of a new installation: sensible, and to be changed by whoever knows better."""

    limit: float
    clear_at: float
    for_s: int
    clear_for_s: int
    meaning: Promise
    is_below: bool = False
    is_on: bool = True


DEFAULTS: Mapping[Figure, Default] = {
    Figure.OLDEST_PENDING: Default(60, 30, 5, 15, _("More comes in than is judged.")),
    Figure.OPEN_BREAKERS: Default(
        0, 0, 30, 10, _("A replica gets no messages: its calls fail or take too long.")
    ),
    Figure.UNDECIDED: Default(
        5, 3, 30, 60, _("The model decides too little; people must decide the rest.")
    ),
    Figure.P99: Default(1000, 700, 60, 60, _("Verdicts come later than they should.")),
    Figure.BACKLOG: Default(
        100_000, 50_000, 30, 60, _("More waits than is judged soon."), is_on=False
    ),
    Figure.WORKERS: Default(
        1, 1, 15, 5, _("Nobody judges. Messages are stored and wait."), is_below=True
    ),
    Figure.TRAFFIC: Default(
        0.1, 0.1, 300, 30, _("No backend sends messages."), is_below=True, is_on=False
    ),
    Figure.CLOCK_SKEW: Default(
        2, 1, 30, 30, _("A server's clock is wrong: ages and deadlines are, too.")
    ),
}


def readings(
    figures: Figures, backlog: Backlog, inflow: Inflow, clock_skew_s: float | None
) -> dict[Figure, float | None]:
    """Every figure as it stands; None where there is nothing to tell it by."""
    return {
        Figure.OLDEST_PENDING: backlog.oldest_age_s,
        Figure.OPEN_BREAKERS: sum(replica.breaker in _BROKEN for replica in figures.replicas),
        Figure.UNDECIDED: _undecided_percent(figures),
        Figure.P99: next((s.p99_ms for s in figures.stages if s.stage == "total"), None),
        Figure.BACKLOG: backlog.messages,
        Figure.WORKERS: sum(w.role == "worker" and w.state != "gone" for w in figures.workers),
        Figure.TRAFFIC: inflow.received_per_s,
        Figure.CLOCK_SKEW: clock_skew_s,
    }


def _undecided_percent(figures: Figures) -> float | None:
    shares = (figures.undetermined_share, figures.fallback_share)
    known = [share for share in shares if share is not None]
    # A verdict may be both.
    return min(1.0, sum(known)) * 100 if known else None
