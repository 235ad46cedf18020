"""Runs summed up: what each contender reached and spent over its seeds."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dynamite_fl.report.history import History

FEDAVG = "fedavg"
_SUMMARY = ("accuracy", "rounds", "seconds", "cost", "worst_class", "stream_loss")


@dataclass(frozen=True, eq=False)
class Result:
    """What came of a run; the group is where it belongs if several comparisons are shown."""

    contender: str
    seed: int
    folder: Path
    ended: str
    history: History
    group: str = ""

    @property
    def title(self) -> str:
        """The contender as it is shown, the same for all its seeds."""
        return titled(self.group, self.contender)


def titled(group: str, name: str) -> str:
    """A name after that of its group, if there is one.

    Example:
        >>> titled("", "fedavg"), titled("monday", "fedavg")
        ('fedavg', 'monday/fedavg')
    """
    return f"{group}/{name}" if group else name


@dataclass(frozen=True)
class Spread:
    """Numbers summed up.

    Attributes:
        mean: Of all.
        deviation: Their standard deviation; None for a single one.
        least: Of all.
        most: Of all.

    Example:
        >>> spread_of([1.0, 2.0, 3.0])
        Spread(mean=2.0, deviation=1.0, least=1.0, most=3.0)
    """

    mean: float
    deviation: float | None
    least: float
    most: float


@dataclass(frozen=True, eq=False)
class Row:
    """A contender over its seeds.

    Attributes:
        contender: Its name, as it is shown.
        results: One a seed that finished.
        accuracy: At the end.
        rounds: That were played.
        seconds: Of virtual time.
        cost: Of it all.
        worst_class: Accuracy of each seed's worst class at the end; None without classes.
        stream_loss: Of all that has arrived, at the end; None where data does not stream.
        reached: How many seeds came to the target.
        seconds_to_target: Of those that did; None if none did.
        cost_to_target: The same for the cost.
    """

    contender: str
    results: tuple[Result, ...]
    accuracy: Spread
    rounds: Spread
    seconds: Spread
    cost: Spread
    worst_class: Spread | None
    stream_loss: Spread | None
    reached: int
    seconds_to_target: Spread | None
    cost_to_target: Spread | None


@dataclass(frozen=True)
class Target:
    """The accuracy to reach, and whose mean it is; None if it was given."""

    accuracy: float
    mean_of: str | None


def spread_of(values: Iterable[float]) -> Spread:
    """Mean, standard deviation and range."""
    found = [float(value) for value in values]
    deviation = statistics.stdev(found) if len(found) > 1 else None
    return Spread(statistics.fmean(found), deviation, min(found), max(found))


def target_of(results: Sequence[Result], given: float | None) -> Target:
    """The accuracy that was asked for, else FedAvg's mean, else that of who comes first.

    ``results`` must not be empty, and be in the order in which contenders were named.
    """
    if given is not None:
        return Target(given, None)
    fedavg = (each for each in results if each.contender.partition("+")[0] == FEDAVG)
    chosen = next(fedavg, results[0]).title
    finals = [each.history.final_accuracy for each in results if each.title == chosen]
    return Target(statistics.fmean(finals), chosen)


def summed_up(results: Sequence[Result], target: float) -> list[Row]:
    """A row for each contender, the most accurate first."""
    names = dict.fromkeys(result.title for result in results)
    rows = [_row([each for each in results if each.title == name], target) for name in names]
    return sorted(rows, key=lambda row: -row.accuracy.mean)


def _row(results: Sequence[Result], target: float) -> Row:
    first = [each.history.first_reaching(target) for each in results]
    reached = [line for line in first if line is not None]
    worsts = [each.history.worst_class for each in results]

    def spread(of: Callable[[History], float]) -> Spread:
        return spread_of(of(each.history) for each in results)

    return Row(
        contender=results[0].title,
        results=tuple(results),
        accuracy=spread(lambda history: history.final_accuracy),
        rounds=spread(lambda history: history.lines[-1]["round"]),
        seconds=spread(lambda history: history.lines[-1]["seconds"]),
        cost=spread(lambda history: history.lines[-1]["cost"]),
        worst_class=_known(worst and worst[1] for worst in worsts),
        stream_loss=_known(each.history.last("stream_loss") for each in results),
        reached=len(reached),
        seconds_to_target=_known(each["seconds"] for each in reached),
        cost_to_target=_known(each["cost"] for each in reached),
    )


def _known(values: Iterable[float | None]) -> Spread | None:
    """The spread of those that are known, None if none is."""
    found = [value for value in values if value is not None]
    return spread_of(found) if found else None


def accuracies(row: Row) -> dict[int, float]:
    """Final accuracy by seed."""
    return {each.seed: each.history.final_accuracy for each in row.results}


def row_to_json(row: Row, target: float) -> dict[str, Any]:
    """A row and its runs for scripts."""
    summary = [*_SUMMARY, "seconds_to_target", "cost_to_target"]
    spreads = {name: getattr(row, name) for name in summary}
    return {
        "controller": row.contender,
        "seeds": len(row.results),
        "reached_target": row.reached,
        **{name: None if value is None else asdict(value) for name, value in spreads.items()},
        "runs": [_result_to_json(each, target) for each in row.results],
    }


def _result_to_json(result: Result, target: float) -> dict[str, Any]:
    last, reached = result.history.lines[-1], result.history.first_reaching(target)
    return {
        "seed": result.seed,
        "folder": str(result.folder),
        "ended": result.ended,
        "accuracy": result.history.final_accuracy,
        "rounds": last["round"],
        "seconds": last["seconds"],
        "cost": last["cost"],
        "seconds_to_target": None if reached is None else reached["seconds"],
        "cost_to_target": None if reached is None else reached["cost"],
        "class_accuracy": result.history.last("class_accuracy"),
        "stream_loss": result.history.last("stream_loss"),
    }


def json_ready(value: Any) -> Any:
    """The same without infinity and NaN, which JSON has no numbers for."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: json_ready(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(each) for each in value]
    return value
