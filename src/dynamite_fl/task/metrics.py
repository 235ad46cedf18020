"""Metrics: numbers that say how good a model's outputs are.

A metric is a function of all outputs and targets of the test data, or one of torchmetrics. The
first metric of a task leads: comparisons, targets and reports use it.
"""

import importlib.util
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dynamite_fl._validate import check_name
from dynamite_fl.errors import InvalidInput, MissingExtra
from dynamite_fl.task.batch import tensors_in

LOSS = "loss"  # the metric that every evaluation has

# Names that histories and trackers have for other things.
RESERVED = {"metrics", "client_metrics", "client_mean", "worst_client", "class_accuracy", LOSS}
RESERVED |= {"stream_loss", "estimates", "bound", "probed", "absent", "refused", "slowest"}
RESERVED |= {"round", "seconds", "cost", "samples", "sent_bytes", "round_seconds", "learning_rate"}
RESERVED |= {"local_steps", "batch_mean", "batch_least", "batch_most", "batch_sizes", "clients"}
RESERVED |= {"step_seconds", "comm_seconds", "arrived", "returned", "epsilon"}
# Words in the names of metrics of which lower is better.
_ERRORS = {"error", "loss", "mse", "rmse", "mae", "mape", "nll", "perplexity", "distance"}
_UNDEFINED = "No (positive|negative) samples in targets"  # a warning of torchmetrics


@dataclass(frozen=True, init=False)
class Metric:
    """A number that is computed from a model's outputs and targets.

    Attributes:
        function: A function from all outputs and targets of the test data to a number, or an
            object of ``torchmetrics``.
        higher_is_better: Whether a larger number is better. Default: what a torchmetrics object
            says, and True for a function.
        per_sample: For an accuracy, a function from outputs and targets to whether each output is
            correct, (b,); it gives the accuracy of each class as well. None otherwise.

    Example:
        >>> rmse = Metric(
        ...     lambda outputs, targets: (outputs - targets).square().mean().sqrt(),
        ...     higher_is_better=False,
        ... )
        >>> rmse.compute([torch.tensor([1.0, 2.0])], [torch.tensor([1.0, 4.0])])
        1.4142135381698608
    """

    function: Callable[[Any, Any], Any]
    higher_is_better: bool
    per_sample: Callable[[Tensor, Tensor], Tensor] | None = field(repr=False)

    def __init__(
        self,
        function: Callable[[Any, Any], Any],
        higher_is_better: bool | None = None,
        per_sample: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        if higher_is_better is None:
            higher_is_better = _direction(function)
        fields = {"function": function, "higher_is_better": higher_is_better}
        for key, value in {**fields, "per_sample": per_sample}.items():
            object.__setattr__(self, key, value)  # the dataclass is frozen

    def compute(self, outputs: Sequence[Any], targets: Sequence[Any]) -> float:
        """Return the metric of all batches' outputs and targets.

        Raises:
            InvalidInput: Outputs of several batches cannot be joined, or it is not one number.
        """
        if _is_torchmetric(self.function):
            return _one_number(_torchmetric_value(self.function, outputs, targets))
        return _one_number(self.function(_join(outputs), _join(targets)))


def accuracy_of(correct: Callable[[Tensor, Tensor], Tensor]) -> Metric:
    """Return the share of correct outputs as a metric.

    Args:
        correct: A function from outputs (b, ...) and targets (b, ...) to booleans (b,).
    """
    return Metric(partial(_share, correct), higher_is_better=True, per_sample=correct)


def _share(correct: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, targets: Tensor) -> float:
    return float(correct(outputs, targets).double().mean())


def _largest_is_target(outputs: Tensor, targets: Tensor) -> Tensor:
    chosen = outputs.argmax(dim=-1)
    if chosen.shape != targets.shape:
        raise InvalidInput(
            f"accuracy needs outputs (..., classes) and the class of each: outputs of the shape "
            f"{tuple(outputs.shape)} have targets of the shape {tuple(targets.shape)}"
        )
    return chosen == targets


def _sign_is_target(outputs: Tensor, targets: Tensor) -> Tensor:
    return (_as_targets(outputs, targets) > 0) == (targets > 0.5)


def _rmse(outputs: Tensor, targets: Tensor) -> float:
    return float((_as_targets(outputs, targets) - targets).double().square().mean().sqrt())


def _mae(outputs: Tensor, targets: Tensor) -> float:
    return float((_as_targets(outputs, targets) - targets).double().abs().mean())


def _as_targets(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return outputs in the shape of the targets, which may differ by dimensions of size 1.

    Without this, outputs (n, 1) and targets (n,) would make a table of all pairs.
    """
    if outputs.squeeze().shape != targets.squeeze().shape:
        raise InvalidInput(
            f"outputs of the shape {tuple(outputs.shape)} do not fit targets of the shape "
            f"{tuple(targets.shape)}: a metric of numbers needs one output for each target"
        )
    return outputs.reshape(targets.shape)


def _perplexity(outputs: Tensor, targets: Tensor) -> float:
    """Return exp of the mean cross-entropy of logits (..., classes); targets -100 do not count."""
    logits = outputs.reshape(-1, outputs.shape[-1]).double()
    return float(torch.nn.functional.cross_entropy(logits, targets.reshape(-1)).exp())


accuracy = accuracy_of(_largest_is_target)
binary_accuracy = accuracy_of(_sign_is_target)
rmse = Metric(_rmse, higher_is_better=False)
mae = Metric(_mae, higher_is_better=False)
perplexity = Metric(_perplexity, higher_is_better=False)

NAMED: Mapping[str, Metric] = {
    "accuracy": accuracy,
    "binary_accuracy": binary_accuracy,
    "rmse": rmse,
    "mae": mae,
    "perplexity": perplexity,
}


def as_metric(name: str, given: Any) -> Metric:
    """Return a metric for what a user gives: a metric, its name, a torchmetrics object, a function.

    Args:
        name: The metric's name in messages.
        given: A ``Metric``; a name of ``NAMED``; the name of a torchmetrics class that needs no
            argument, such as ``BinaryF1Score``; an object of such a class; or a function.
    """
    if isinstance(given, Metric):
        return given
    if isinstance(given, str):
        return NAMED[given] if given in NAMED else as_metric(name, _torchmetric(given))
    if isinstance(given, type):
        raise InvalidInput(f"metric {name!r} is the class {given.__name__}: give an object of it")
    if callable(given):
        if not _is_torchmetric(given) and not _ERRORS.isdisjoint(re.split("[_-]", name.lower())):
            raise InvalidInput(
                f"metric {name!r} is a function, for which higher is better unless you say "
                "otherwise: give fl.metrics.Metric(function, higher_is_better=False)"
            )
        return Metric(given)
    raise InvalidInput(
        f"metric {name!r} is a {type(given).__name__}: give a function, a name or a Metric"
    )


def as_metrics(given: Any) -> dict[str, Metric]:
    """Return a task's metrics by name, in order; the first leads.

    Args:
        given: A mapping from names to metrics, a list of names, or None for no metric.

    Example:
        >>> list(as_metrics(["rmse", "mae"]))
        ['rmse', 'mae']
    """
    if given is None:
        return {}
    if isinstance(given, str | Metric) or not isinstance(given, Iterable):
        raise InvalidInput('metrics must be a dict such as {"accuracy": fl.metrics.accuracy}')
    pairs = given.items() if isinstance(given, Mapping) else [(name, name) for name in given]
    metrics = {str(name): as_metric(str(name), metric) for name, metric in pairs}
    for name in metrics:
        if name in RESERVED:
            raise InvalidInput(
                f"a metric cannot be named {name!r}, because histories have something else of "
                f"that name: use another, such as test_{name}"
            )
        if not name.replace("_", "").replace("-", "").isalnum():
            raise InvalidInput(f"a metric cannot be named {name!r}: use letters, digits, - and _")
    return metrics


def _direction(function: Any) -> bool:
    """Return whether higher is better: what torchmetrics says, and True for a function."""
    if not _is_torchmetric(function):
        return True
    higher = getattr(function, "higher_is_better", None)
    if higher is None:
        raise InvalidInput(
            f"{type(function).__name__} does not say whether higher is better: give "
            "Metric(..., higher_is_better=True) or False"
        )
    return bool(higher)


def _torchmetric_value(metric: Any, outputs: Sequence[Any], targets: Sequence[Any]) -> Any:
    """Return the value of a torchmetrics object, of all batches as one if they can be joined.

    Many classes take outputs for probabilities if all of a batch are between 0 and 1, and for
    logits otherwise. One batch must not be taken for another kind than the others. Torchmetrics
    warns and returns 0 if targets have one class only, of which an AUC is undefined.
    """
    metric = deepcopy(metric)
    metric.reset()
    if all(isinstance(part, Tensor) for part in (*outputs, *targets)):
        with suppress(InvalidInput):  # of different shapes: one after the other
            outputs, targets = [_join(outputs)], [_join(targets)]
    for batch_outputs, batch_targets in zip(outputs, targets, strict=True):
        metric.update(batch_outputs, batch_targets)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", _UNDEFINED)
        try:
            return metric.compute()
        except UserWarning:
            return math.nan


def _one_number(value: Any) -> float:
    """Return the value of a metric as a float; refuse what is not one number."""
    advice = "it must return one number: use the mean, or average='macro' or the like"
    if isinstance(value, Tensor | np.ndarray | np.generic):
        if math.prod(value.shape) != 1:
            raise InvalidInput(f"a metric returned the shape {tuple(value.shape)}, but {advice}")
        return float(value.item())
    if isinstance(value, int | float):
        return float(value)
    raise InvalidInput(f"a metric returned a {type(value).__name__}, but {advice}")


def _join(parts: Sequence[Any]) -> Any:
    """Join the outputs or targets of batches, which may be nested."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    if isinstance(first, Mapping):
        return {key: _join([part[key] for part in parts]) for key in first}
    if isinstance(first, list) and not any(True for _ in tensors_in(first)):  # such as texts
        return [entry for part in parts for entry in part]
    if isinstance(first, tuple | list):
        return tuple(_join(list(column)) for column in zip(*parts, strict=True))
    if not isinstance(first, Tensor):
        return list(parts)
    try:
        return torch.cat(list(parts))
    except RuntimeError:
        raise InvalidInput(
            "outputs of different batches have different shapes and cannot be joined: use a "
            "torchmetrics object, which takes one batch after the other"
        ) from None


def _is_torchmetric(value: object) -> bool:
    return all(hasattr(value, name) for name in ("update", "compute", "reset"))


def _torchmetric(name: str) -> Any:
    """Return an object of a torchmetrics class by its name."""
    if importlib.util.find_spec("torchmetrics") is None:
        if name.islower():  # torchmetrics' classes have capital letters
            check_name("metric", name, NAMED)
        raise MissingExtra(f"the metric {name}", "metrics")
    import torchmetrics
    from torchmetrics import classification, regression, text

    for module in (classification, regression, text, torchmetrics):  # the last has old names
        kind = getattr(module, name, None)
        if isinstance(kind, type):
            try:
                return kind()
            except (TypeError, ValueError) as error:
                raise InvalidInput(
                    f"metric {name} needs arguments: give an object of it in Python ({error})"
                ) from None
    check_name("metric", name, [*NAMED, *classification.__all__, *regression.__all__])
    raise AssertionError("check_name refuses a name that is not there")
