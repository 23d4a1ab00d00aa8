"""What operators want of the machinery: written here, carried out by every worker (`applying`).

A wish is a row, not a message: it reaches workers that are busy, cut off or not yet started, and
asking twice is asking once. Readmitting and resetting are wishes about this moment, so each asking
counts: what opened since then is closed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import Actor, record
from apps.core import realtime
from apps.scoring.models import Control, ControlKind, ModelWish
from apps.scoring.pacing import Limits
from apps.scoring.replicas import replica_configs
from apps.scoring.samples import HEARTBEAT_LOST_AFTER, Sample, read_samples


class Standing(StrEnum):
    """What a replica is to do."""

    SERVING = "serving"
    DRAINING = "draining"
    EJECTED = "ejected"


class BreakerWish(StrEnum):
    """Who moves a breaker: it itself, or nobody."""

    AUTO = "auto"
    FORCED_OPEN = "forced_open"
    FORCED_CLOSED = "forced_closed"


class Claiming(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"


class Judging(StrEnum):
    """Who judges: the model, with the lists before it, or the lists alone."""

    MODEL = "by_model"
    RULES = "by_rules"


# Messages a batch, batches in flight a worker: least and most that may be asked for.
BATCH_BOUNDS = (16, 4096)
IN_FLIGHT_BOUNDS = (1, 8)

# Asked for again, these do something again.
_MOMENTARY: tuple[Any, ...] = (
    Standing.SERVING.value,
    BreakerWish.AUTO.value,
    ModelWish.LOADED.value,
    ModelWish.UNLOADED.value,
)


class ControlError(Exception):
    """The wish can't be granted; nothing was written."""


class UnknownTargetError(ControlError):
    """No worker and no setting knows a replica or model of that name."""


class OutOfBoundsError(ControlError):
    """A limit lies outside its bounds."""


@dataclass(frozen=True, slots=True)
class Effect:
    """How far a wish has come: `applied` of `workers` living processes have carried it out."""

    control: Control
    applied: int
    workers: int

    @property
    def is_everywhere(self) -> bool:
        return self.workers > 0 and self.applied == self.workers


# ---------- wishes ----------


def set_standing(user: User, replica: str, standing: Standing) -> Control:
    """Drain, eject or readmit a replica.

    Raises:
        PermissionDenied: The user may not act on the machinery.
        UnknownTargetError: There is no such replica.
    """
    require(user, Permission.OPERATE_ACT)
    _check_replica(replica)
    return _wish(user, ControlKind.REPLICA, replica, standing.value)


def set_breaker(user: User, replica: str, wish: BreakerWish) -> Control:
    """Hold a replica's breaker open or closed, or reset it and let it decide again.

    Raises:
        PermissionDenied: The user may not act on the machinery.
        UnknownTargetError: There is no such replica.
    """
    require(user, Permission.OPERATE_ACT)
    _check_replica(replica)
    return _wish(user, ControlKind.BREAKER, replica, wish.value)


def set_claiming(user: User, claiming: Claiming) -> Control:
    """Pause or resume claiming in all workers. What is in flight is judged and stored.

    Raises:
        PermissionDenied: The user may not act on the machinery.
    """
    require(user, Permission.OPERATE_ACT)
    return _wish(user, ControlKind.CLAIMING, "", claiming.value)


def set_judging(user: User, judging: Judging) -> Control:
    """Have all workers degrade to the lists alone, or go back to the model.

    Degraded they do as in an outage: blocking entries decide (`source=fallback`), all else stays
    pending, and when the model judges again it judges every one of these messages.

    Raises:
        PermissionDenied: The user may not act on the machinery.
    """
    require(user, Permission.OPERATE_ACT)
    return _wish(user, ControlKind.JUDGING, "", judging.value)


def set_limits(user: User, *, largest_batch: int, most_in_flight_batches: int) -> Control:
    """Bound what each worker claims at once and has in flight.

    Args:
        user: Who asks.
        largest_batch: Messages, within `BATCH_BOUNDS`.
        most_in_flight_batches: Batches of one worker, within `IN_FLIGHT_BOUNDS`.

    Raises:
        PermissionDenied: The user may not act on the machinery.
        OutOfBoundsError: One of them is outside its bounds.
    """
    require(user, Permission.OPERATE_ACT)
    _check_bounds(largest_batch, BATCH_BOUNDS)
    _check_bounds(most_in_flight_batches, IN_FLIGHT_BOUNDS)
    value = {"largest_batch": largest_batch, "most_in_flight_batches": most_in_flight_batches}
    return _wish(user, ControlKind.LIMITS, "", value)


def set_model(user: User, model: str, wish: ModelWish) -> Control:
    """Load (or load anew) or unload a model on every replica, all versions that its own
    configuration names. One worker does it, for all (`model_orders`).

    Raises:
        PermissionDenied: The user may not act on the machinery.
        UnknownTargetError: No replica has such a model in its repository.
    """
    require(user, Permission.OPERATE_ACT)
    if model not in known_models(newest_samples()):
        raise UnknownTargetError(model)
    return _wish(user, ControlKind.MODEL, model, wish.value)


@transaction.atomic
def _wish(user: User, kind: ControlKind, target: str, value: Any) -> Control:
    # The row must be there to be locked; of two who make it one does nothing.
    Control.objects.bulk_create(
        [Control(kind=kind, target=target, value="")], ignore_conflicts=True
    )
    control = Control.objects.select_for_update().get(kind=kind, target=target)
    before = control.value if control.version else None
    if before == value and value not in _MOMENTARY:
        return control
    control.value, control.version = value, control.version + 1
    control.changed_at, control.changed_by = timezone.now(), user.get_username()
    control.save()
    record(
        actor=Actor.of_user(user),
        action=f"{kind}.asked",
        target_type="control",
        target_id=(target or kind)[:64],
        before=None if before is None else {"value": before},
        after={"value": value, "version": control.version},
    )
    realtime.publish(realtime.OPERATE, "controlled", ids=[control.pk])
    return control


def _check_replica(name: str) -> None:
    if name not in known_replicas(newest_samples()):
        raise UnknownTargetError(name)


def _check_bounds(value: int, bounds: tuple[int, int]) -> None:
    least, most = bounds
    if not least <= value <= most:
        raise OutOfBoundsError(f"{value} is not within {least} and {most}")


# ---------- what stands ----------


def known_replicas(samples: Iterable[Sample]) -> set[str]:
    """Names from the settings, and what living workers report besides (from a name server)."""
    configured = {config.name for config in replica_configs(settings.TRITON_REPLICAS)}
    return configured.union(replica["name"] for each in samples for replica in each.replicas)


def known_models(samples: Iterable[Sample]) -> dict[str, dict[str, list[str]]]:
    """The versions that are ready, by model and replica, as the replicas' repositories say."""
    found: dict[str, dict[str, list[str]]] = {}
    for replica in (replica for sample in samples for replica in sample.replicas):
        for name_and_version, is_ready in replica.get("models", ()):
            name, _, version = name_and_version.partition(":")
            ready = found.setdefault(name, {}).setdefault(replica["name"], [])
            if is_ready and version not in ready:
                ready.append(version)
    return found


def newest_samples() -> list[Sample]:
    """The last sample of each living worker process."""
    now = timezone.now()
    newest = {s.process: s for s in read_samples(now - HEARTBEAT_LOST_AFTER) if s.role == "worker"}
    return list(newest.values())


def effects(controls: Iterable[Control], samples: Iterable[Sample]) -> dict[str, Effect]:
    """How far each wish has come, by the control's key. Pure.

    Args:
        controls: The wishes.
        samples: The newest sample of each living worker.
    """
    applied: list[Mapping[str, int]] = [sample.gauges.applied for sample in samples]
    return {
        control.key: Effect(
            control, sum(each.get(control.key) == control.version for each in applied), len(applied)
        )
        for control in controls
    }


def standing_limits(control: Control | None) -> tuple[int, int]:
    """Largest batch (messages) and most batches in flight that are asked for, or the defaults."""
    if control is None:
        usual = Limits()
        return usual.largest_batch, usual.most_in_flight_batches
    return control.value["largest_batch"], control.value["most_in_flight_batches"]
