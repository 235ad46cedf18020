"""Results of runs, summarized: what each contender reached and spent over its seeds."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dynamite_fl._format import metric_label, metric_value
from dynamite_fl._leading_metric import LeadingMetric
from dynamite_fl.compare.names import method_of
from dynamite_fl.training.history import History
from dynamite_fl.training.round_record import RoundRecord

FEDAVG = "fedavg"
_SPREADS = (
    "final",
    "rounds",
    "seconds",
    "cost",
    "worst_class",
    "worst_client",
    "stream_loss",
    "seconds_to_target",
    "cost_to_target",
)


@dataclass(frozen=True, eq=False)
class RunResult:
    """A finished run.

    Attributes:
        contender: Name of the contender, the same for all its seeds.
        seed: Seed of the run.
        folder: Folder of the run.
        ended: What ended the run: ``rounds``, ``deadline`` or ``budget``.
        history: Rounds of the run, with a leading metric that is a number at the end.
        group: Name of the comparison, if several are shown together; else empty.
    """

    contender: str
    seed: int
    folder: Path
    ended: str
    history: History
    group: str = ""

    @property
    def title(self) -> str:
        """Name of the contender, with its group."""
        return title_of(self.group, self.contender)


def title_of(group: str, name: str) -> str:
    """Return a name with the name of its group, if there is one, in front.

    Example:
        >>> title_of("", "fedavg"), title_of("monday", "fedavg")
        ('fedavg', 'monday/fedavg')
    """
    return f"{group}/{name}" if group else name


@dataclass(frozen=True)
class Spread:
    """The spread of some numbers.

    Attributes:
        mean: Their mean.
        deviation: Their standard deviation; None for a single number.
        least: The smallest.
        most: The largest.

    Example:
        >>> spread_of([1.0, 2.0, 3.0])
        Spread(mean=2.0, deviation=1.0, least=1.0, most=3.0)
    """

    mean: float
    deviation: float | None
    least: float
    most: float


@dataclass(frozen=True, eq=False)
class ContenderSummary:
    """What a contender reached and spent over its seeds.

    Attributes:
        contender: Name of the contender, with its group.
        results: The finished runs, one for each seed.
        final: The leading metric at the end.
        rounds: Rounds that were played.
        seconds: Seconds that were spent.
        cost: Cost that was spent.
        worst_class: Accuracy of the worst class at the end; None without classes.
        worst_client: The leading metric of the worst client at the end; None if clients have no
            test data of their own.
        stream_loss: Loss on all data that arrived, at the end; None if data does not stream.
        reached: The first round that reached the target, of each run that did.
        seconds_to_target: Seconds until then; None if no run reached the target.
        cost_to_target: Cost until then; None if no run reached the target.
    """

    contender: str
    results: tuple[RunResult, ...]
    final: Spread
    rounds: Spread
    seconds: Spread
    cost: Spread
    worst_class: Spread | None
    worst_client: Spread | None
    stream_loss: Spread | None
    reached: tuple[RoundRecord, ...]
    seconds_to_target: Spread | None
    cost_to_target: Spread | None

    @property
    def always_reached(self) -> bool:
        """Whether all runs reached the target."""
        return len(self.reached) == len(self.results)

    @property
    def final_by_seed(self) -> dict[int, float]:
        """The leading metric at the end of each seed's run."""
        return {result.seed: result.history.final for result in self.results}

    @property
    def leading_metric(self) -> LeadingMetric:
        """The metric that ``final`` is of."""
        return self.results[0].history.leading_metric


@dataclass(frozen=True)
class Target:
    """The value of the leading metric that contenders should reach.

    Attributes:
        value: The value.
        metric: The leading metric.
        mean_of: The contender whose mean this is; None if the user chose the target.
    """

    value: float
    metric: LeadingMetric
    mean_of: str | None

    def __str__(self) -> str:
        return metric_value(self.metric.name, self.value)

    @property
    def origin(self) -> str:
        """Where the target comes from, in words."""
        if self.mean_of is None:
            return "as requested"
        return f"the mean {metric_label(self.metric.name)} of {self.mean_of}"


def spread_of(values: Iterable[float]) -> Spread:
    """Compute mean, standard deviation and range."""
    numbers = [float(value) for value in values]
    deviation = statistics.stdev(numbers) if len(numbers) > 1 else None
    return Spread(statistics.fmean(numbers), deviation, min(numbers), max(numbers))


def choose_target(results: Sequence[RunResult], requested: float | None) -> Target:
    """Return the requested target, else FedAvg's mean at the end, else the first contender's.

    Args:
        results: At least one result, in the order in which contenders were named.
        requested: The value of the leading metric that the user chose, if any.
    """
    metric = results[0].history.leading_metric
    if requested is not None:
        return Target(requested, metric, None)
    fedavg = (result for result in results if method_of(result.contender) == FEDAVG)
    title = next(fedavg, results[0]).title
    finals = [result.history.final for result in results if result.title == title]
    return Target(statistics.fmean(finals), metric, title)


def summarize(results: Sequence[RunResult], target: float) -> list[ContenderSummary]:
    """Summarize each contender's results; the best contender is the first."""
    titles = dict.fromkeys(result.title for result in results)
    summaries = [
        _summarize_one([result for result in results if result.title == title], target)
        for title in titles
    ]
    return sorted(summaries, key=lambda row: row.leading_metric.sort_key(row.final.mean))


def best_of(summaries: Sequence[ContenderSummary]) -> ContenderSummary:
    """Return the summary with the best mean of those that have the most seeds."""
    seeds = max(len(summary.results) for summary in summaries)
    complete = [summary for summary in summaries if len(summary.results) == seeds]
    return min(complete, key=lambda row: row.leading_metric.sort_key(row.final.mean))


def _summarize_one(results: Sequence[RunResult], target: float) -> ContenderSummary:
    histories = [result.history for result in results]
    firsts = [history.first_reaching(target) for history in histories]
    reached = tuple(record for record in firsts if record is not None)
    worst = [history.worst_class for history in histories]
    worst_clients = [history.worst_client for history in histories]
    return ContenderSummary(
        contender=results[0].title,
        results=tuple(results),
        final=spread_of(history.final for history in histories),
        rounds=spread_of(history[-1].round for history in histories),
        seconds=spread_of(history[-1].seconds for history in histories),
        cost=spread_of(history[-1].cost for history in histories),
        worst_class=_spread_of_known(pair[1] for pair in worst if pair is not None),
        worst_client=_spread_of_known(pair[1] for pair in worst_clients if pair is not None),
        stream_loss=_spread_of_known(history.last("stream_loss") for history in histories),
        reached=reached,
        seconds_to_target=_spread_of_known(record.seconds for record in reached),
        cost_to_target=_spread_of_known(record.cost for record in reached),
    )


def _spread_of_known(values: Iterable[float | None]) -> Spread | None:
    """Compute the spread of the values that are not None; None if all are."""
    known = [value for value in values if value is not None]
    return spread_of(known) if known else None


def summary_to_json(summary: ContenderSummary, target: float) -> dict[str, Any]:
    """Return a contender's summary and its runs as JSON values."""
    spreads = {name: getattr(summary, name) for name in _SPREADS}
    return {
        "controller": summary.contender,
        "seeds": len(summary.results),
        "reached_target": len(summary.reached),
        **{name: None if spread is None else asdict(spread) for name, spread in spreads.items()},
        "runs": [_result_to_json(result, target) for result in summary.results],
    }


def _result_to_json(result: RunResult, target: float) -> dict[str, Any]:
    last, reached = result.history[-1], result.history.first_reaching(target)
    return {
        "seed": result.seed,
        "folder": str(result.folder),
        "ended": result.ended,
        "metrics": result.history.final_metrics,
        "rounds": last.round,
        "seconds": last.seconds,
        "cost": last.cost,
        "seconds_to_target": None if reached is None else reached.seconds,
        "cost_to_target": None if reached is None else reached.cost,
        "class_accuracy": result.history.last("class_accuracy"),
        "client_metrics": result.history.last("client_metrics"),
        "stream_loss": result.history.last("stream_loss"),
    }
