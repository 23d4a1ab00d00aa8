"""What the page of actions shows: each replica, what is wanted of it, how far that has come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2s
from typing import Any

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.dashboard.figures import ReplicaRow, replica_rows
from apps.dashboard.presenting import BREAKER_WORDS, STATUS_WORDS
from apps.scoring.controls import (
    BreakerWish,
    Claiming,
    Effect,
    Judging,
    Standing,
    effects,
    known_models,
    known_replicas,
    newest_samples,
    standing_limits,
)
from apps.scoring.models import Control, ControlKind, ModelWish
from apps.scoring.samples import Sample

WISH_WORDS: dict[str, Promise] = {
    Standing.SERVING: gettext_lazy("Readmit"),
    Standing.DRAINING: gettext_lazy("Drain"),
    Standing.EJECTED: gettext_lazy("Eject"),
    BreakerWish.AUTO: gettext_lazy("Reset breaker"),
    BreakerWish.FORCED_OPEN: gettext_lazy("Hold breaker open"),
    BreakerWish.FORCED_CLOSED: gettext_lazy("Hold breaker closed"),
    ModelWish.LOADED: gettext_lazy("Load"),
    ModelWish.UNLOADED: gettext_lazy("Unload"),
    Claiming.RUNNING: gettext_lazy("Resume claiming"),
    Claiming.PAUSED: gettext_lazy("Pause claiming"),
    Judging.MODEL: gettext_lazy("Judge by the model again"),
    Judging.RULES: gettext_lazy("Degrade to lists"),
}
QUESTIONS: dict[str, Promise] = {
    Standing.SERVING: gettext_lazy("It gets its share of messages again."),
    Standing.DRAINING: gettext_lazy("It finishes what it has and gets nothing new."),
    Standing.EJECTED: gettext_lazy("It gets nothing more until it is readmitted."),
    BreakerWish.AUTO: gettext_lazy("It closes now, forgets its failures and decides by itself."),
    BreakerWish.FORCED_OPEN: gettext_lazy("No message goes there until the breaker is reset."),
    BreakerWish.FORCED_CLOSED: gettext_lazy(
        "Messages go there even when all of them fail, until the breaker is reset."
    ),
    ModelWish.LOADED: gettext_lazy("Every replica reads it anew from its repository."),
    ModelWish.UNLOADED: gettext_lazy(
        "No replica serves it any more. If the release in force needs it, messages wait."
    ),
    Claiming.RUNNING: gettext_lazy("All workers claim again, the oldest messages first."),
    Claiming.PAUSED: gettext_lazy(
        "No worker takes new messages. They are stored and wait; what is in flight is judged."
    ),
    Judging.MODEL: gettext_lazy(
        "The model judges all that waits, also what the lists decided meanwhile."
    ),
    Judging.RULES: gettext_lazy(
        "Triton gets nothing more. Blocking entries decide; all else waits for the model."
    ),
}
# Asked for with a red button: they take something away.
_TAKING = {
    Standing.DRAINING,
    Standing.EJECTED,
    BreakerWish.FORCED_OPEN,
    ModelWish.UNLOADED,
    Claiming.PAUSED,
    Judging.RULES,
}


_OF_REPLICAS = {ControlKind.REPLICA, ControlKind.BREAKER}


@dataclass(frozen=True, slots=True)
class Action:
    """One button, and what it asks before it acts."""

    wish: str
    word: Promise
    question: Promise
    is_taking: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """What was asked for, when and by whom, and how many workers have done it."""

    word: Promise
    by: str
    ago_s: float
    effect: Effect


@dataclass(frozen=True, slots=True)
class ReplicaControls:
    name: str
    # None while no worker reports it.
    row: ReplicaRow | None
    status_word: Promise | str
    breaker_word: Promise | str
    progress: Sequence[Progress]
    standing_actions: Sequence[Action]
    breaker_actions: Sequence[Action]

    @property
    def slug(self) -> str:
        """Names its element on the page: a name may have any characters, and replicas may come."""
        return blake2s(self.name.encode(), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True)
class ModelControls:
    """A model: on how many of the replicas that have it, it is ready, and in which versions."""

    name: str
    ready: int
    replicas: int
    versions: Sequence[str]
    progress: Progress | None
    actions: Sequence[Action]

    @property
    def state(self) -> str:
        if not self.ready:
            return "idle"
        return "healthy" if self.ready == self.replicas else "degraded"

    @property
    def slug(self) -> str:
        return blake2s(self.name.encode(), digest_size=6).hexdigest()

    @property
    def is_at_work(self) -> bool:
        wish = self.progress and self.progress.effect.control
        return bool(wish and wish.done_version < wish.version)


@dataclass(frozen=True, slots=True)
class ControlsPage:
    """`workers` is how many live; limits are in messages and batches."""

    workers: int
    replicas: Sequence[ReplicaControls]
    models: Sequence[ModelControls]
    is_paused: bool
    claiming: Progress | None
    claiming_action: Action
    is_degraded: bool
    judging: Progress | None
    judging_action: Action
    largest_batch: int
    most_in_flight_batches: int
    limits: Progress | None = field(default=None)


def controls_page() -> ControlsPage:
    """Everything the page of actions shows, read now."""
    samples, now = newest_samples(), timezone.now()
    wishes = {control.key: control for control in Control.objects.all()}
    found = effects(wishes.values(), samples)
    rows = {row.name: row for row in replica_rows(samples, now=now)}
    claiming = _progress(found.get(_key(ControlKind.CLAIMING)), now)
    is_paused = claiming is not None and claiming.effect.control.value == Claiming.PAUSED
    judging = _progress(found.get(_key(ControlKind.JUDGING)), now)
    is_degraded = judging is not None and judging.effect.control.value == Judging.RULES
    batch, in_flight = standing_limits(wishes.get(_key(ControlKind.LIMITS)))
    return ControlsPage(
        workers=len(samples),
        replicas=[_replica(name, rows.get(name), found, now) for name in _names(samples, wishes)],
        models=[
            _model(name, ready, found, now) for name, ready in sorted(known_models(samples).items())
        ],
        is_paused=is_paused,
        claiming=claiming,
        claiming_action=_action(Claiming.RUNNING if is_paused else Claiming.PAUSED),
        is_degraded=is_degraded,
        judging=judging,
        judging_action=_action(Judging.MODEL if is_degraded else Judging.RULES),
        largest_batch=batch,
        most_in_flight_batches=in_flight,
        limits=_progress(found.get(_key(ControlKind.LIMITS)), now),
    )


def _names(samples: Sequence[Sample], wishes: Mapping[str, Control]) -> list[str]:
    """Known ones, and those that something is still wanted of."""
    return sorted(
        {*known_replicas(samples), *(w.target for w in wishes.values() if w.kind in _OF_REPLICAS)}
    )


def _replica(
    name: str, row: ReplicaRow | None, found: Mapping[str, Effect], now: datetime
) -> ReplicaControls:
    standing = found.get(_key(ControlKind.REPLICA, name))
    breaker = found.get(_key(ControlKind.BREAKER, name))
    progress = (_progress(each, now) for each in (standing, breaker))
    return ReplicaControls(
        name=name,
        row=row,
        status_word=_("no worker reports it") if row is None else _word(STATUS_WORDS, row.status),
        breaker_word="" if row is None else _word(BREAKER_WORDS, row.breaker),
        progress=[each for each in progress if each is not None],
        standing_actions=list(_actions(Standing, standing)),
        breaker_actions=list(_actions(BreakerWish, breaker)),
    )


def _model(
    name: str, ready: Mapping[str, Sequence[str]], found: Mapping[str, Effect], now: datetime
) -> ModelControls:
    return ModelControls(
        name=name,
        ready=sum(map(bool, ready.values())),
        replicas=len(ready),
        versions=sorted({version for each in ready.values() for version in each}),
        progress=_progress(found.get(_key(ControlKind.MODEL, name)), now),
        actions=[_action(wish) for wish in ModelWish],
    )


def _word(words: Mapping[str, Promise], value: str) -> Promise | str:
    return words.get(value, value)


def _actions(wishes: type[Standing | BreakerWish], effect: Effect | None) -> Iterator[Action]:
    """All but what is wanted already; going back to normal can be asked for at any time."""
    wanted = None if effect is None else effect.control.value
    for wish in wishes:
        if wish != wanted or wish in {Standing.SERVING, BreakerWish.AUTO}:
            yield _action(wish)


def _action(wish: str) -> Action:
    return Action(str(wish), WISH_WORDS[wish], QUESTIONS[wish], wish in _TAKING)


def wish_word(value: Any) -> str:
    """What was asked for: limits are the one wish that is not a word."""
    return str(WISH_WORDS.get(value, value) if isinstance(value, str) else _("Change limits"))


def _progress(effect: Effect | None, now: datetime) -> Progress | None:
    if effect is None:
        return None
    control = effect.control
    is_limits = control.kind == ControlKind.LIMITS
    word = gettext_lazy("Change limits") if is_limits else WISH_WORDS[control.value]
    ago_s = max(0.0, (now - control.changed_at).total_seconds())
    return Progress(word, control.changed_by, ago_s, effect)


def _key(kind: ControlKind, target: str = "") -> str:
    return Control(kind=kind, target=target).key
