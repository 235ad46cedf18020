"""What each device did: how long it took, how often all waited for it, its batch sizes."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from dynamite_fl.report.history import History

Item = TypeVar("Item")


@dataclass(frozen=True)
class DeviceFigures:
    """A device over all rounds; None where the history does not say.

    Attributes:
        place: In the fleet.
        samples: That it has, or has received so far.
        batch: Its mean batch size.
        compute: Mean seconds of its local steps in a round.
        comm: Mean seconds of communication in a round.
        slowest: In how many rounds all waited for it.
        absent: In how many rounds it was missed.
    """

    place: int
    samples: int | None
    batch: float | None
    compute: float | None
    comm: float | None
    slowest: int
    absent: int

    @property
    def seconds(self) -> float:
        """Of a round; 0 if not known."""
        return (self.compute or 0.0) + (self.comm or 0.0)


def device_figures(history: History) -> list[DeviceFigures]:
    """All devices that took part, those first for whom all waited most often.

    Example:
        >>> line = {"local_steps": 2, "clients": [0, 1], "batch_sizes": [8, 4], "absent": []}
        >>> line |= {"step_seconds": [0.5, 1.0], "comm_seconds": [0.5, 1.0], "slowest": 1}
        >>> [(each.place, each.seconds, each.slowest) for each in device_figures(History((line,)))]
        [(1, 3.0, 1), (0, 1.5, 0)]
    """
    batches, compute, comm = (defaultdict[int, list[float]](list) for _ in range(3))
    samples: dict[int, int] = {}
    for line in history.lines:
        clients = [int(client) for client in line.get("clients", ())]
        steps, none = line["local_steps"], [None] * len(clients)
        for key, columns, factor in (
            ("batch_sizes", batches, 1),
            ("step_seconds", compute, steps),
            ("comm_seconds", comm, 1),
        ):
            for client, value in zip(clients, line.get(key, none), strict=True):
                if value is not None:
                    columns[client].append(value * factor)
        arrived = zip(clients, line.get("arrived", none), strict=True)
        samples |= {client: int(value) for client, value in arrived if value is not None}
    slowest = Counter(int(each["slowest"]) for each in history.lines if _known(each, "slowest"))
    absent = Counter(int(client) for line in history.lines for client in line["absent"])
    figures = [
        DeviceFigures(
            place=place,
            samples=samples.get(place),
            batch=_mean(batches[place]),
            compute=_mean(compute[place]),
            comm=_mean(comm[place]),
            slowest=slowest[place],
            absent=absent[place],
        )
        for place in sorted({*batches, *slowest, *absent})
    ]
    return sorted(figures, key=lambda each: (-each.slowest, -each.seconds, each.place))


def _known(line: dict[str, object], key: str) -> bool:
    return line.get(key) is not None


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


@dataclass(frozen=True)
class Tiles:
    """Batch sizes as a picture of bounded size.

    Attributes:
        rounds: The first round of each column.
        groups: The devices of each row.
        sizes: Mean batch sizes, a list for each row; None where nobody took part.
    """

    rounds: list[int]
    groups: list[list[int]]
    sizes: list[list[float | None]]


def batch_tiles(history: History, most_rows: int = 40, most_columns: int = 120) -> Tiles:
    """Mean batch sizes of devices, or of groups alike in size, in rounds, or in runs of them.

    Example:
        >>> lines = [{"round": k, "clients": [0, 1], "batch_sizes": [k, 9]} for k in (1, 2, 3)]
        >>> batch_tiles(History(tuple(lines)), most_columns=2)
        Tiles(rounds=[1, 3], groups=[[0], [1]], sizes=[[1.5, 3.0], [9.0, 9.0]])
    """
    lines = [line for line in history.lines if "batch_sizes" in line]
    totals = defaultdict[int, list[float]](list)
    for line in lines:
        for client, size in zip(line["clients"], line["batch_sizes"], strict=True):
            totals[int(client)].append(size or 0)
    places = sorted(totals)
    if len(places) > most_rows:
        places.sort(key=lambda place: -statistics.fmean(totals[place]))
    groups = _portions(places, most_rows)
    row_of = {place: row for row, group in enumerate(groups) for place in group}
    columns = _portions(lines, most_columns)
    sizes: list[list[float | None]] = [[None] * len(columns) for _ in groups]
    for number, column in enumerate(columns):
        found = defaultdict[int, list[float]](list)
        for line in column:
            for client, size in zip(line["clients"], line["batch_sizes"], strict=True):
                found[row_of[int(client)]].append(size or 0)
        for row, values in found.items():
            sizes[row][number] = round(statistics.fmean(values), 2)
    return Tiles([int(column[0]["round"]) for column in columns], groups, sizes)


def _portions(items: Sequence[Item], most: int) -> list[list[Item]]:
    """Neighbours together, in at most so many portions."""
    each = max(1, math.ceil(len(items) / most))
    return [list(items[start : start + each]) for start in range(0, len(items), each)]
