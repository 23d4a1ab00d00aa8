"""From figures to what the page says: which banner, which words, which state a tile is in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext_lazy

from apps.core.templatetags.figures import count, duration
from apps.dashboard.figures import Figures, ReplicaRow, StageRow, WorkerRow
from apps.dashboard.moments import Moment, SlowBatch
from apps.dashboard.reasons import reason_words
from apps.dashboard.selectors import Backlog, Inflow, Overview, Point, overview
from apps.dashboard.stores import read_stores
from apps.policies.models import Action, Label
from apps.scoring.samples import DEGRADED

LATE_AFTER_S = 60

STAGE_WORDS: dict[str, Promise] = {
    "queue": gettext_lazy("Waiting"),
    "claim": gettext_lazy("Claim"),
    "encode": gettext_lazy("Encode"),
    "inference": gettext_lazy("Infer (Triton)"),
    "store": gettext_lazy("Store"),
    "push": gettext_lazy("Push"),
    "total": gettext_lazy("End to end"),
}
# A batch's own stages, which no finer measuring of calls changes.
SEGMENT_WORDS: dict[str, Promise] = {
    "queue": gettext_lazy("Waiting"),
    "claim": gettext_lazy("Claim"),
    "encode": gettext_lazy("Encode"),
    "inference": gettext_lazy("Infer (Triton)"),
    "store": gettext_lazy("Store"),
}
STATUS_WORDS: dict[str, Promise] = {
    "ready": gettext_lazy("ready"),
    "live": gettext_lazy("live, model not ready"),
    "draining": gettext_lazy("draining"),
    "ejected": gettext_lazy("ejected"),
    "down": gettext_lazy("down"),
}
BREAKER_WORDS: dict[str, Promise] = {
    "closed": pgettext_lazy("breaker", "closed"),
    "open": pgettext_lazy("breaker", "open"),
    "half_open": pgettext_lazy("breaker", "half-open"),
    "ramping": pgettext_lazy("breaker", "ramping up"),
    "forced_open": pgettext_lazy("breaker", "held open by hand"),
    "forced_closed": pgettext_lazy("breaker", "held closed by hand"),
}
# Why nothing is claimed: the kinds of `inference.errors` that make a worker hold off.
PAUSE_WORDS: dict[str, Promise] = {
    "by_hand": gettext_lazy("an operator has paused it"),
    "degraded": gettext_lazy("an operator lets the lists alone decide"),
    "no_replica": gettext_lazy("no replica takes calls"),
    "unreachable": gettext_lazy("no replica can be reached"),
    "connect_failed": gettext_lazy("no replica can be reached"),
    "model_not_ready": gettext_lazy("the model is not ready"),
    "model_failed": gettext_lazy("the model fails"),
    "queue_full": gettext_lazy("Triton's queue is full"),
    "queue_expired": gettext_lazy("Triton's queue is too slow"),
    "overloaded": gettext_lazy("Triton is overloaded"),
    "timeout": gettext_lazy("Triton answers too late"),
    "attempt_timeout": gettext_lazy("Triton answers too late"),
    "deadline_exceeded": gettext_lazy("Triton answers too late"),
}
WORKER_WORDS: dict[str, Promise] = {
    "busy": gettext_lazy("busy"),
    "idle": gettext_lazy("idle"),
    "paused": gettext_lazy("paused"),
    "gone": gettext_lazy("gone"),
}
STATUS_SHAPES = {"ready": "healthy", "down": "down"}
BREAKER_SHAPES = {
    "open": "down",
    "forced_open": "down",
    "half_open": "half-open",
    "ramping": "half-open",
}
WORKER_SHAPES = {"busy": "healthy", "idle": "idle", "paused": "degraded", "gone": "down"}


@dataclass(frozen=True, slots=True)
class Banner:
    """What stands above all when something is wrong: state, headline, what it means."""

    state: str
    word: str
    headline: str
    meaning: str


@dataclass(frozen=True, slots=True)
class StageView:
    row: StageRow
    word: Promise


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """`breaker_shape` is empty where nothing is the matter: a word is enough."""

    row: ReplicaRow
    status_word: Promise | str
    status_shape: str
    breaker_word: Promise | str
    breaker_shape: str
    reason: str
    breaker_reason: str

    @property
    def models(self) -> str:
        """Which versions it has ready."""
        return ", ".join(name for name, is_ready in self.row.models if is_ready)


@dataclass(frozen=True, slots=True)
class WorkerView:
    row: WorkerRow
    shape: str
    word: Promise
    pause_word: str


@dataclass(frozen=True, slots=True)
class Part:
    """One label's or action's part of the verdicts; `key` is "" for undetermined."""

    key: str
    word: Promise | str
    share: float


@dataclass(frozen=True, slots=True)
class Page:
    figures: Figures
    backlog: Backlog
    inflow: Inflow
    history: Sequence[Point]
    banner: Banner | None
    stages: Sequence[StageView]
    labels: Sequence[Part]
    actions: Sequence[Part]
    replicas: Sequence[ReplicaView]
    workers: Sequence[WorkerView]

    @property
    def is_late(self) -> bool:
        return (self.backlog.oldest_age_s or 0.0) > LATE_AFTER_S

    @property
    def replicas_state(self) -> str:
        """The replica tile's: nothing to say, some missing, or none left."""
        missing = [view.row for view in self.replicas if not view.row.is_serving]
        if not missing:
            return ""
        if not self.figures.serving:
            return "down"
        return "half-open" if all(row.state == "half-open" for row in missing) else "degraded"


@dataclass(frozen=True, slots=True)
class Segment:
    """One stage's part of a batch's time."""

    stage: str
    word: Promise
    took_ms: float
    share: float


@dataclass(frozen=True, slots=True)
class SlowBatchView:
    row: SlowBatch
    segments: Sequence[Segment]

    @property
    def short_claim(self) -> str:
        return self.row.trace.claim[:8]


@dataclass(frozen=True, slots=True)
class MomentView:
    row: Moment
    batches: Sequence[SlowBatchView]


def present_moment(moment: Moment) -> MomentView:
    return MomentView(
        moment,
        [
            SlowBatchView(
                slow,
                [
                    Segment(stage, SEGMENT_WORDS[stage], took_ms, share)
                    for stage, took_ms, share in slow.segments
                ],
            )
            for slow in moment.batches
        ],
    )


def figures_context() -> dict[str, Any]:
    """All that the fragment of figures shows."""
    return {"page": present(overview()), "stores": read_stores()}


def present(read: Overview) -> Page:
    figures = read.figures
    return Page(
        figures=figures,
        backlog=read.backlog,
        inflow=read.inflow,
        history=read.history,
        banner=_banner(figures, read.backlog),
        stages=[StageView(row, STAGE_WORDS[row.stage]) for row in figures.stages],
        labels=[
            *_parts(figures.by_label, [(each.value, each.label) for each in Label]),
            *_parts(figures.by_label, [("", _("undetermined"))]),
        ],
        actions=_parts(figures.by_action, [(each.value, each.label) for each in Action]),
        replicas=[
            ReplicaView(
                row,
                STATUS_WORDS.get(row.status, row.status),
                STATUS_SHAPES.get(row.status, "degraded"),
                BREAKER_WORDS.get(row.breaker, row.breaker),
                BREAKER_SHAPES.get(row.breaker, ""),
                reason_words(row.reason),
                reason_words(row.breaker_reason),
            )
            for row in figures.replicas
        ],
        workers=[
            WorkerView(
                row,
                WORKER_SHAPES[row.state],
                WORKER_WORDS[row.state],
                pause_word(row.paused_because),
            )
            for row in figures.workers
        ],
    )


def _parts(counts: Mapping[str, int], kinds: Sequence[tuple[str, Promise | str]]) -> list[Part]:
    """Those too of which there are none, so that nothing moves when there are."""
    total = sum(counts.values())
    return [Part(key, word, counts.get(key, 0) / total if total else 0.0) for key, word in kinds]


def _banner(figures: Figures, backlog: Backlog) -> Banner | None:
    """The worst that is the matter; None when all is well."""
    if not figures.live_workers:
        return _no_worker(backlog)
    if figures.replicas and not figures.serving:
        return _triton_away(backlog)
    if figures.paused_because == DEGRADED:
        return _degraded(backlog)
    if figures.paused_because:
        return Banner(
            "degraded",
            _("Paused"),
            _("Judging is paused: %(reason)s.") % {"reason": pause_word(figures.paused_because)},
            _("New messages are stored and wait; nothing is lost."),
        )
    if (backlog.oldest_age_s or 0.0) > LATE_AFTER_S:
        return _late(backlog)
    missing = [replica for replica in figures.replicas if not replica.is_serving]
    return _replicas_missing(missing, figures) if missing else None


def pause_word(kind: str) -> str:
    """A kind that has no words yet is better than none."""
    return str(PAUSE_WORDS.get(kind, kind))


def _waiting(backlog: Backlog) -> str:
    messages = backlog.messages
    text = ngettext("%(count)s message waits.", "%(count)s messages wait.", messages)
    return text % {"count": count(messages)}


def _no_worker(backlog: Backlog) -> Banner:
    return Banner(
        "down",
        _("Stopped"),
        _("No worker is running.") + " " + _waiting(backlog),
        _("Messages are still taken in and stored; nothing is lost. Start a worker."),
    )


def _triton_away(backlog: Backlog) -> Banner:
    return Banner(
        "degraded",
        _("Degraded"),
        _("Triton is away: rules only.") + " " + _waiting(backlog),
        _("Nothing is lost: what rules can't decide is judged when Triton is back."),
    )


def _degraded(backlog: Backlog) -> Banner:
    return Banner(
        "degraded",
        _("Degraded"),
        _("An operator lets the lists alone decide.") + " " + _waiting(backlog),
        _("Nothing is lost: the model judges all of it when it is asked again."),
    )


def _late(backlog: Backlog) -> Banner:
    age = duration(backlog.oldest_age_s)
    return Banner(
        "degraded",
        _("Late"),
        _("The oldest message has waited for %(age)s.") % {"age": _plain(age)},
        _("More comes in than is judged. Nothing is lost; verdicts come late."),
    )


def _plain(age: str) -> str:
    return age.replace('<span class="unit">', "\u00a0").replace("</span>", "")


def _replicas_missing(missing: Sequence[ReplicaRow], figures: Figures) -> Banner:
    names = ", ".join(replica.name for replica in missing)
    is_coming_back = all(replica.state == "half-open" for replica in missing)
    headline = (
        _("%(names)s is tried again.") if is_coming_back else _("%(names)s gets no messages.")
    )
    return Banner(
        "half-open" if is_coming_back else "degraded",
        _("%(serving)d of %(all)d serving")
        % {"serving": figures.serving, "all": len(figures.replicas)},
        headline % {"names": names},
        _("Its share goes to the others; no verdict is lost."),
    )
