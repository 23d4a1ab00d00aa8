"""Carrying out what operators want, in one worker: each second, and before its first claim.

Draining, ejection and forced breakers are compared with how things stand, not only with the last
version carried out: a replica that a name server took away and gave back starts out as new.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from apps.scoring.controls import BreakerWish, Claiming, Judging, Standing, standing_limits
from apps.scoring.models import Control, ControlKind
from apps.scoring.pipeline import Pipeline
from inference import BreakerState, ModerationClient, ReplicaState, ReplicaStatus
from inference.errors import NoReplicaError

log = logging.getLogger(__name__)

# The reasons that the client gives: an ejection that was asked for.
_EJECTED_BECAUSE = "by hand"
# Its name server no longer names it: there is nothing left to put aside.
_REMOVED_BECAUSE = "removed"


class ControlApplier:
    """One process's part. Safe for several threads."""

    def __init__(self, client: ModerationClient, pipeline: Pipeline) -> None:
        self._client = client
        self._pipeline = pipeline
        self._lock = threading.Lock()
        self._applied: dict[str, int] = {}
        self.has_read = False

    def apply(self) -> Mapping[str, int]:
        """Read what is wanted and bring it about.

        Returns:
            The version carried out, by the control's key.

        Raises:
            django.db.DatabaseError: the database is away; all stays as it was.
        """
        with self._lock:
            states = {state.name: state for state in self._client.replica_states()}
            for control in Control.objects.exclude(kind=ControlKind.MODEL):
                self._carry_out(control, states.get(control.target))
            self.has_read = True
            return dict(self._applied)

    def _carry_out(self, control: Control, replica: ReplicaState | None) -> None:
        is_new = self._applied.get(control.key) != control.version
        try:
            self._act(control, replica, is_new=is_new)
        except NoReplicaError:
            # Not ours, or gone: the console says in how many workers it is not carried out.
            self._applied.pop(control.key, None)
            return
        self._applied[control.key] = control.version
        if is_new:
            log.info("Carried out %s, version %d", control.key, control.version)

    def _act(self, control: Control, replica: ReplicaState | None, *, is_new: bool) -> None:
        if control.kind == ControlKind.CLAIMING:
            hold = self._pipeline.held
            hold.set() if control.value == Claiming.PAUSED else hold.clear()
        elif control.kind == ControlKind.JUDGING:
            degraded = self._pipeline.degraded
            degraded.set() if control.value == Judging.RULES else degraded.clear()
        elif control.kind == ControlKind.LIMITS:
            batch, in_flight = standing_limits(control)
            self._pipeline.pacer.limit(largest_batch=batch, most_in_flight_batches=in_flight)
        elif replica is None:
            raise NoReplicaError(f"no replica is called {control.target}")
        elif control.kind == ControlKind.REPLICA:
            self._stand(replica, Standing(control.value), is_new=is_new)
        elif control.kind == ControlKind.BREAKER:
            self._hold_breaker(replica, BreakerWish(control.value), is_new=is_new)

    def _stand(self, replica: ReplicaState, wanted: Standing, *, is_new: bool) -> None:
        if wanted == Standing.SERVING:
            if is_new and replica.state in {ReplicaStatus.DRAINING, ReplicaStatus.EJECTED}:
                self._client.readmit(replica.name)
        elif wanted != _standing(replica) and replica.reason != _REMOVED_BECAUSE:
            # One does not undo the other: from drained to ejected it goes by way of neither.
            self._client.readmit(replica.name)
            put_aside = self._client.drain if wanted == Standing.DRAINING else self._client.eject
            put_aside(replica.name)

    def _hold_breaker(self, replica: ReplicaState, wanted: BreakerWish, *, is_new: bool) -> None:
        if wanted == BreakerWish.AUTO:
            if is_new and replica.breaker != BreakerState.CLOSED:
                self._client.reset_breaker(replica.name)
        elif replica.breaker != wanted.value:
            self._client.force_breaker(replica.name, BreakerState(wanted.value))


def _standing(replica: ReplicaState) -> Standing:
    """As far as operators are concerned: an ejection of the client's own is not theirs."""
    if replica.state == ReplicaStatus.DRAINING:
        return Standing.DRAINING
    return Standing.EJECTED if replica.reason == _EJECTED_BECAUSE else Standing.SERVING
