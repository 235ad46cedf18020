"""Results of runs with metrics chosen by hand."""

from pathlib import Path

from dynamite_fl._leading_metric import ACCURACY, LeadingMetric
from dynamite_fl.compare.summary import RunResult
from dynamite_fl.training.history import History
from tests.training.records import record


def result(
    contender: str, seed: int, *values: float | None, metric: LeadingMetric = ACCURACY
) -> RunResult:
    """Return a run with a metric after each round, whose rounds take 10 s and cost 2 each."""
    metrics = [None if value is None else {metric.name: value} for value in values]
    records = tuple(record(k, metrics=of_round) for k, of_round in enumerate(metrics, start=1))
    history = History(records, metric)
    return RunResult(contender, seed, Path(f"{contender}-{seed}"), "rounds", history)


RESULTS = [
    result("dynamite", 0, 0.5, 0.8, 0.9),
    result("dynamite", 1, 0.6, 0.7),
    result("fedavg", 0, 0.3, None, 0.6),
    result("fedavg", 1, 0.3, 0.8),
]


def errors_of(results: list[RunResult], metric: LeadingMetric) -> list[RunResult]:
    """Return the same runs with 1 less each accuracy as a metric of which lower is better."""
    return [
        result(
            one.contender,
            one.seed,
            *(None if value is None else 1 - value for value in one.history.columns()["accuracy"]),
            metric=metric,
        )
        for one in results
    ]
