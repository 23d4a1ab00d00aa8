"""A web process's sign of life: a sample a second, with how many browsers watch."""

from __future__ import annotations

import asyncio
import logging
import time

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.utils import timezone

from apps.core import realtime
from apps.scoring.measuring import memory_mb, process_name
from apps.scoring.samples import Gauges, Sample, write_sample

log = logging.getLogger(__name__)

BEAT_EVERY_S = 1.0
ROLE = "web"


class Heartbeat:
    """Beats from `start` to `stop`, in the running event loop."""

    def __init__(self) -> None:
        self._process = process_name(ROLE)
        self._started_s = time.time()
        self._task: asyncio.Task[None] | None = None
        self._is_failing = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="web-heartbeat")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.to_thread(self._beat, realtime.viewers_here())
            await asyncio.sleep(BEAT_EVERY_S)

    def _beat(self, viewers: int) -> None:
        gauges = Gauges(
            viewers=viewers,
            memory_mb=memory_mb(),
            version=settings.APP_VERSION,
            started_s=self._started_s,
        )
        try:
            write_sample(Sample(timezone.now(), self._process, ROLE, gauges=gauges))
            self._is_failing = False
        except DatabaseError as error:
            if not self._is_failing:
                log.warning("The web process can't say that it lives: %s", type(error).__name__)
            self._is_failing = True
        finally:
            close_old_connections()
