"""What is measured of a run: one number, from its history."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dynamite_fl.report.history import History, Line
from dynamite_fl.stream.presets import preset

AROUND = 5  # rounds before a burst, and from it on, that are compared
AFTER = 10  # rounds after a burst in which a training recovers
_KNOWN, _LOST = 0.2, 0.01  # accuracies of a class
_OPENING = 2  # rounds that Algorithm 2 plays before it can choose

# What of a history can be drawn, and what an axis calls it.
COLUMNS = {
    "accuracy": "test accuracy",
    "loss": "test loss",
    "stream_loss": "loss on all that arrived",
    "local_steps": "local steps",
    "batch_mean": "mean batch size",
}


@dataclass(frozen=True)
class Setting:
    """What a panel is like, as far as measures depend on it.

    Attributes:
        target: The accuracy to reach; None if nobody says.
        burst: The round of the burst; None if there is none.
    """

    target: float | None = None
    burst: int | None = None


@dataclass(frozen=True)
class Measure:
    """A number of a run.

    Attributes:
        title: What it is, for an axis or a table.
        form: How it is written, as ``format`` takes it.
        of: The number; None if the run does not say.
    """

    title: str
    form: str
    of: Callable[[History, Setting, int | None], float | None]


def burst_round(tables: Mapping[str, Any]) -> int | None:
    """The round of a job's burst; None if it has none.

    Example:
        >>> task = {"model": "softmax", "dataset": "mnist"}
        >>> burst_round({"task": task, "stream": {"preset": "burst", "scale": 0.1}})
        50
    """
    stream, task = tables.get("stream"), tables.get("task")
    if stream is None:
        return None
    if "preset" in stream and "at" not in stream:
        dataset = task["dataset"] if isinstance(task, Mapping) else ""
        stream = preset(stream["preset"], dataset, stream.get("scale", 1.0))
    return stream.get("at")


def _accuracy(history: History, _: Setting, at_round: int | None) -> float | None:
    """At the last evaluation, or at the last up to a round that was played."""
    lines = history.lines
    if at_round is not None:
        if lines[-1]["round"] < at_round:
            return None
        lines = tuple(line for line in lines if line["round"] <= at_round)
    found: float | None = History(lines).last("accuracy")
    return found


def _worst_class(history: History, *_: object) -> float | None:
    worst = history.worst_class
    return None if worst is None else worst[1]


def _forgotten(history: History, *_: object) -> float | None:
    """The share of classes that were known at some evaluation and are lost at the last."""
    judged = [line["class_accuracy"] for line in history.lines if line.get("class_accuracy")]
    if not judged:
        return None
    lost = [
        name
        for name, accuracy in judged[-1].items()
        if accuracy <= _LOST and any(each.get(name, 0.0) >= _KNOWN for each in judged)
    ]
    return len(lost) / len(judged[-1])


def _at_end(key: str) -> Callable[..., float | None]:
    def found(history: History, *_: object) -> float | None:
        value = history.last(key)
        return None if value is None else float(value)

    return found


def _to_target(key: str) -> Callable[..., float | None]:
    """What a run used until it reached the target; all it used, at least, if it never did."""

    def found(history: History, setting: Setting, *_: object) -> float | None:
        if setting.target is None:
            return None
        line = history.first_reaching(setting.target) or history.lines[-1]
        return float(line[key])

    return found


def _after_burst(history: History, setting: Setting, *_: object) -> float | None:
    if setting.burst is None:
        return None
    return _mean(history.lines, "stream_loss", setting.burst, setting.burst + AFTER)


def _roughness(history: History, setting: Setting, *_: object) -> float | None:
    """How much the loss rises from one round to the next, but for the burst's own rise.

    Falls do not count: a fast recovery is not rough.
    """
    losses = [(line["round"], line.get("stream_loss")) for line in history.lines]
    rises = [
        max(later - earlier, 0.0)
        for (_, earlier), (number, later) in pairwise(losses)
        if earlier is not None and later is not None and number != setting.burst
    ]
    return statistics.fmean(rises) if rises else None


def _change(key: str) -> Callable[..., float | None]:
    """From the first third of a training, less its opening rounds, to the last."""

    def found(history: History, *_: object) -> float | None:
        last = history.lines[-1]["round"]
        early = _mean(history.lines, key, _OPENING + 1, last // 3)
        late = _mean(history.lines, key, last - last // 3 + 1, last)
        return None if early is None or late is None else late - early

    return found


def _unrest(key: str) -> Callable[..., float | None]:
    """How much a column changes from round to round, as a share of its mean."""

    def found(history: History, *_: object) -> float | None:
        values = [line[key] for line in history.lines[_OPENING:]]
        if len(values) < 2:
            return None
        changes = [abs(b - a) for a, b in pairwise(values)]
        return statistics.fmean(changes) / statistics.fmean(values)

    return found


def _steps_at_burst(history: History, setting: Setting, *_: object) -> float | None:
    if setting.burst is None:
        return None
    before = _mean(history.lines, "local_steps", setting.burst - AROUND, setting.burst - 1)
    after = _mean(history.lines, "local_steps", setting.burst + 1, setting.burst + AROUND)
    return None if before is None or after is None else after - before


def _mean(lines: Sequence[Line], key: str, first: int, last: int) -> float | None:
    """The mean over some rounds; None if none of them says."""
    found = [line.get(key) for line in lines if first <= line["round"] <= last]
    known = [float(value) for value in found if value is not None]
    return statistics.fmean(known) if known else None


MEASURES = {
    "accuracy": Measure("test accuracy", ".1%", _accuracy),
    "worst_class": Measure("accuracy of the worst class", ".1%", _worst_class),
    "forgotten": Measure("classes known once and lost", ".1%", _forgotten),
    "rounds": Measure("rounds", ",.0f", _at_end("round")),
    "seconds": Measure("seconds", ",.1f", _at_end("seconds")),
    "cost": Measure("cost", ",.1f", _at_end("cost")),
    "stream_loss": Measure("loss on all that arrived", ".3f", _at_end("stream_loss")),
    "seconds_to_target": Measure(
        "seconds to FedAvg's accuracy, or all", ",.1f", _to_target("seconds")
    ),
    "cost_to_target": Measure("cost to FedAvg's accuracy, or all", ",.1f", _to_target("cost")),
    "loss_after_burst": Measure(f"loss in {AFTER} rounds from the burst", ".3f", _after_burst),
    "roughness": Measure("rise of the loss a round", ".4f", _roughness),
    "steps_change": Measure("local steps, last third less first", "+.1f", _change("local_steps")),
    "batch_change": Measure("mean batch, last third less first", "+.1f", _change("batch_mean")),
    "steps_unrest": Measure("change of local steps a round", ".1%", _unrest("local_steps")),
    "batch_unrest": Measure("change of the mean batch a round", ".1%", _unrest("batch_mean")),
    "steps_at_burst": Measure(
        f"local steps, {AROUND} rounds after the burst less {AROUND} before",
        "+.1f",
        _steps_at_burst,
    ),
}
