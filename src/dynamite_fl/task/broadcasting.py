"""Whether a loss or a metric compares each output with each target by mistake.

Outputs (n, 1) and targets (n,) have equally many numbers, but their difference is a table (n, n).
The mean of that table is one number like any other, so training seems to work, and learns the mean
of all targets.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

_SAME = 1e-5  # the relative difference up to which two results count as the same


def compares_all_pairs(
    function: Callable[[Any, Any], Any], outputs: object, targets: object
) -> bool:
    """Return whether a function of outputs and targets makes a table of all pairs of them.

    In a table it does not matter which target belongs to which output. So the targets are exchanged
    among the outputs. If that changes nothing, but does change the result for outputs and targets
    of the same shape, the function makes a table.

    Args:
        function: A loss or a metric.
        outputs: The outputs of a few samples.
        targets: The targets of the same samples.

    Example:
        >>> outputs, targets = torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 3.0])
        >>> compares_all_pairs(lambda o, t: (o - t).square().mean(), outputs, targets)
        True
        >>> compares_all_pairs(lambda o, t: (o[:, 0] - t).square().mean(), outputs, targets)
        False
    """
    if not isinstance(outputs, Tensor) or not isinstance(targets, Tensor):
        return False
    if outputs.shape == targets.shape or outputs.numel() != targets.numel():
        return False
    if not math.isfinite(_number(function, outputs, targets)):
        return False
    shapes = outputs.shape, targets.shape

    def matters(tried: Tensor, *shapes: torch.Size) -> bool:
        """Return whether it matters which target belongs to which output in these shapes."""
        first, *others = [
            _number(function, tried.reshape(shapes[0]), targets.roll(by, 0).reshape(shapes[1]))
            for by in range(3)
        ]
        return any(abs(first - other) > _SAME * max(abs(first), abs(other)) for other in others)

    variants = list(_variants(outputs, targets))
    if any(matters(tried, *shapes) for tried in variants):
        return False
    return any(matters(tried, shape, shape) for tried in variants for shape in shapes)


def _variants(outputs: Tensor, targets: Tensor) -> Iterator[Tensor]:
    """Yield the outputs, and others that differ more: all outputs of a new model may be the same.

    They differ by square roots, because whole numbers could have no correlation with the targets.
    """
    yield outputs
    roots = torch.arange(outputs.numel(), device=outputs.device).sqrt().reshape(outputs.shape)
    size = float(targets.double().abs().max())
    for factor in (0.1, 1.0, -1.0):
        yield outputs + (factor * size * roots).to(outputs.dtype)


def _number(function: Callable[[Any, Any], Any], outputs: Tensor, targets: Tensor) -> float:
    """Return the mean of what a function returns; NaN if it does not take these shapes."""
    with torch.no_grad(), suppress(Exception):
        return float(torch.as_tensor(function(outputs, targets)).double().mean())
    return math.nan
