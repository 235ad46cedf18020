"""Histories with numbers chosen by hand."""

from collections.abc import Mapping, Sequence

from dynamite_fl.experiments.outcome import Outcome
from dynamite_fl.training.history import History
from dynamite_fl.training.round_record import RoundRecord


def history(
    accuracy: Sequence[float | None],
    *,
    worst: float = 0.5,
    steps: Sequence[int] | None = None,
    stream_loss: Sequence[float | None] | None = None,
    classes: Sequence[Mapping[str, float]] | None = None,
) -> History:
    """Return a history with a round of 2 seconds and a cost of 10 for each accuracy."""
    records = [
        RoundRecord(
            round=k,
            seconds=2.0 * k,
            cost=10.0 * k,
            metrics=None if value is None else {"accuracy": value},
            class_accuracy={"0": 1.0, "1": worst} if classes is None else classes[k - 1],
            local_steps=1 if steps is None else steps[k - 1],
            batch_mean=60.0,
            stream_loss=None if stream_loss is None else stream_loss[k - 1],
        )
        for k, value in enumerate(accuracy, 1)
    ]
    return History(tuple(records))


def outcome(panels: Mapping[str, Mapping[str, Sequence[float]]]) -> Outcome:
    """Return an outcome with the final accuracies of seeds 0, 1, ... by panel and contender."""
    return Outcome(
        {
            panel: {
                name: {seed: history([value]) for seed, value in enumerate(values)}
                for name, values in contenders.items()
            }
            for panel, contenders in panels.items()
        }
    )
