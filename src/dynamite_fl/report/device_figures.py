"""Figures of devices over all rounds: seconds, batch sizes, and how often others waited."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from dynamite_fl.training.history import History
from dynamite_fl.training.round_record import RoundRecord

Item = TypeVar("Item")


@dataclass(frozen=True)
class DeviceFigures:
    """Figures of a device over all rounds; None where the history has none.

    Attributes:
        index: Index of the device in the fleet.
        samples: Samples that it has received so far.
        batch: Mean batch size of the device.
        compute: Mean seconds of its local steps in a round.
        comm: Mean seconds of its communication in a round.
        slowest: Number of rounds in which it was the slowest.
        absent: Number of rounds from which it was absent.
    """

    index: int
    samples: int | None
    batch: float | None
    compute: float | None
    comm: float | None
    slowest: int
    absent: int

    @property
    def seconds(self) -> float:
        """Mean seconds of a round; 0 if unknown."""
        return (self.compute or 0.0) + (self.comm or 0.0)


def device_figures(history: History) -> list[DeviceFigures]:
    """Return the figures of all devices that took part, the most often slowest first.

    Example:
        >>> record = RoundRecord(
        ...     round=1,
        ...     seconds=3.0,
        ...     cost=1.0,
        ...     local_steps=2,
        ...     batch_mean=6.0,
        ...     slowest=1,
        ...     clients=(0, 1),
        ...     batch_sizes=(8, 4),
        ...     step_seconds=(0.5, 1.0),
        ...     comm_seconds=(0.5, 1.0),
        ... )
        >>> figures = device_figures(History((record,)))
        >>> [(device.index, device.seconds, device.slowest) for device in figures]
        [(1, 3.0, 1), (0, 1.5, 0)]
    """
    batches, compute, comm = (defaultdict[int, list[float]](list) for _ in range(3))
    samples: dict[int, int] = {}
    for record in history:
        for client, size in _by_client(record, record.batch_sizes):
            batches[client].append(size)
        for client, seconds in _by_client(record, record.step_seconds):
            compute[client].append(record.local_steps * seconds)
        for client, seconds in _by_client(record, record.comm_seconds):
            comm[client].append(seconds)
        samples |= {client: int(count) for client, count in _by_client(record, record.arrived)}
    slowest = Counter(record.slowest for record in history if record.slowest is not None)
    absent = Counter(client for record in history for client in record.absent)
    figures = [
        DeviceFigures(
            index=index,
            samples=samples.get(index),
            batch=_mean(batches[index]),
            compute=_mean(compute[index]),
            comm=_mean(comm[index]),
            slowest=slowest[index],
            absent=absent[index],
        )
        for index in sorted({*batches, *slowest, *absent})
    ]
    return sorted(figures, key=lambda device: (-device.slowest, -device.seconds, device.index))


def _by_client(
    record: RoundRecord, column: Sequence[float | None] | None
) -> list[tuple[int, float]]:
    """Return the clients of a round with their known values."""
    if record.clients is None or column is None:
        return []
    pairs = zip(record.clients, column, strict=True)
    return [(client, value) for client, value in pairs if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


@dataclass(frozen=True)
class BatchTiles:
    """Batch sizes of devices over rounds, averaged into a limited number of tiles.

    Attributes:
        rounds: First round of each column.
        groups: Devices of each row.
        sizes: Mean batch sizes, a list for each row; None where no device took part.
    """

    rounds: list[int]
    groups: list[list[int]]
    sizes: list[list[float | None]]


def batch_tiles(history: History, most_rows: int = 40, most_columns: int = 120) -> BatchTiles:
    """Average batch sizes over neighbouring rounds, and over devices with similar sizes.

    Example:
        >>> record = dict(seconds=1.0, cost=1.0, local_steps=1, batch_mean=5.0, clients=(0, 1))
        >>> history = History(
        ...     tuple(RoundRecord(round=k, batch_sizes=(k, 9), **record) for k in (1, 2, 3))
        ... )
        >>> batch_tiles(history, most_columns=2)
        BatchTiles(rounds=[1, 3], groups=[[0], [1]], sizes=[[1.5, 3.0], [9.0, 9.0]])
    """
    records = [record for record in history if record.batch_sizes is not None]
    sizes_of = defaultdict[int, list[float]](list)
    for record in records:
        for client, size in _batch_sizes(record):
            sizes_of[client].append(size)
    devices = sorted(sizes_of)
    if len(devices) > most_rows:
        devices.sort(key=lambda device: -statistics.fmean(sizes_of[device]))
    groups = _portions(devices, most_rows)
    row_of = {device: row for row, group in enumerate(groups) for device in group}
    columns = _portions(records, most_columns)
    tiles: list[list[float | None]] = [[None] * len(columns) for _ in groups]
    for place, column in enumerate(columns):
        sizes_in_row = defaultdict[int, list[float]](list)
        for record in column:
            for client, size in _batch_sizes(record):
                sizes_in_row[row_of[client]].append(size)
        for row, sizes in sizes_in_row.items():
            tiles[row][place] = round(statistics.fmean(sizes), 2)
    return BatchTiles([column[0].round for column in columns], groups, tiles)


def _batch_sizes(record: RoundRecord) -> list[tuple[int, float]]:
    """Return the clients of a round with their batch sizes; an unknown size counts as 0."""
    pairs = zip(record.clients or (), record.batch_sizes or (), strict=True)
    return [(client, size or 0) for client, size in pairs]


def _portions(items: Sequence[Item], most: int) -> list[list[Item]]:
    """Split items into at most so many portions of neighbours."""
    size = max(1, math.ceil(len(items) / most))
    return [list(items[start : start + size]) for start in range(0, len(items), size)]
