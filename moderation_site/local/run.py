"""Runs a stack's coroutine until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

import psutil


def run_until_stopped(work: Coroutine[Any, Any, int], *, stop_with: int | None = None) -> int:
    """Runs `work`; SIGINT, SIGTERM, SIGHUP or the end of process `stop_with` cancel it.

    Returns:
        The exit code of `work`; 0 when it was cancelled, a stop on request is no failure.
    """
    return asyncio.run(_run(work, stop_with))


async def _run(work: Coroutine[Any, Any, int], stop_with: int | None) -> int:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    watch = asyncio.ensure_future(_cancel_at_end_of(stop_with, task))
    try:
        return await task
    except asyncio.CancelledError:
        return 0
    finally:
        watch.cancel()


async def _cancel_at_end_of(pid: int | None, task: asyncio.Future[int]) -> None:
    if pid is None:
        return
    try:
        process = psutil.Process(pid)
        # Not a child of ours, so the kernel does not tell us.
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
    except psutil.NoSuchProcess:
        pass
    task.cancel()
