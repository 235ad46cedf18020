"""The path of a client's local steps, recorded without extra computation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from dynamite_fl.client.sketch import sketch

MEASURED_GRADIENTS = 3  # the number of first steps whose gradients show the noise


@dataclass(frozen=True, eq=False)
class StepPath:
    """What a client sends of the path of its local steps.

    Attributes:
        first_half: A sketch of the distance covered in the first half of the steps: the global
            model minus the local model after them, (m,).
        gradient_variance: The gradient variance M_i, estimated from the gradients of the first
            batches; NaN if they do not suffice.
    """

    first_half: Tensor
    gradient_variance: float


def steps_in_first_half(local_steps: int) -> int:
    """Return the number of steps in the first half of a round, including a middle step.

    Example:
        >>> [steps_in_first_half(local_steps) for local_steps in (1, 2, 5)]
        [1, 1, 3]
    """
    return -(-local_steps // 2)


class PathRecorder:
    """Records the path of the local steps of n clients.

    Args:
        weights: The global model, from which the steps begin, (d,).
        local_steps: The number of steps that there will be.
    """

    def __init__(self, weights: Tensor, local_steps: int) -> None:
        self._start, self._steps = weights, local_steps
        self._gradients: list[Tensor] = []

    def record(self, step: int, weights: Tensor, gradients: Tensor | None) -> None:
        """Record a step.

        Args:
            step: The number of the step, from 0.
            weights: The local models after it, (n, d).
            gradients: Its gradients, (n, d); they are used for the first steps only.
        """
        if gradients is not None and step < MEASURED_GRADIENTS:
            self._gradients.append(gradients)
        if step + 1 == steps_in_first_half(self._steps):
            self._first_half = sketch(self._start - weights)

    def paths(self, batch_sizes: Sequence[int], stored: Sequence[int]) -> list[StepPath]:
        """Return the path of each client.

        Batches share no sample until all samples have been used. Batches that use up all samples
        differ less from each other than random batches do, so M_i is then not estimated.

        Args:
            batch_sizes: The batch size of each client.
            stored: The number of samples that each client's batches are drawn from.
        """
        sizes, samples = np.array(batch_sizes), np.array(stored)
        variances = np.full(sizes.size, math.nan)
        if len(self._gradients) > 1:
            estimates = batch_gradient_variance(self._gradients).numpy() * sizes
            usable = (len(self._gradients) * sizes <= samples) & np.isfinite(estimates)
            variances = np.where(usable, estimates, math.nan)
        return list(map(StepPath, self._first_half.unbind(), variances.tolist()))


def batch_gradient_variance(gradients: Sequence[Tensor]) -> Tensor:
    """Estimate M_i / s, the variance of a batch's gradient, from two or three of them, (..., d).

    Local steps change the mean gradient, at first by about the same amount in every step. Of three
    gradients, the first minus twice the second plus the third therefore has mean 0 and variance
    6 M_i / s. Of two gradients, the difference has variance 2 M_i / s and a mean that is not 0.

    Example:
        >>> import torch
        >>> first, second = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 2.0])
        >>> float(batch_gradient_variance([first, second]))
        2.5
        >>> float(batch_gradient_variance([first, second, 2 * second - first]))
        0.0
    """
    if len(gradients) == 2:
        return (gradients[0] - gradients[1]).double().square().sum(-1) / 2
    first, second, third = gradients
    return (first - 2 * second + third).double().square().sum(-1) / 6
