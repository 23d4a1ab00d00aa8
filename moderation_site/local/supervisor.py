"""Starts the children, keeps them running, stops them in order and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from moderation_site.local.errors import StackError, sentence_for, sentence_for_output
from moderation_site.local.logs import RotatingLog
from moderation_site.local.program import Program, launch_line

WARDEN = Path(__file__).resolve().with_name("warden.py")
# In the environment of every child, so that a later start finds what a kill -9 left.
MARKER = "CHATWARDEN_STACK"
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.2, 15.0
# A child that lived this long has recovered: its next death starts the backoff anew.
STEADY_AFTER_S = 30.0
# So long may a crashed child take to end by itself.
LAST_WORDS_S = 2.0
LONGEST_LAST_WORDS = 200  # bytes: they may come in two reads
FIRST_POLL_S, LONGEST_POLL_S = 0.02, 0.25


class EventKind(StrEnum):
    STARTING = "starting"
    READY = "ready"
    DIED = "died"
    RESTARTED = "restarted"
    STOPPED = "stopped"
    UNLOGGED = "unlogged"


@dataclass(frozen=True)
class Event:
    """Something a person watching the stack wants to know."""

    kind: EventKind
    name: str
    detail: str = ""


Report = Callable[[Event], None]


class ChildDiedError(StackError):
    """A child ended before it answered."""


class ChildSilentError(StackError):
    """A child runs but does not answer in time."""


@dataclass
class Child:
    program: Program
    log: RotatingLog
    process: asyncio.subprocess.Process | None = None
    started_at_s: float = 0.0
    is_logged: bool = True
    is_buried: bool = False
    has_crashed: bool = False
    tail: bytes = b""  # of its output, while it has last words to listen for
    reading: int | None = None  # the end of the pipe that carries its output
    keeper: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.returncode is None


class Supervisor:
    """Children in stages: a stage starts when the one before it answers, and stops before it.

    Everything runs on one event loop in one thread, because the parent-death signal of a child
    comes from the *thread* that made it.
    """

    def __init__(
        self, *, stack_id: str, log_dir: Path, report: Report, litter: Sequence[str] = ()
    ) -> None:
        """Args:
        litter: Patterns of what to remove when the supervisor is killed with -9.
        """
        self._litter = litter
        self._stack_id = stack_id
        self._log_dir = log_dir
        self._report = report
        self._stages: list[list[Child]] = []
        self._warden: subprocess.Popen[str] | None = None
        self._hurry = asyncio.Event()
        self.on_restart: Callable[[], None] = lambda: None

    async def __aenter__(self) -> Self:
        self._warden = subprocess.Popen(  # noqa: S603, ASYNC220 (our own script; a fork, not a wait)
            [sys.executable, "-I", "-S", str(WARDEN), *self._litter],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            process_group=0,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Shielded: a second Ctrl-C hurries the stop, it does not abandon it.
        stopping = asyncio.ensure_future(self._stop())
        while not stopping.done():
            try:
                await asyncio.shield(stopping)
            except asyncio.CancelledError:
                self._hurry.set()

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the running children by name."""
        return {
            child.program.name: child.process.pid
            for stage in self._stages
            for child in stage
            if child.process is not None and child.is_running
        }

    async def start(self, programs: Iterable[Program]) -> None:
        """Starts one stage together and returns when each of its children answers.

        Raises:
            StackError: One of them ended or stayed silent; the caller leaves the context, which
                stops the rest.
        """
        stage = [Child(p, RotatingLog(self._log_dir / f"{p.name}.log")) for p in programs]
        self._stages.append(stage)
        outcomes = await asyncio.gather(
            *(self._start_first_time(child) for child in stage), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        for child in stage:
            child.keeper = asyncio.create_task(self._keep_running(child))

    async def run(self) -> None:
        """Keeps the children running until the calling task is cancelled."""
        keepers = [c.keeper for stage in self._stages for c in stage if c.keeper is not None]
        await asyncio.gather(*keepers)

    async def _start_first_time(self, child: Child) -> None:
        self._report(Event(EventKind.STARTING, child.program.name))
        await self._spawn(child)
        await self._wait_until_ready(child)
        self._report(Event(EventKind.READY, child.program.name))

    async def _spawn(self, child: Child) -> None:
        program = child.program
        program.before_start()
        reading, writing = os.pipe()
        try:
            child.process = await asyncio.create_subprocess_exec(
                *launch_line(program.argv, program.run_as, program.orphan_signal),
                stdin=subprocess.DEVNULL,
                # A pipe of our own: asyncio's would make wait() hang for as long as a
                # grandchild holds it open.
                stdout=writing,
                stderr=writing,
                env={**os.environ, **program.env, MARKER: self._stack_id},
                process_group=0,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        child.started_at_s = asyncio.get_running_loop().time()
        self._tell_warden(f"+ {child.process.pid} {int(program.orphan_signal)}")
        child.is_buried = child.has_crashed = False
        self._stop_reading(child)
        os.set_blocking(reading, False)
        child.reading = reading
        asyncio.get_running_loop().add_reader(reading, self._read, child)

    def _read(self, child: Child) -> None:
        assert child.reading is not None
        try:
            data = os.read(child.reading, 65536)
        except BlockingIOError:
            return
        if data:
            self._write_log(child, data)
            self._listen(child, data)
        else:
            self._stop_reading(child)

    def _listen(self, child: Child, data: bytes) -> None:
        last_words = child.program.last_words
        if last_words is None or child.has_crashed:
            return
        heard = child.tail + data
        child.tail = heard[-LONGEST_LAST_WORDS:]
        if last_words.search(heard):
            child.has_crashed, child.tail = True, b""
            assert child.process is not None
            loop = asyncio.get_running_loop()
            loop.call_later(LAST_WORDS_S, self._end_crashed, child, child.process.pid)

    def _end_crashed(self, child: Child, pid: int) -> None:
        """Its keeper starts it again."""
        if child.is_running and child.process is not None and child.process.pid == pid:
            detail = f"it crashed and hung for {LAST_WORDS_S:.0f} s; ending it"
            self._report(Event(EventKind.DIED, child.program.name, detail))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    def _stop_reading(self, child: Child) -> None:
        if child.reading is not None:
            asyncio.get_running_loop().remove_reader(child.reading)
            os.close(child.reading)
            child.reading = None

    def _write_log(self, child: Child, data: bytes) -> None:
        """The child must be read even when its words can't be kept, or it would block."""
        try:
            child.log.write(data)
            child.is_logged = True
        except OSError as error:
            if child.is_logged:
                sentence = sentence_for(error, child.log.path)
                self._report(Event(EventKind.UNLOGGED, child.program.name, sentence))
            child.is_logged = False

    async def _wait_until_ready(self, child: Child) -> None:
        program, loop = child.program, asyncio.get_running_loop()
        deadline_s, poll_s = loop.time() + program.ready_timeout_s, FIRST_POLL_S
        while not await program.probe():
            if not child.is_running:
                raise ChildDiedError(self._explain(child, "stopped before it was ready"))
            if loop.time() > deadline_s:
                silent = f"did not answer within {program.ready_timeout_s:.0f} s"
                raise ChildSilentError(self._explain(child, silent))
            await asyncio.sleep(poll_s)
            poll_s = min(poll_s * 1.5, LONGEST_POLL_S)

    def _explain(self, child: Child, what: str) -> str:
        lines = child.log.tail()
        known = sentence_for_output("\n".join(lines[-20:]), self._log_dir.parent)
        if known is not None:
            return known
        said = f" It said: {lines[-1][:300]}" if lines else ""
        return f"{child.program.name} {what}; its log is {child.log.path}.{said}"

    async def _keep_running(self, child: Child) -> None:
        loop = asyncio.get_running_loop()
        backoff_s = FIRST_BACKOFF_S
        while True:
            assert child.process is not None
            code = await child.process.wait()
            self._bury(child)
            if loop.time() - child.started_at_s > STEADY_AFTER_S:
                backoff_s = FIRST_BACKOFF_S
            why = f"{describe_exit(code)}; starting it again in {backoff_s:.1f} s"
            self._report(Event(EventKind.DIED, child.program.name, why))
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, LONGEST_BACKOFF_S)
            await self._start_again(child)

    async def _start_again(self, child: Child) -> None:
        try:
            await self._spawn(child)
            await self._wait_until_ready(child)
            self.on_restart()
        except ChildDiedError:
            return  # the caller sees the exit
        except ChildSilentError as error:
            self._report(Event(EventKind.DIED, child.program.name, str(error)))
            await self._kill(child)
        except OSError as error:  # a full disk, say
            sentence = sentence_for(error, self._log_dir.parent)
            self._report(Event(EventKind.DIED, child.program.name, sentence))
        else:
            self._report(Event(EventKind.RESTARTED, child.program.name))

    async def _stop(self) -> None:
        keepers = [c.keeper for stage in self._stages for c in stage if c.keeper is not None]
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        for stage in reversed(self._stages):
            await asyncio.gather(*(self._stop_child(child) for child in stage))
        assert self._warden is not None
        assert self._warden.stdin is not None
        self._warden.stdin.close()
        self._warden.wait()

    async def _stop_child(self, child: Child) -> None:
        if child.process is not None:
            if child.is_running:
                child.process.send_signal(child.program.stop_signal)
                await self._wait_for_exit(child)
            self._bury(child)
            child.program.after_stop()
            self._report(Event(EventKind.STOPPED, child.program.name))
        self._read_rest(child)
        child.log.close()

    def _read_rest(self, child: Child) -> None:
        if child.reading is not None:
            self._read(child)
        self._stop_reading(child)

    async def _wait_for_exit(self, child: Child) -> None:
        assert child.process is not None
        exit_ = asyncio.ensure_future(child.process.wait())
        hurry = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait(
            {exit_, hurry},
            timeout=child.program.stop_timeout_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        hurry.cancel()
        if not exit_.done():
            await self._kill(child)
        await exit_

    async def _kill(self, child: Child) -> None:
        assert child.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.process.pid, signal.SIGKILL)
        await child.process.wait()

    def _bury(self, child: Child) -> None:
        """Ends what a dead child leaves in its process group, and lets the warden forget it."""
        assert child.process is not None
        if child.is_buried:
            return  # by now the number may be somebody else's
        child.is_buried = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.process.pid, signal.SIGKILL)
        self._tell_warden(f"- {child.process.pid}")

    def _tell_warden(self, line: str) -> None:
        assert self._warden is not None
        assert self._warden.stdin is not None
        self._warden.stdin.write(line + "\n")
        self._warden.stdin.flush()


def describe_exit(code: int) -> str:
    """An exit code in words: `ended by SIGKILL`, `exit code 3`."""
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"exit code {code}"


def end_leftovers(stack_id: str) -> int:
    """Ends the processes that a killed run of the same stack left, and returns how many."""
    leftovers = [p for p in psutil.process_iter() if _belongs_to(p, stack_id)]
    for process in leftovers:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(leftovers, timeout=10)
    return len(leftovers)


def _belongs_to(process: psutil.Process, stack_id: str) -> bool:
    try:
        return bool(process.environ().get(MARKER) == stack_id) and process.pid != os.getpid()
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return False
