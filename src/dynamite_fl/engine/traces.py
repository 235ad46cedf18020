"""Measured network traces: how long it takes to move bytes when the throughput comes and goes."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.columns import column, entries
from dynamite_fl.records import FloatArray

_BYTES = 1e6 / 8  # in a megabit

_HEADER = ["seconds", "mbps"]


@dataclass(frozen=True, init=False, eq=False)
class Trace:
    """Throughput over time: each measurement holds until the next, and then all over again.

    The trace begins with its first measurement, whatever its time. The last one holds as long
    as most do: the median of the intervals before it.

    Attributes:
        edges: Where measurements begin, in seconds from the first, and the end, (m + 1,).
        moved: Bytes moved since the start at each edge, (m + 1,).

    Example:
        >>> trace = Trace(seconds=[0, 2], mbps=[8, 0])  # a megabyte a second, every other 2 s
        >>> trace.period, trace.mean_bandwidth
        (4.0, 500000.0)
    """

    edges: FloatArray
    moved: FloatArray

    def __init__(self, *, seconds: ArrayLike, mbps: ArrayLike) -> None:
        m = entries("Trace.seconds", seconds)
        times = column("Trace.seconds", seconds, m)
        intervals = np.diff(times)
        if not (intervals > 0).all():
            late = int(np.argmin(intervals > 0)) + 1
            raise ValueError(
                f"Trace.seconds[{late}] is {times[late]:g}, not after the {times[late - 1]:g} "
                "before it: times must rise"
            )
        last = float(np.median(intervals)) if m > 1 else 1.0
        moved = np.append(intervals, last) * column("Trace.mbps", mbps, m) * _BYTES
        if moved.sum() < 1:
            raise ValueError("Trace.mbps is 0 or next to it throughout: it never moves a byte")
        edges = np.append(times - times[0], times[-1] - times[0] + last)
        for name, values in {"edges": edges, "moved": _sums(moved)}.items():
            values.setflags(write=False)
            object.__setattr__(self, name, values)  # frozen, so by the back door

    @property
    def period(self) -> float:
        """Seconds after which it repeats."""
        return float(self.edges[-1])

    @property
    def mean_bandwidth(self) -> float:
        """Bytes a second over a whole period."""
        return float(self.moved[-1]) / self.period


def _sums(parts: FloatArray) -> FloatArray:
    return np.concatenate([[0.0], np.cumsum(parts)])


def transfer_seconds(trace: Trace, start: ArrayLike, size: ArrayLike) -> FloatArray:
    """Seconds to move ``size`` bytes on a trace from the time ``start``, elementwise.

    Exact but for rounding: it adds what was moved until the start and looks up when the sum has
    been moved. A transfer ends with its last byte, so a standstill counts only in between.

    Example:
        >>> trace = Trace(seconds=[0, 2], mbps=[8, 0])
        >>> transfer_seconds(trace, start=[0, 1, 3], size=[2e6, 2e6, 0]).tolist()
        [2.0, 4.0, 0.0]
    """
    size = np.asarray(size, dtype=np.float64)
    phase = np.mod(np.asarray(start, dtype=np.float64), trace.period)
    whole = trace.moved[-1]
    target = np.interp(phase, trace.edges, trace.moved) + size
    cycles = np.maximum(np.ceil(target / whole) - 1, 0.0)
    rest = np.clip(target - cycles * whole, np.finfo(np.float64).tiny, whole)
    seconds = cycles * trace.period + _when(trace, rest) - phase
    return np.asarray(np.where(size > 0, np.maximum(seconds, 0.0), 0.0))


def _when(trace: Trace, moved: FloatArray) -> FloatArray:
    """When so many bytes, above 0 and no more than in a period, have first been moved."""
    after = np.searchsorted(trace.moved, moved, side="left")
    low, high = trace.moved[after - 1], trace.moved[after]  # low < moved <= high
    begin, end = trace.edges[after - 1], trace.edges[after]
    return np.asarray(begin + (moved - low) / (high - low) * (end - begin))


def read_trace(path: Path) -> Trace:
    """A trace from a CSV file of ``seconds,mbps``, with or without that line on top."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file in UTF-8") from None
    rows = list(csv.reader(io.StringIO(text, newline="")))
    top = 1 if rows and [cell.strip() for cell in rows[0]] == _HEADER else 0
    numbers = [_pair(path, top + at, row) for at, row in enumerate(rows[top:], start=1) if row]
    if not numbers:
        raise ValueError(f"{path} has no measurement: write lines of seconds,mbps")
    try:
        return Trace(seconds=[pair[0] for pair in numbers], mbps=[pair[1] for pair in numbers])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _pair(path: Path, line: int, row: list[str]) -> tuple[float, float]:
    try:
        seconds, mbps = map(float, row)
    except ValueError:
        raise ValueError(
            f"{path}, line {line}: {','.join(row)!r} is not a pair of numbers, seconds,mbps"
        ) from None
    return seconds, mbps
