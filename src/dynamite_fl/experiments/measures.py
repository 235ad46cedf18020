"""Numbers that are measured in a run, all computed from its history.

No other file of this package looks into a history.
"""

import statistics
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from dynamite_fl.stream.presets import preset
from dynamite_fl.training.history import History

_KNOWN, _LOST = 0.2, 0.01  # accuracies from which on a class is known, and up to which it is lost
_OPENING_ROUNDS = 2  # rounds that Algorithm 2 runs before it can choose

# Columns of a history that lines can show, and the titles of their axes.
COLUMNS = {
    "accuracy": "test accuracy",
    "loss": "test loss",
    "stream_loss": "loss on all that arrived",
    "local_steps": "local steps",
    "batch_mean": "mean batch size",
}


class Measure(NamedTuple):
    """A number that is measured in a run.

    Attributes:
        title: The title of its axis or table.
        format_spec: The format of the number, as ``format`` takes it.
    """

    title: str
    format_spec: str

    @property
    def is_percent(self) -> bool:
        """Whether it is a share that is shown as per cent."""
        return self.format_spec.endswith("%")


MEASURES = {
    "accuracy": Measure("test accuracy", ".1%"),
    "worst_class": Measure("accuracy of the worst class", ".1%"),
    "forgotten": Measure("classes known once and lost", ".1%"),
    "rounds": Measure("rounds", ",.0f"),
    "seconds": Measure("seconds", ",.1f"),
    "cost": Measure("cost", ",.1f"),
    "stream_loss": Measure("loss on all that arrived", ".3f"),
    "seconds_to_target": Measure("seconds to FedAvg's accuracy, or all", ",.1f"),
    "cost_to_target": Measure("cost to FedAvg's accuracy, or all", ",.1f"),
    "loss_after_burst": Measure("loss in 10 rounds from the burst", ".3f"),
    "roughness": Measure("rise of the loss a round", ".4f"),
    "steps_change": Measure("local steps, last third less first", "+.1f"),
    "batch_change": Measure("mean batch, last third less first", "+.1f"),
    "steps_fluctuation": Measure("change of local steps a round", ".1%"),
    "batch_fluctuation": Measure("change of the mean batch a round", ".1%"),
    "steps_at_burst": Measure("local steps, 5 rounds after the burst less 5 before", "+.1f"),
}


def measure(
    history: History, target: float | None = None, burst: int | None = None
) -> dict[str, float]:
    """Return the measures of a run by name; those that it does not have are left out.

    Args:
        history: The run's history.
        target: The accuracy to reach.
        burst: The round in which most of the data arrives.
    """
    worst = history.worst_class
    values = {
        "accuracy": _last(history, "accuracy"),
        "worst_class": worst and worst[1],
        "forgotten": _forgotten(history),
        "rounds": _last(history, "round"),
        "seconds": _last(history, "seconds"),
        "cost": _last(history, "cost"),
        "stream_loss": _last(history, "stream_loss"),
        "roughness": _roughness(history, burst),
        "steps_change": _change(history, "local_steps"),
        "batch_change": _change(history, "batch_mean"),
        "steps_fluctuation": _fluctuation(history, "local_steps"),
        "batch_fluctuation": _fluctuation(history, "batch_mean"),
    }
    if target is not None:  # a run that never reaches it has used at least all that it used
        reached = history.first_reaching(target) or history[-1]
        values |= {"seconds_to_target": reached.seconds, "cost_to_target": reached.cost}
    if burst is not None:
        values["loss_after_burst"] = _mean(history, "stream_loss", burst, burst + 10)
        before = _mean(history, "local_steps", burst - 5, burst - 1)
        after = _mean(history, "local_steps", burst + 1, burst + 5)
        values["steps_at_burst"] = _difference(after, before)
    return {name: float(value) for name, value in values.items() if value is not None}


def column(history: History, key: str) -> list[tuple[int, Any]]:
    """Return the rounds, and a value of each; None where it was not measured."""
    return [(record.round, record.value(key)) for record in history]


def known(history: History, key: str) -> dict[int, Any]:
    """Return a value by round, only where it was measured."""
    return {number: value for number, value in column(history, key) if value is not None}


def first_rounds(histories: Mapping[int, History], count: int) -> dict[int, History]:
    """Return the first rounds of those histories that have so many."""
    return {
        seed: replace(history, records=tuple(r for r in history if r.round <= count))
        for seed, history in histories.items()
        if history[-1].round >= count
    }


def _last(history: History, key: str) -> float | None:
    """Return a column's last known value."""
    return next(reversed(known(history, key).values()), None)


def _forgotten(history: History) -> float | None:
    """Return the share of classes that were known at some evaluation and are lost at the last."""
    accuracies = [classes for classes in known(history, "class_accuracy").values() if classes]
    if not accuracies:
        return None
    lost = [
        name
        for name, last in accuracies[-1].items()
        if last <= _LOST and any(classes.get(name, 0.0) >= _KNOWN for classes in accuracies)
    ]
    return len(lost) / len(accuracies[-1])


def _roughness(history: History, burst: int | None) -> float | None:
    """Return the mean rise of the loss from one round to the next, except at the burst.

    A fall counts as a rise of 0, because a fast recovery is not rough.
    """
    rises = [
        max(later - earlier, 0.0)
        for (_, earlier), (number, later) in pairwise(column(history, "stream_loss"))
        if earlier is not None and later is not None and number != burst
    ]
    return statistics.fmean(rises) if rises else None


def _change(history: History, key: str) -> float | None:
    """Return a column's mean in the last third of a run minus its mean in the first.

    The opening rounds do not count.
    """
    last, _ = column(history, key)[-1]
    early = _mean(history, key, _OPENING_ROUNDS + 1, last // 3)
    return _difference(_mean(history, key, last - last // 3 + 1, last), early)


def _fluctuation(history: History, key: str) -> float | None:
    """Return a column's mean change from round to round, as a share of its mean."""
    values = [value for _, value in column(history, key)[_OPENING_ROUNDS:]]
    if len(values) < 2:
        return None
    changes = [abs(later - earlier) for earlier, later in pairwise(values)]
    return statistics.fmean(changes) / statistics.fmean(values)


def _mean(history: History, key: str, first: int, last: int) -> float | None:
    """Return a column's mean over some rounds; None if it is known in none of them."""
    values = [value for number, value in known(history, key).items() if first <= number <= last]
    return statistics.fmean(values) if values else None


def _difference(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left - right


def burst_round(tables: Mapping[str, Any]) -> int | None:
    """Return the round of a job's burst; None if it has none.

    Example:
        >>> task = {"model": "softmax", "dataset": "mnist"}
        >>> burst_round({"task": task, "stream": {"preset": "burst", "scale": 0.1}})
        50
    """
    stream = tables.get("stream")
    if stream is None:
        return None
    if "at" not in stream:
        stream = preset(stream["preset"], tables["task"]["dataset"], stream.get("scale", 1.0))
    return stream.get("at")
