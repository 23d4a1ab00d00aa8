"""The supervisor, with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from moderation_site.local.errors import StackError
from moderation_site.local.program import Program
from moderation_site.local.supervisor import MARKER, Event, EventKind, Supervisor, end_leftovers
from moderation_site.local.triton import CRASHED
from moderation_site.local.triton_env import PROJECT

STEADY = "READY.write_text(str(os.getpid())); signal.pause()"
ProgramMaker = Callable[..., Program]


@pytest.fixture
def make_program(tmp_path: Path) -> ProgramMaker:
    """`make_program(name, code)`: it is ready when `code` has written the file READY names."""

    def make(name: str, code: str, **details: Any) -> Program:
        ready = tmp_path / f"{name}.ready"
        script = tmp_path / f"{name}.py"
        head = (
            f"import os, pathlib, signal, subprocess, sys\nREADY = pathlib.Path({str(ready)!r})\n"
        )
        script.write_text(head + code, encoding="utf-8")

        async def probe() -> bool:
            return ready.exists()

        return Program(
            name=name,
            argv=[sys.executable, "-I", "-S", str(script)],
            probe=probe,
            before_start=lambda: ready.unlink(missing_ok=True),
            **{"ready_timeout_s": 20.0, **details},
        )

    return make


class Watch:
    """Remembers a supervisor's events and waits for those to come."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = asyncio.Event()

    def report(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()

    def of(self, kind: EventKind) -> list[Event]:
        return [event for event in self.events if event.kind is kind]

    async def until(self, kind: EventKind, count: int = 1) -> list[Event]:
        async with asyncio.timeout(30):
            while len(self.of(kind)) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.of(kind)


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def supervisor(tmp_path: Path, watch: Watch) -> Supervisor:
    return Supervisor(stack_id=tmp_path.name, log_dir=tmp_path, report=watch.report)


async def test_a_stage_waits_until_the_one_before_it_answers(
    supervisor: Supervisor, watch: Watch, make_program: ProgramMaker
) -> None:
    async with supervisor:
        await supervisor.start([make_program("first", STEADY)])
        await supervisor.start([make_program("second", STEADY)])
    seen = [(event.kind, event.name) for event in watch.events]
    assert seen.index((EventKind.READY, "first")) < seen.index((EventKind.STARTING, "second"))


async def test_stages_stop_in_reverse_order(
    supervisor: Supervisor, watch: Watch, make_program: ProgramMaker
) -> None:
    async with supervisor:
        for name in ("store", "worker", "traffic"):
            await supervisor.start([make_program(name, STEADY)])
        processes = [psutil.Process(pid) for pid in supervisor.pids.values()]
    assert [event.name for event in watch.of(EventKind.STOPPED)] == ["traffic", "worker", "store"]
    assert not any(process.is_running() for process in processes)


async def test_a_killed_child_is_started_again_and_said_so(
    supervisor: Supervisor, watch: Watch, make_program: ProgramMaker
) -> None:
    async with supervisor:
        await supervisor.start([make_program("child", STEADY)])
        before = supervisor.pids["child"]
        os.kill(before, signal.SIGKILL)
        await watch.until(EventKind.RESTARTED)
        assert supervisor.pids["child"] != before
    [died] = watch.of(EventKind.DIED)
    assert died.detail == "ended by SIGKILL; starting it again in 0.2 s"


async def test_a_child_that_crashed_and_hangs_is_ended_and_started_again(
    supervisor: Supervisor, watch: Watch, make_program: ProgramMaker, tmp_path: Path
) -> None:
    """As Triton does when the crash holds the allocator's lock: alive, listening, and deaf."""
    once = tmp_path / "once"
    code = (
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})\n"
        f"once = pathlib.Path({str(once)!r})\n"
        "if once.exists(): READY.touch(); signal.pause()\n"
        "once.touch(); print('corrupted: Sig', end='', flush=True); READY.touch()\n"
        "signal.sigwait({signal.SIGUSR1}); print('nal (6) received.', flush=True); signal.pause()"
    )
    async with supervisor:
        await supervisor.start([make_program("triton", code, last_words=CRASHED)])
        before = supervisor.pids["triton"]
        os.kill(before, signal.SIGUSR1)
        await watch.until(EventKind.RESTARTED)
        assert supervisor.pids["triton"] != before
    assert [event.detail for event in watch.of(EventKind.DIED)] == [
        "it crashed and hung for 2 s; ending it",
        "ended by SIGKILL; starting it again in 0.2 s",
    ]


async def test_the_wait_doubles_while_a_child_keeps_dying(
    supervisor: Supervisor, watch: Watch, make_program: ProgramMaker, tmp_path: Path
) -> None:
    once = tmp_path / "once"
    code = (
        f"once = pathlib.Path({str(once)!r})\n"
        "if once.exists(): sys.exit(3)\n"
        "once.touch(); READY.touch(); signal.pause()"
    )
    async with supervisor:
        await supervisor.start([make_program("child", code)])
        os.kill(supervisor.pids["child"], signal.SIGKILL)
        died = await watch.until(EventKind.DIED, 4)
    assert [event.detail.rsplit(" in ")[-1] for event in died[:4]] == [
        "0.2 s",
        "0.4 s",
        "0.8 s",
        "1.6 s",
    ]
    assert "exit code 3" in died[1].detail


async def test_what_a_child_started_ends_with_it(
    supervisor: Supervisor, watch: Watch, make_program: ProgramMaker, tmp_path: Path
) -> None:
    noted = tmp_path / "grandchild"
    code = (
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        f"pathlib.Path({str(noted)!r}).write_text(str(child.pid))\n" + STEADY
    )
    async with supervisor:
        await supervisor.start([make_program("child", code)])
        grandchild = psutil.Process(int(noted.read_text()))
        os.kill(supervisor.pids["child"], signal.SIGKILL)
        await watch.until(EventKind.RESTARTED)
        _, alive = psutil.wait_procs([grandchild], timeout=10)
    assert alive == []


async def test_a_child_that_ends_too_early_fails_the_start_with_its_last_words(
    supervisor: Supervisor, watch: Watch, make_program: ProgramMaker
) -> None:
    with pytest.raises(StackError, match=r"server stopped before .* It said: no such model$"):
        async with supervisor:
            await supervisor.start(
                [make_program("server", "print('loading'); sys.exit('no such model')")]
            )


async def test_a_failed_start_stops_what_runs_already(
    supervisor: Supervisor, watch: Watch, make_program: ProgramMaker
) -> None:
    async with supervisor:
        await supervisor.start([make_program("store", STEADY)])
        store = psutil.Process(supervisor.pids["store"])
        with pytest.raises(StackError):
            await supervisor.start([make_program("web", "sys.exit(1)")])
    assert not store.is_running()


async def test_a_silent_child_fails_the_start(
    supervisor: Supervisor, make_program: ProgramMaker
) -> None:
    silent = make_program("server", "signal.pause()", ready_timeout_s=0.3)
    with pytest.raises(StackError, match="server did not answer within 0 s"):
        async with supervisor:
            await supervisor.start([silent])


async def test_a_child_that_ignores_the_request_to_stop_is_killed(
    supervisor: Supervisor, make_program: ProgramMaker
) -> None:
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + STEADY
    async with supervisor:
        await supervisor.start([make_program("deaf", deaf, stop_timeout_s=0.2)])
        process = psutil.Process(supervisor.pids["deaf"])
    assert not process.is_running()


async def test_a_second_request_to_stop_does_not_wait_for_slow_children(
    supervisor: Supervisor, make_program: ProgramMaker, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    code = (
        f"signal.signal(signal.SIGTERM, lambda *_: pathlib.Path({str(asked)!r}).touch())\n"
        "READY.touch()\n"
        "while True: signal.pause()"
    )
    pids: list[int] = []
    started = asyncio.Event()

    async def serve() -> None:
        async with supervisor:
            await supervisor.start([make_program("slow", code, stop_timeout_s=3600.0)])
            pids.extend(supervisor.pids.values())
            started.set()
            await supervisor.run()

    async with asyncio.timeout(30):
        task = asyncio.create_task(serve())
        await started.wait()
        task.cancel()
        while not asked.exists():  # noqa: ASYNC110 (a file tells nobody)
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
    assert not psutil.pid_exists(pids[0])


async def test_output_is_kept_even_from_a_child_that_is_killed(
    supervisor: Supervisor, watch: Watch, make_program: ProgramMaker, tmp_path: Path
) -> None:
    async with supervisor:
        await supervisor.start([make_program("child", "print('hello', flush=True)\n" + STEADY)])
        os.kill(supervisor.pids["child"], signal.SIGKILL)
        await watch.until(EventKind.RESTARTED)
    assert (tmp_path / "child.log").read_text() == "hello\nhello\n"


async def test_what_a_child_leaves_is_cleared_before_and_after_it(
    supervisor: Supervisor, make_program: ProgramMaker, tmp_path: Path
) -> None:
    region = tmp_path / "region"
    region.touch()
    cleared: list[bool] = []

    def clear() -> None:
        cleared.append(region.exists())
        region.unlink(missing_ok=True)

    code = f"pathlib.Path({str(region)!r}).touch()\n" + STEADY
    program = make_program("child", code)
    program = Program(**{**vars(program), "before_start": clear, "after_stop": clear})
    async with supervisor:
        await supervisor.start([program])
    assert cleared == [True, True]
    assert not region.exists()


SUPERVISING = """
import asyncio, pathlib, sys
from moderation_site.local.program import Program
from moderation_site.local.supervisor import Supervisor

folder = pathlib.Path(sys.argv[1])
code = '''
import pathlib, signal, subprocess, sys
grandchild = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
pathlib.Path(sys.argv[1], "ready").write_text(str(grandchild.pid))
signal.pause()
'''

async def ready():
    return (folder / "ready").exists()

async def main():
    async with Supervisor(
        stack_id="orphans",
        log_dir=folder,
        report=lambda event: None,
        litter=[str(folder / "region_*")],
    ) as it:
        child = [sys.executable, "-c", code, str(folder)]
        await it.start([Program(name="child", argv=child, probe=ready)])
        print(*it.pids.values(), it._warden.pid, (folder / "ready").read_text(), flush=True)
        await it.run()

asyncio.run(main())
"""


def test_nothing_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    region, kept = tmp_path / "region_1", tmp_path / "other"
    region.touch()
    kept.touch()
    with subprocess.Popen(
        [sys.executable, "-c", SUPERVISING, str(tmp_path)],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
    ) as supervising:
        assert supervising.stdout is not None
        pids = [int(pid) for pid in supervising.stdout.readline().split()]
        family = [psutil.Process(pid) for pid in pids]
        supervising.kill()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert len(family) == 3  # child, warden, grandchild
    assert alive == []
    assert region.exists() is False
    assert kept.exists()


def test_only_the_leftovers_of_the_same_stack_are_ended() -> None:
    pause = [sys.executable, "-c", "import signal; print(flush=True); signal.pause()"]

    def start(stack_id: str) -> subprocess.Popen[str]:
        environment = {**os.environ, MARKER: stack_id}
        process = subprocess.Popen(pause, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    with start("stack-one") as own, start("stack-two") as other:
        try:
            assert end_leftovers("stack-one") == 1
            assert not psutil.pid_exists(own.pid)
            assert other.poll() is None
        finally:
            own.kill()
            other.kill()
