"""Results of runs with accuracies chosen by hand."""

from pathlib import Path

from dynamite_fl.compare.summary import RunResult
from dynamite_fl.training.history import History
from tests.training.records import record


def result(contender: str, seed: int, *accuracies: float | None) -> RunResult:
    """Return a run whose rounds take 10 s and cost 2 each."""
    records = tuple(record(k, accuracy=accuracy) for k, accuracy in enumerate(accuracies, start=1))
    return RunResult(contender, seed, Path(f"{contender}-{seed}"), "rounds", History(records))


RESULTS = [
    result("dynamite", 0, 0.5, 0.8, 0.9),
    result("dynamite", 1, 0.6, 0.7),
    result("fedavg", 0, 0.3, None, 0.6),
    result("fedavg", 1, 0.3, 0.8),
]
