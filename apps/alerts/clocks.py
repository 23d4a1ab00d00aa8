"""Comparing each process's clock with the database's, which gives messages their times."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

from django.db import connection
from django.db.models import Max, Min
from django.db.models.functions import Now
from django.utils import timezone

from apps.alerts.models import ClockReading
from apps.scoring.measuring import process_name

# A reading older than this says nothing about now.
KEPT_FOR = timedelta(minutes=2)
READ_EVERY_S = 10.0

_lock = threading.Lock()
_read_at_s: dict[str, float] = {}


def read_clock(role: str) -> None:
    """Write down this process's reading, every `READ_EVERY_S` at most."""
    process = process_name(role)
    now_s = time.monotonic()
    with _lock:
        if now_s - _read_at_s.get(process, float("-inf")) < READ_EVERY_S:
            return
        _read_at_s[process] = now_s
    write_reading(process, measure_ahead_s())


def measure_ahead_s() -> float:
    """How far this clock is ahead of the database's, give or take half the way there and back."""
    with connection.cursor() as cursor:
        before = timezone.now()
        cursor.execute("SELECT clock_timestamp()")
        after = timezone.now()
        (theirs,) = cursor.fetchone()
    difference: timedelta = before + (after - before) / 2 - theirs
    return difference.total_seconds()


def write_reading(process: str, ahead_s: float) -> None:
    """One row a process."""
    ClockReading.objects.update_or_create(
        process=process, defaults={"ahead_s": ahead_s, "at": Now()}
    )


def worst_skew_s() -> float | None:
    """The largest difference to the database's clock among processes seen lately; None if none."""
    since = timezone.now() - KEPT_FOR
    ClockReading.objects.filter(at__lt=Now() - 10 * KEPT_FOR).delete()
    found = ClockReading.objects.filter(at__gt=since).aggregate(
        most=Max("ahead_s"), least=Min("ahead_s")
    )
    if found["most"] is None:
        return None
    return max(abs(float(found["most"])), abs(float(found["least"])))
