"""Five hundred viewers of the operator's page while verdicts pour in: does anybody notice?

In one run: the pipeline as fast as it can without viewers; then with them, at a fixed rate for the
lag from commit to frame, and as fast as it can; then without them again. Some viewers stop reading
on the way and have to be dropped. At last Redis and then the web process are killed under them.

- `lag_p99_ms`: from the commit of the *oldest* verdict in a frame to the frame being received, over
  all frames and viewers. Most verdicts are younger. A quarter of a second of it is the pace of the
  frames. `lag_until_sent_p99_ms` is the part until the web process had made the frame,
  `lag_since_sent_p99_ms` the rest: writing it to all, the kernel, and the viewers' process getting
  round to it. `viewers_late_p99_ms` is by how much that process is late for a timer of its own, on
  a machine that others use too: what no product can help.
- `throughput_ratio`: verdicts a second with viewers over those without, each by the processor time
  that was left to the product. The viewers are one process on the same cores, where in life they
  are on other machines, so what that process spent is taken out of what the machine had.
  `throughput_ratio_uncorrected` is the plain quotient, `viewer_cores` what they spent.
- `throughput_ratio_by_cpu`: what is left of the machine's processors for all else when the web
  process has spent what viewers cost it more at the fixed rate. Where others use the machine too,
  rates swing by a half from one burst to the next, and this hardly does.
- `cpu_us_per_frame_and_viewer`: what the web process spent more than without viewers, over all
  frames to all viewers, the making of the frames included.
- `bytes_per_viewer`: what the web process's memory grew by, divided by the viewers.
- `lost_frames_undetected`: viewers who are connected and saw no gap, and yet not exactly the
  verdicts that the database has, at the fixed rate and again in both restarts.
- `web_cores`: the web process's processor time at the fixed rate, without viewers and with them.
- `tried_peak`, `opened_peak`: the most tries to connect, and the most that came about, in any
  100 ms after the web process was killed.
"""

from __future__ import annotations

import argparse
import contextlib
import http.cookiejar
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.request import HTTPCookieProcessor

import psutil
import psycopg

from benchmarks.growth import signed_in
from benchmarks.pipeline import Sender, bodies, submit_all, warm_up
from benchmarks.stack import PROJECT, CpuMeter, read_ready, running_stack
from benchmarks.texts import chat_texts

BATCH = 250
SENDERS = 4
STALLING = 3
NOTHING_MORE_S = 5.0
BACK_WITHIN_S = 60.0
LOOK_EVERY_S = 0.1
RESTART_RATE = 1_000
HERD_WINDOW_S = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--viewers", type=int, default=500, help="(%(default)s)")
    parser.add_argument("--rate", type=int, default=5_000, help="verdicts a second (%(default)s)")
    parser.add_argument("--seconds", type=float, default=12.0, help="at that rate (%(default)s)")
    parser.add_argument(
        "--burst", type=int, default=25_000, help="messages as fast as they go (%(default)s)"
    )


def run(options: dict[str, Any]) -> dict[str, Any]:
    count, rate, burst = options["viewers"], options["rate"], options["burst"]
    texts = chat_texts(max(burst, int(rate * options["seconds"])))
    with running_stack(options["stack"]) as ready, _crowd(ready) as crowd:
        warm_up(ready, texts[: 20 * BATCH], BATCH)
        alone = [_burst(ready, texts[:burst])]
        unwatched_cores = _paced_alone(ready, texts, rate=rate, for_s=options["seconds"] / 2)
        memory = _web_bytes(ready)
        connect_s = crowd.connect(count)
        paced = _paced(ready, crowd, texts, rate=rate, for_s=options["seconds"])
        memory = _web_bytes(ready) - memory
        watched = [_watched_burst(ready, crowd, texts[:burst]) for _ in range(2)]
        crowd.ask("leave")
        alone.append(_burst(ready, texts[:burst]))
        crowd.connect(count)
        restarts = _restarts(ready, crowd, texts)
    cores = psutil.cpu_count() or 1
    viewer_cores = _mean([each["viewer_cores"] for each in watched])
    plain = _mean([each["rate"] for each in watched]) / _mean(alone)
    return {
        "viewers": count,
        "verdicts_per_s": round(paced["verdicts_per_s"]),
        "lag_p99_ms": round(paced["lag"]["p99"], 1),
        "throughput_ratio": round(plain * cores / (cores - viewer_cores), 3),
        "bytes_per_viewer": round(memory / count),
        "lost_frames_undetected": paced["undetected"] + restarts["undetected"],
        "throughput_ratio_by_cpu": round(1 - (paced["web_cores"] - unwatched_cores) / cores, 3),
        "throughput_ratio_uncorrected": round(plain, 3),
        "viewer_cores": round(viewer_cores, 3),
        "web_cores": {"alone": round(unwatched_cores, 3), "watched": round(paced["web_cores"], 3)},
        "cores": cores,
        "lag_p50_ms": round(paced["lag"]["p50"], 1),
        "lag_until_sent_p99_ms": round(paced["until_sent"]["p99"], 1),
        "lag_since_sent_p99_ms": round(paced["since_sent"]["p99"], 1),
        "viewers_late_p99_ms": round(paced["late"]["p99"], 1),
        "cpu_us_per_frame_and_viewer": round(
            (paced["web_cores"] - unwatched_cores) / paced["frames_per_s"] * 1e6, 1
        ),
        "load_average": round(os.getloadavg()[0], 1),
        "frames_per_s": round(paced["frames_per_s"]),
        "megabytes_per_s": round(paced["megabytes_per_s"], 1),
        "frames_differing": paced["differing"],
        "stalled_viewers": STALLING,
        "stalled_dropped": paced["dropped"],
        "connect_s": round(connect_s, 1),
        "alone_per_s": [round(each) for each in alone],
        "watched_per_s": [round(each["rate"]) for each in watched],
        "redis_restart": restarts["redis"],
        "web_restart": restarts["web"],
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


# ---------------------------------------------------------------- the viewers' process


class Crowd:
    """The process in which all viewers live, and a line to it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **more}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def report(self, *, reset: bool = False) -> dict[str, Any]:
        return self.ask("report", reset=reset)

    def connect(self, count: int) -> float:
        """Returns how many seconds it took; the starting hub's gap is behind them then."""
        started_s = time.monotonic()
        self.ask("connect", count=count, stalling=STALLING)
        connect_s = time.monotonic() - started_s
        time.sleep(2.5)  # a beacon of every publisher
        self.report(reset=True)
        return connect_s


@contextlib.contextmanager
def _crowd(ready: dict[str, Any]) -> Iterator[Crowd]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.fanout_viewers", ready["url"]],
        cwd=PROJECT,
        env={**os.environ, "FANOUT_COOKIE": cookie(ready)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Crowd(process)
    finally:
        process.kill()
        process.wait()


def cookie(ready: dict[str, Any]) -> str:
    """What a browser of the signed-in admin sends."""
    for handler in signed_in(ready, "admin").handlers:
        if isinstance(handler, HTTPCookieProcessor):
            jar: http.cookiejar.CookieJar = handler.cookiejar
            return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)
    raise SystemExit("no cookies after signing in")


def _web_bytes(ready: dict[str, Any]) -> int:
    web = psutil.Process(read_ready(ready["ready_file"])["pids"]["web"])
    return sum(each.memory_info().rss for each in (web, *web.children(recursive=True)))


# ---------------------------------------------------------------- phases


def _burst(ready: dict[str, Any], texts: Sequence[str]) -> float:
    return submit_all(ready, texts, BATCH).messages_per_s


def _watched_burst(ready: dict[str, Any], crowd: Crowd, texts: Sequence[str]) -> dict[str, float]:
    before = _cpu_s(crowd.pid)
    started_s = time.monotonic()
    rate = _burst(ready, texts)
    elapsed_s = time.monotonic() - started_s
    return {"rate": rate, "viewer_cores": (_cpu_s(crowd.pid) - before) / elapsed_s}


def _cpu_s(pid: int) -> float:
    """With what the kernel does for it: receiving is mostly that."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _paced_alone(ready: dict[str, Any], texts: Sequence[str], *, rate: int, for_s: float) -> float:
    """What the web process spends at that rate while nobody looks."""
    meter, started_s = CpuMeter(ready["pids"]), time.monotonic()
    _send(ready, texts[: int(rate * for_s)], rate)
    return meter.spent_s()["web"] / (time.monotonic() - started_s)


def _paced(
    ready: dict[str, Any], crowd: Crowd, texts: Sequence[str], *, rate: int, for_s: float
) -> dict[str, Any]:
    """At a fixed rate, while some viewers stop reading."""
    with psycopg.connect(ready["database_url"], autocommit=True) as database:
        _settle(database, crowd, None)
        crowd.report(reset=True)
        before = _verdicts(database)
        crowd.ask("stall")
        meter, started_s = CpuMeter(ready["pids"]), time.monotonic()
        _send(ready, texts[: int(rate * for_s)], rate)
        elapsed_s = time.monotonic() - started_s
        web_s = meter.spent_s()["web"]
        told = crowd.report()
        stored = _verdicts(database) - before
        crowd.ask("go on")
        truth = _settle(database, crowd, before)
        after = crowd.report(reset=True)
    return {
        "verdicts_per_s": stored / elapsed_s,
        "web_cores": web_s / elapsed_s,
        **{part: told[part] for part in ("lag", "until_sent", "since_sent", "late")},
        "frames_per_s": told["frames"] / elapsed_s,
        "megabytes_per_s": told["bytes"] / elapsed_s / 1e6,
        "differing": after["differing"],
        "dropped": after["closes"].get("4408", 0),
        "undetected": _undetected(after, truth),
    }


def _send(ready: dict[str, Any], texts: Sequence[str], rate: int) -> None:
    """At that many messages a second, over a few connections."""
    senders = [Sender(ready) for _ in range(SENDERS)]
    started_s = time.monotonic()

    def post(body: bytes) -> None:
        sender = senders.pop()
        try:
            sender.post(body)
        finally:
            senders.append(sender)

    with ThreadPoolExecutor(SENDERS) as pool:
        sent = []
        for number, body in enumerate(bodies(texts, BATCH, uuid.uuid4().hex[:8])):
            time.sleep(max(0.0, started_s + number * BATCH / rate - time.monotonic()))
            sent.append(pool.submit(post, body))
        for one in sent:
            one.result()


def _verdicts(database: psycopg.Connection[Any]) -> int:
    return _number(database, "SELECT count(*) FROM scoring_verdict")


def _number(database: psycopg.Connection[Any], query: Any) -> int:
    row = database.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def _settle(database: psycopg.Connection[Any], crowd: Crowd, before: int | None) -> int:
    """Until all is judged and, when asked, some viewer has heard of all of it, or nobody hears of
    anything more; gives the truth."""
    while _number(database, "SELECT count(*) FROM chat_chunk"):
        time.sleep(LOOK_EVERY_S)
    truth = _verdicts(database) - (before or 0)
    heard, heard_s = -1, time.monotonic()
    while before is not None and time.monotonic() - heard_s < NOTHING_MORE_S:
        most = max(crowd.report()["verdicts"])
        if most >= truth:
            break
        if most != heard:
            heard, heard_s = most, time.monotonic()
        time.sleep(LOOK_EVERY_S)
    time.sleep(2.5)  # what is late, and a beacon that tells of what was lost
    return truth


def _undetected(told: dict[str, Any], truth: int) -> int:
    """Viewers who believe that they have seen everything, and have not."""
    each = zip(told["verdicts"], told["gaps"], told["open"], strict=True)
    return sum(is_open and not gaps and seen != truth for seen, gaps, is_open in each)


# ---------------------------------------------------------------- restarts


def _restarts(ready: dict[str, Any], crowd: Crowd, texts: Sequence[str]) -> dict[str, Any]:
    with psycopg.connect(ready["database_url"], autocommit=True) as database:
        redis = _redis_restart(ready, crowd, database, texts)
        web = _web_restart(ready, crowd, database, texts)
    return {
        "undetected": redis.pop("undetected") + web.pop("undetected"),
        "redis": redis,
        "web": web,
    }


def _kill(ready: dict[str, Any], name: str) -> int:
    pid = int(read_ready(ready["ready_file"])["pids"][name])
    os.kill(pid, signal.SIGKILL)
    return pid


def _redis_restart(
    ready: dict[str, Any], crowd: Crowd, database: psycopg.Connection[Any], texts: Sequence[str]
) -> dict[str, Any]:
    """Under load: no viewer's line breaks, and none believes that it missed nothing."""
    crowd.report(reset=True)
    before = _verdicts(database)
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(_send, ready, texts[: RESTART_RATE * 6], RESTART_RATE)
        time.sleep(2)
        _kill(ready, "redis")
        sending.result()
    truth = _settle(database, crowd, before)
    told = crowd.report(reset=True)
    return {
        "undetected": _undetected(told, truth),
        "viewers_who_saw_a_gap": sum(gaps > 0 for gaps in told["gaps"]),
        "connections_lost": sum(told["closes"].values()),
    }


def _web_restart(
    ready: dict[str, Any], crowd: Crowd, database: psycopg.Connection[Any], texts: Sequence[str]
) -> dict[str, Any]:
    """All come back by themselves, and not at once."""
    count = len(crowd.report(reset=True)["gaps"])
    before = _verdicts(database)
    killed_s = time.monotonic()
    _kill(ready, "web")
    while crowd.report()["connected"] == count:
        time.sleep(LOOK_EVERY_S)
    while crowd.report()["connected"] < count:
        if time.monotonic() - killed_s > BACK_WITHIN_S:
            break
        time.sleep(LOOK_EVERY_S)
    back_s = time.monotonic() - killed_s
    _send(ready, texts[: RESTART_RATE * 2], RESTART_RATE)
    truth = _settle(database, crowd, before)
    told = crowd.report(reset=True)
    return {
        "undetected": _undetected(told, truth),
        "viewers_back": told["connected"],
        "all_back_s": round(back_s, 1),
        "tried_peak": _peak(told["tried_at_s"], HERD_WINDOW_S),
        "opened_peak": _peak(told["opened_at_s"], HERD_WINDOW_S),
    }


def _peak(at_s: Sequence[float], window_s: float) -> int:
    """The most instants in any window of that length."""
    ordered, first, most = sorted(at_s), 0, 0
    for last, instant in enumerate(ordered):
        while instant - ordered[first] > window_s:
            first += 1
        most = max(most, last - first + 1)
    return most
