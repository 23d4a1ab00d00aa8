"""How long each stage takes, in sketches that processes and replicas can merge.

`LatencySketch` is a histogram over logarithmic buckets with DDSketch's mapping: a quantile it
reports is within 1 % of the true value, whatever the distribution, and merging two sketches is an
addition. The libraries were measured first, on one core (100,000 log-normal values):

| | one add, us | bulk add, us a value | bytes | error |
|---|---|---|---|---|
| ddsketch 3, 1 % | 0.58 | none; by weights 0.14-0.78 | 5,100, zipped 1,000 | <= 1 % of the value |
| datasketches 5 KLL 200 | 0.13 | 0.03 | 4,800 | of the rank: p99 was 15 % off, p99.9 55 % |
| datasketches 5 REQ 12 | 0.88 | 0.05 | 6,200 | of the rank |
| datasketches 5 t-digest 100 | 0.17 | 0.08 | 2,400 | none stated: p90 was 7 % off |
| this one, 1 % | 0.17 | 0.01 (256: 0.06) | 930 | <= 1 % of the value |

DDSketch's guarantee is the one latencies need. Its Python implementation is passed over because
it takes one value at a time, lets a single outlier grow its store without bound (69,120 bins for
1e-300 and 1e300), drops sum, minimum and maximum on the wire and needs 0.5 ms to read one back.
The tests hold this one to the same bound, and to ddsketch's own answers.
"""

import json
import math
import struct
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

__all__ = [
    "RELATIVE_ERROR",
    "LatencySketch",
    "Series",
    "Snapshot",
    "Stage",
    "StageStats",
    "merge_snapshots",
]

RELATIVE_ERROR = 0.01
"""A reported quantile differs from the true one by at most this share of it."""

SMALLEST_MS = 1e-3
"""Anything faster than a microsecond counts as up to a microsecond."""

LARGEST_MS = 1e7
"""Anything slower than this (2.8 hours) lands in the last bucket."""

_GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_PER_LOG = 1 / math.log(_GAMMA)
_OFFSET = math.log(SMALLEST_MS) * _PER_LOG
_BUCKETS = math.ceil(math.log(LARGEST_MS) * _PER_LOG - _OFFSET) + 2
_BUFFERED = 1024  # one NumPy pass over this many values costs less than 0.1 us a value

_WIRE_VERSION = 1
_HEADER = struct.Struct("<BdddI")  # version, sum, min, max, number of buckets that follow


class LatencySketch:
    """A mergeable histogram of durations in milliseconds, exact to 1 % of each value.

    Safe for several threads. Few values at a time are only appended to a buffer, which is emptied
    into the buckets every 1,024 values and before every read.
    """

    __slots__ = ("_buffer", "_counts", "_lock", "_max_ms", "_min_ms", "_sum_ms")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buffer: list[float] = []
        self._clear()

    def _clear(self) -> None:
        self._counts: npt.NDArray[np.int64] = np.zeros(_BUCKETS, dtype=np.int64)
        self._sum_ms = 0.0
        self._min_ms = math.inf
        self._max_ms = 0.0

    def add(self, value_ms: float) -> None:
        """Record one duration.

        Raises:
            ValueError: negative, infinite or not a number: a clock was misread.
        """
        if not 0 <= value_ms < math.inf:
            raise ValueError(f"a duration must be finite and not negative, got {value_ms!r}")
        buffer = self._buffer
        buffer.append(value_ms)
        if len(buffer) >= _BUFFERED:
            with self._lock:
                self._empty_buffer()

    def add_many(self, values_ms: npt.ArrayLike) -> None:
        """Record many durations in one pass.

        Args:
            values_ms: one dimension, any length, milliseconds.

        Raises:
            ValueError: one of them is negative, infinite or not a number; none is recorded.
        """
        # A pass of NumPy costs as much for 16 values as for 500: let them gather.
        values = values_ms if isinstance(values_ms, list) else np.asarray(values_ms).tolist()
        if not values:
            return
        if not (min(values) >= 0 and sum(values) < math.inf):  # a sum with NaN in it is not
            raise ValueError("durations must be finite and not negative")
        self._buffer += values
        if len(self._buffer) >= _BUFFERED:
            with self._lock:
                self._empty_buffer()

    def _empty_buffer(self) -> None:
        # Another thread may append between the two lines: it appends behind what is deleted.
        values = self._buffer[:]
        del self._buffer[: len(values)]
        self._count_in(np.array(values, dtype=np.float64))

    def _count_in(self, values: npt.NDArray[np.float64]) -> None:
        if values.size == 0:
            return
        clipped = np.clip(values, SMALLEST_MS, LARGEST_MS)
        buckets = np.ceil(np.log(clipped) * _PER_LOG - _OFFSET).astype(np.int64)
        self._counts += np.bincount(buckets, minlength=_BUCKETS)
        self._sum_ms += float(values.sum())
        self._min_ms = min(self._min_ms, float(np.min(values)))
        self._max_ms = max(self._max_ms, float(np.max(values)))

    @property
    def count(self) -> int:
        """How many durations were recorded."""
        with self._lock:
            self._empty_buffer()
            return int(self._counts.sum())

    @property
    def sum_ms(self) -> float:
        """Their exact sum."""
        with self._lock:
            self._empty_buffer()
            return self._sum_ms

    @property
    def mean_ms(self) -> float | None:
        """Their exact mean; None when there is none."""
        count = self.count
        return self.sum_ms / count if count else None

    @property
    def max_ms(self) -> float | None:
        """The exact longest; None when there is none."""
        return self._max_ms if self.count else None

    @property
    def min_ms(self) -> float | None:
        """The exact shortest; None when there is none."""
        return self._min_ms if self.count else None

    def quantile(self, q: float) -> float | None:
        """The duration that a share `q` of all recorded ones does not exceed.

        Args:
            q: from 0 (the shortest) to 1 (the longest).

        Returns:
            Milliseconds, within 1 % of the value at rank `floor(q * (count - 1))` for durations
            from a microsecond to 2.8 hours. None when nothing was recorded.

        Raises:
            ValueError: `q` is outside 0..1.
        """
        if not 0 <= q <= 1:
            raise ValueError(f"a quantile is between 0 and 1, got {q!r}")
        with self._lock:
            self._empty_buffer()
            upto = np.cumsum(self._counts)
            count = int(upto[-1])
            if count == 0:
                return None
            bucket = int(np.searchsorted(upto, math.floor(q * (count - 1)), side="right"))
            return min(max(_value_of(bucket), self._min_ms), self._max_ms)

    def count_upto(self, bound_ms: float) -> int:
        """How many durations did not exceed a bound, for a histogram with bounds of its own.

        Returns:
            The count for some bound within 2 % (one bucket) above the given one. It never falls
            while durations are added or sketches merged in.
        """
        bucket = math.ceil(math.log(max(bound_ms, SMALLEST_MS)) * _PER_LOG - _OFFSET)
        with self._lock:
            self._empty_buffer()
            return int(self._counts[: bucket + 1].sum())

    def merge(self, other: "LatencySketch") -> None:
        """Add all that `other` has recorded; `other` is left as it is."""
        self._add_parts(*other._parts())

    def drain(self) -> "LatencySketch":
        """Take everything out into a new sketch; a value added meanwhile is in one of the two."""
        taken = LatencySketch()
        with self._lock:
            self._empty_buffer()
            taken._counts, taken._sum_ms = self._counts, self._sum_ms
            taken._min_ms, taken._max_ms = self._min_ms, self._max_ms
            self._clear()
        return taken

    def copy(self) -> "LatencySketch":
        """A sketch of the same values that goes its own way."""
        copied = LatencySketch()
        copied.merge(self)
        return copied

    def _parts(self) -> tuple[npt.NDArray[np.int64], float, float, float]:
        with self._lock:
            self._empty_buffer()
            return self._counts.copy(), self._sum_ms, self._min_ms, self._max_ms

    def _add_parts(
        self, counts: npt.NDArray[np.int64], sum_ms: float, min_ms: float, max_ms: float
    ) -> None:
        with self._lock:
            self._counts += counts
            self._sum_ms += sum_ms
            self._min_ms = min(self._min_ms, min_ms)
            self._max_ms = max(self._max_ms, max_ms)

    def to_bytes(self) -> bytes:
        """The whole sketch, a few hundred bytes: only buckets that hold something are written."""
        counts, sum_ms, min_ms, max_ms = self._parts()
        filled = np.flatnonzero(counts)
        header = _HEADER.pack(_WIRE_VERSION, sum_ms, min_ms, max_ms, filled.size)
        gaps = np.diff(filled, prepend=0).astype("<u2")
        return header + zlib.compress(gaps.tobytes() + counts[filled].astype("<u8").tobytes(), 6)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote.

        Raises:
            ValueError: cut short, damaged, or of another version.
        """
        try:
            version, sum_ms, min_ms, max_ms, filled = _HEADER.unpack_from(data)
            if version != _WIRE_VERSION:
                raise ValueError(f"latency sketch of version {version}, expected {_WIRE_VERSION}")
            body = zlib.decompress(data[_HEADER.size :])
            buckets = np.cumsum(np.frombuffer(body, "<u2", filled), dtype=np.int64)
            values = np.frombuffer(body, "<u8", filled, offset=2 * filled)
        except (struct.error, zlib.error) as error:
            raise ValueError("damaged latency sketch") from error
        if filled and buckets[-1] >= _BUCKETS:
            raise ValueError("damaged latency sketch: a bucket out of range")
        sketch = cls()
        sketch._counts[buckets] = values.astype(np.int64)
        sketch._sum_ms, sketch._min_ms, sketch._max_ms = sum_ms, min_ms, max_ms
        return sketch

    def summary(self) -> dict[str, float | int | None]:
        """Count, mean, p50, p95, p99 and longest, for a page or a log line."""
        return {
            "count": self.count,
            "mean_ms": self.mean_ms,
            "p50_ms": self.quantile(0.50),
            "p95_ms": self.quantile(0.95),
            "p99_ms": self.quantile(0.99),
            "max_ms": self.max_ms,
        }

    def __repr__(self) -> str:
        return f"<LatencySketch count={self.count} p50_ms={self.quantile(0.5)}>"


def _value_of(bucket: int) -> float:
    """The value whose relative distance to both ends of its bucket is the same, 1 %."""
    return math.exp((bucket + _OFFSET) / _PER_LOG) * 2 / (1 + _GAMMA)


class Stage(StrEnum):
    """The parts of a message's way, in order."""

    __hash__ = str.__hash__  # Enum's own is a Python function, called on every record

    QUEUE = "queue"  # waiting in the collector, or pending in the database
    CLAIM = "claim"
    ENCODE = "encode"
    NETWORK = "network"  # the call less what Triton says it spent
    TRITON_QUEUE = "triton_queue"
    COMPUTE = "compute"
    STORE = "store"
    PUSH = "push"
    TOTAL = "total"


class Series(NamedTuple):
    """What a sketch or counter is about. `replica` is empty where none is involved."""

    name: str
    replica: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one or several processes recorded between two instants (Unix seconds)."""

    from_s: float
    to_s: float
    sketches: Mapping[Series, LatencySketch] = field(default_factory=dict)
    counters: Mapping[Series, int] = field(default_factory=dict)

    def sketch(self, name: str, replica: str | None = None) -> LatencySketch:
        """One series, or with `replica=None` that name over all replicas; empty if unknown."""
        merged = LatencySketch()
        for series, sketch in self.sketches.items():
            if series.name == name and replica in (None, series.replica):
                merged.merge(sketch)
        return merged

    def counter(self, name: str, replica: str | None = None) -> int:
        """One count, or with `replica=None` that name over all replicas; 0 if unknown."""
        return sum(
            value
            for series, value in self.counters.items()
            if series.name == name and replica in (None, series.replica)
        )

    def to_bytes(self) -> bytes:
        """All of it, to be merged in another process: a JSON head, then the sketches."""
        bodies = [sketch.to_bytes() for sketch in self.sketches.values()]
        head = {
            "from_s": self.from_s,
            "to_s": self.to_s,
            "counters": [[s.name, s.replica, value] for s, value in self.counters.items()],
            "sketches": [
                [series.name, series.replica, len(body)]
                for series, body in zip(self.sketches, bodies, strict=True)
            ],
        }
        encoded = json.dumps(head, separators=(",", ":")).encode()
        return b"".join([struct.pack("<I", len(encoded)), encoded, *bodies])

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote.

        Raises:
            ValueError: cut short or damaged.
        """
        try:
            (head_length,) = struct.unpack_from("<I", data)
            head = json.loads(data[4 : 4 + head_length])
            return cls(
                from_s=head["from_s"],
                to_s=head["to_s"],
                sketches=dict(_read_sketches(head["sketches"], data[4 + head_length :])),
                counters={Series(name, replica): n for name, replica, n in head["counters"]},
            )
        except (struct.error, KeyError, TypeError, ValueError) as error:
            raise ValueError("damaged snapshot") from error

    def as_json(self) -> dict[str, object]:
        """Summaries for a page or an API; not mergeable, unlike `to_bytes`."""
        return {
            "from_s": self.from_s,
            "to_s": self.to_s,
            "stages": [
                {"stage": series.name, "replica": series.replica, **sketch.summary()}
                for series, sketch in sorted(self.sketches.items())
            ],
            "counters": [
                {"name": series.name, "replica": series.replica, "value": value}
                for series, value in sorted(self.counters.items())
            ],
        }


def _read_sketches(
    directory: Iterable[tuple[str, str, int]], bodies: bytes
) -> Iterator[tuple[Series, LatencySketch]]:
    start = 0
    for name, replica, length in directory:
        yield Series(name, replica), LatencySketch.from_bytes(bodies[start : start + length])
        start += length


def merge_snapshots(snapshots: Iterable[Snapshot]) -> Snapshot:
    """One snapshot over all of them: sketches merged, counters added, the time they span.

    Raises:
        ValueError: there is none.
    """
    parts = list(snapshots)
    if not parts:
        raise ValueError("nothing to merge")
    sketches: dict[Series, LatencySketch] = {}
    counters: dict[Series, int] = {}
    for part in parts:
        for series, sketch in part.sketches.items():
            sketches.setdefault(series, LatencySketch()).merge(sketch)
        for series, value in part.counters.items():
            counters[series] = counters.get(series, 0) + value
    return Snapshot(
        from_s=min(part.from_s for part in parts),
        to_s=max(part.to_s for part in parts),
        sketches=sketches,
        counters=counters,
    )


class StageStats:
    """What this process measures, per stage and per replica. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sketches: dict[Series, LatencySketch] = {}
        self._counters: dict[Series, int] = {}
        self._since_s = time.time()

    def record(self, stage: str, value_ms: float, *, replica: str = "") -> None:
        """Record one duration of a stage (a `Stage`, or a name of the caller's own)."""
        self._sketch(Series(stage, replica)).add(value_ms)

    def record_many(self, stage: str, values_ms: npt.ArrayLike, *, replica: str = "") -> None:
        """Record many durations of a stage in one pass."""
        self._sketch(Series(stage, replica)).add_many(values_ms)

    def count(self, name: str, increment: int = 1, *, replica: str = "") -> None:
        """Add to a counter."""
        series = Series(name, replica)
        with self._lock:
            self._counters[series] = self._counters.get(series, 0) + increment

    def _sketch(self, series: Series) -> LatencySketch:
        found = self._sketches.get(series)
        if found is not None:
            return found
        with self._lock:
            return self._sketches.setdefault(series, LatencySketch())

    def snapshot(self) -> Snapshot:
        """Everything since the last reset; recording goes on."""
        with self._lock:
            copies = {series: sketch.copy() for series, sketch in self._sketches.items()}
            return _without_empty(
                Snapshot(self._since_s, time.time(), copies, dict(self._counters))
            )

    def snapshot_and_reset(self) -> Snapshot:
        """Everything since the last reset, and start anew: the deltas of processes add up.

        A value recorded by another thread meanwhile is in this delta or the next, never lost:
        sketches are emptied in place, not replaced.
        """
        with self._lock:
            drained = {series: sketch.drain() for series, sketch in self._sketches.items()}
            counters, self._counters = self._counters, {}
            since_s, self._since_s = self._since_s, time.time()
            return _without_empty(Snapshot(since_s, self._since_s, drained, counters))


def _without_empty(snapshot: Snapshot) -> Snapshot:
    """A replica that has gone stays in the recorder, but not in what is sent round."""
    sketches = {series: sketch for series, sketch in snapshot.sketches.items() if sketch.count}
    return Snapshot(snapshot.from_s, snapshot.to_s, sketches, snapshot.counters)
