"""Measured network traces: how long a transfer takes while the throughput changes."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl._csv import read_text
from dynamite_fl._validate import column, column_length
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import FloatArray

_BYTES_PER_MEGABIT = 1e6 / 8

_HEADER = ["seconds", "mbps"]


@dataclass(frozen=True, init=False, eq=False)
class Trace:
    """A throughput over time, which repeats after its end.

    Each of the m measurements holds until the next one. The last one holds for the median of the
    intervals before it. The trace begins with its first measurement, whatever its time.

    Attributes:
        seconds: Times of the measurements as given, in seconds, (m,).
        mbps: Measured throughput in megabits per second, (m,).
        edges: The times at which measurements begin, in seconds from the first, and the time of
            the end, (m + 1,).
        moved: The bytes transferred from the start to each edge, (m + 1,).

    Example:
        >>> trace = Trace(seconds=[0, 2], mbps=[8, 0])  # 1 MB/s for 2 s, then nothing for 2 s
        >>> trace.period, trace.mean_bandwidth
        (4.0, 500000.0)
    """

    seconds: FloatArray
    mbps: FloatArray
    edges: FloatArray
    moved: FloatArray

    def __init__(self, *, seconds: ArrayLike, mbps: ArrayLike) -> None:
        m = column_length("Trace.seconds", seconds)
        times = column("Trace.seconds", seconds, m)
        intervals = np.diff(times)
        if not (intervals > 0).all():
            late = int(np.argmin(intervals > 0)) + 1
            raise InvalidInput(
                f"Trace.seconds[{late}] is {times[late]:g}, not after the {times[late - 1]:g} "
                "before it: times must rise"
            )
        last = float(np.median(intervals)) if m > 1 else 1.0
        rates = column("Trace.mbps", mbps, m)
        moved = np.append(intervals, last) * rates * _BYTES_PER_MEGABIT
        if moved.sum() < 1:
            raise InvalidInput("Trace.mbps is 0 or nearly 0 throughout, so it never moves a byte")
        edges = np.append(times - times[0], times[-1] - times[0] + last)
        columns = {"seconds": times, "mbps": rates, "edges": edges, "moved": _sums(moved)}
        for name, values in columns.items():
            values.setflags(write=False)
            object.__setattr__(self, name, values)  # the dataclass is frozen

    @property
    def period(self) -> float:
        """The seconds after which the trace repeats."""
        return float(self.edges[-1])

    @property
    def mean_bandwidth(self) -> float:
        """The bytes per second, averaged over a period."""
        return float(self.moved[-1]) / self.period


def _sums(parts: FloatArray) -> FloatArray:
    """Return the sums of the first 0, 1, ... parts."""
    return np.concatenate([[0.0], np.cumsum(parts)])


def transfer_seconds(trace: Trace, start: ArrayLike, size: ArrayLike) -> FloatArray:
    """Compute the seconds of transfers of ``size`` bytes that begin at ``start``, elementwise.

    The result is exact up to rounding: the bytes that the trace moves until the start are added to
    the size, and the time at which the trace has moved the sum is looked up. A transfer ends with
    its last byte, so a standstill after it does not count.

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
    cycles -= (cycles > 0) & (target <= cycles * whole)  # the quotient was rounded up
    rest = np.clip(target - cycles * whole, np.finfo(np.float64).tiny, whole)
    seconds = cycles * trace.period + _when(trace, rest) - phase
    return np.asarray(np.where(size > 0, np.maximum(seconds, 0.0), 0.0))


def _when(trace: Trace, moved: FloatArray) -> FloatArray:
    """Return the time at which so many bytes, above 0 and at most a period's, have been moved."""
    after = np.searchsorted(trace.moved, moved, side="left")
    low, high = trace.moved[after - 1], trace.moved[after]  # low < moved <= high
    begin, end = trace.edges[after - 1], trace.edges[after]
    return np.asarray(begin + (moved - low) / (high - low) * (end - begin))


def read_trace(path: Path) -> Trace:
    """Read a trace from a CSV file of ``seconds,mbps``; that header line may be left out."""
    columns = read_trace_columns(path)
    try:
        return Trace(**columns)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def read_trace_columns(path: Path) -> dict[str, list[float]]:
    """Read the columns ``seconds`` and ``mbps`` of such a file."""
    rows = list(csv.reader(io.StringIO(read_text(path), newline="")))
    top = 1 if rows and [cell.strip() for cell in rows[0]] == _HEADER else 0
    pairs = [_pair(path, top + at, row) for at, row in enumerate(rows[top:], start=1) if row]
    if not pairs:
        raise InvalidInput(f"{path} has no measurement: write lines of seconds,mbps")
    return {"seconds": [pair[0] for pair in pairs], "mbps": [pair[1] for pair in pairs]}


def _pair(path: Path, line: int, row: list[str]) -> tuple[float, float]:
    try:
        seconds, mbps = map(float, row)
    except ValueError:
        raise InvalidInput(
            f"{path}, line {line}: {','.join(row)!r} is not a pair of numbers, seconds,mbps"
        ) from None
    return seconds, mbps
