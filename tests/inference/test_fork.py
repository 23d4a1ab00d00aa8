"""Forks, in processes of their own: gRPC in use does not survive one, the client does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from inference import ReplicaConfig

ROOT = Path(__file__).resolve().parents[2]

# What a Celery master or a web server does: it may have used the client before it forks.
SCRIPT = """
import os, sys, threading, time
from inference import ClientConfig, Deadline, ModerationClient, ReplicaConfig
from inference.errors import InferenceError

client = ModerationClient(ClientConfig([ReplicaConfig("a", grpc=sys.argv[1])]))
mode = sys.argv[2]

def judge():
    (row,) = client.classify(["spam"], deadline=Deadline.after(2.0))
    assert row.scores[1] > 0.9, row

failed = []
if mode != "unused":
    judge()
if mode == "busy":
    stop = threading.Event()
    def work():
        while not stop.is_set():
            try:
                judge()
            except InferenceError as error:
                failed.append(error.kind)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        judge()
        grandchild = os.fork()
        if grandchild == 0:
            judge()
            os._exit(0)
        _, status = os.waitpid(grandchild, 0)
        os._exit(os.waitstatus_to_exitcode(status))
    children.append(pid)
for pid in children:
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
judge()
if mode == "busy":
    stop.set()
    for thread in threads:
        thread.join()
assert not failed, failed
client.close()
print("all answered")
"""


@pytest.mark.parametrize("mode", ["unused", "idle", "busy"])
def test_parent_and_children_are_answered_after_a_fork(
    pair: list[ReplicaConfig], mode: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, pair[0].grpc, mode],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "all answered" in done.stdout


# Hooks of before a fork run in the reverse order of their registration: this one is the last.
THREADS_SCRIPT = """
import os, sys
from contextlib import suppress
from pathlib import Path
looks = []
def look():
    names = set()
    for path in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # a thread that ended meanwhile
            names.add(path.read_text().strip())
    looks.append(names)
os.register_at_fork(before=look)
from inference import ClientConfig, Deadline, ModerationClient, ReplicaConfig

client = ModerationClient(ClientConfig([ReplicaConfig("a", grpc=sys.argv[1])]))
for _ in range(30):
    client.classify(["spam"], deadline=Deadline.after(2.0))
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
assert len(looks) == 30
left = {name for name in set().union(*looks) if name.startswith(("event_eng", "grpc", "lifeg"))}
assert not left, left
client.close()
print("none left")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads have names on Linux only")
def test_no_thread_of_grpc_is_there_when_the_process_forks(pair: list[ReplicaConfig]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", THREADS_SCRIPT, pair[0].grpc],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=False,
    )
    assert "none left" in done.stdout, done.stderr
