"""Histories with numbers chosen by hand."""

from collections.abc import Mapping, Sequence

from dynamite_fl.experiments.found import Found
from dynamite_fl.report.history import History


def history(
    accuracy: Sequence[float],
    *,
    worst: float = 0.5,
    steps: Sequence[int] | None = None,
    stream_loss: Sequence[float | None] | None = None,
) -> History:
    """A round of 2 seconds and a cost of 10 for each accuracy."""
    lines = [
        {
            "round": k,
            "seconds": 2.0 * k,
            "cost": 10.0 * k,
            "accuracy": each,
            "class_accuracy": {"0": 1.0, "1": worst},
            "local_steps": 1 if steps is None else steps[k - 1],
            "batch_mean": 60.0,
            "stream_loss": None if stream_loss is None else stream_loss[k - 1],
        }
        for k, each in enumerate(accuracy, 1)
    ]
    return History(tuple(lines))


def found(panels: Mapping[str, Mapping[str, Sequence[float]]]) -> Found:
    """Final accuracies of seeds 0, 1, ... by panel and contender."""
    return Found(
        {
            panel: {
                name: {seed: history([value]) for seed, value in enumerate(values)}
                for name, values in contenders.items()
            }
            for panel, contenders in panels.items()
        }
    )
