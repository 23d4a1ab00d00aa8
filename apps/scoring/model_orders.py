"""Loading and unloading models: one process does it for all, on every replica.

Unlike the other wishes this is done once, not by every worker: loading a model again restarts it.
Several workers may look at once; who has the lock works, the others leave it. Who dies at it leaves
it undone, and the next look does it again: loading twice harms nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.models import F

from apps.scoring.models import Control, ControlKind, ModelWish
from inference import InferenceError, ModerationClient

log = logging.getLogger(__name__)

# Session locks of ours have two numbers: what for, and which.
_LOCK = 7_301


def carry_out_orders(client: ModerationClient) -> int:
    """Load and unload what is wanted and not done yet.

    Returns:
        How many wishes were carried out or failed; both are written into their rows.
    """
    waiting = Control.objects.filter(kind=ControlKind.MODEL, done_version__lt=F("version"))
    return sum(_carry_out(client, control.pk) for control in waiting.order_by("changed_at"))


def _carry_out(client: ModerationClient, control_id: int) -> bool:
    with _only_one(control_id) as is_mine:
        if not is_mine:
            return False
        # Read under the lock: another may have done it since, or the wish may be a newer one.
        control = Control.objects.get(pk=control_id)
        if control.done_version >= control.version:
            return False
        failure = _act(client, control.target, ModelWish(control.value))
        # A wish that came meanwhile has a higher version, and its turn next.
        Control.objects.filter(pk=control_id).update(done_version=control.version, failure=failure)
        log.info("Model %s: %s %s", control.target, control.value, failure or "done")
        return True


def _act(client: ModerationClient, model: str, wish: ModelWish) -> str:
    """Empty when every replica did it, else the kind of what went wrong."""
    try:
        if wish == ModelWish.LOADED:
            client.load_model(model)
        else:
            client.unload_model(model)
        # So that the console shows it with the next sample.
        client.check_health()
    except InferenceError as error:
        return error.kind[:200]
    return ""


@contextmanager
def _only_one(control_id: int) -> Iterator[bool]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [_LOCK, control_id])
        (is_mine,) = cursor.fetchone()
        try:
            yield bool(is_mine)
        finally:
            if is_mine:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [_LOCK, control_id])
