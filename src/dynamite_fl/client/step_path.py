"""The path of a client's local steps, recorded without extra computation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from dynamite_fl.client.sketch import sketch

MEASURED_GRADIENTS = 3  # the number of first steps whose gradients show the noise
EARLY_STEPS = 4  # the first steps of a long round, whose share of its movement is measured
LONG_ROUND = 8 * EARLY_STEPS  # the local steps from which on a round is long


@dataclass(frozen=True, eq=False)
class StepPath:
    """What a client sends of the path of its local steps.

    Attributes:
        first_half: A sketch of the distance covered in the first half of the steps: the global
            model minus the local model after them, (m,).
        gradient_variance: The gradient variance M_i, estimated from the gradients of the first
            batches; NaN if they do not suffice.
        gradient_sum: A sketch of the sum of the gradients in the first half, (m,). None with plain
            SGD, where it is ``first_half`` divided by the learning rate.
        early_share: The share of the whole movement that the first four steps have made, along
            that movement. NaN if the round is not long.
    """

    first_half: Tensor
    gradient_variance: float
    gradient_sum: Tensor | None = None
    early_share: float = math.nan


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
        trained: The number of trained weights, which come first in a model's vector.
    """

    def __init__(self, weights: Tensor, trained: int) -> None:
        self._start, self._trained = weights[:trained], trained
        self._gradients: list[Tensor] = []
        self._early: Tensor | None = None

    def record_gradients(self, gradients: Tensor) -> None:
        """Record the gradients (n, trained) of a step; the first three steps show the noise."""
        if len(self._gradients) < MEASURED_GRADIENTS:
            self._gradients.append(gradients)

    def record_early(self, weights: Tensor) -> None:
        """Record the local models (n, d) after the first steps of a long round."""
        self._early = self._start - weights[:, : self._trained]

    def record_first_half(self, weights: Tensor, gradient_sums: Tensor | None) -> None:
        """Record the first half of the steps.

        Args:
            weights: The local models after it, (n, d).
            gradient_sums: The sum of each client's gradients in it, (n, trained); None with plain
                SGD.
        """
        self._first_half = sketch(self._start - weights[:, : self._trained])
        self._gradient_sums = None if gradient_sums is None else sketch(gradient_sums)

    def paths(
        self, weights: Tensor, batch_sizes: Sequence[int], stored: Sequence[int]
    ) -> list[StepPath]:
        """Return the path of each client.

        Batches share no sample until all samples have been used. Batches that use up all samples
        differ less from each other than random batches do, so M_i is then not estimated.

        Args:
            weights: The local models after all steps, (n, d).
            batch_sizes: The batch size of each client.
            stored: The number of samples that each client's batches are drawn from.
        """
        sizes, samples = np.array(batch_sizes), np.array(stored)
        variances = np.full(sizes.size, math.nan)
        if len(self._gradients) > 1:
            estimates = batch_gradient_variance(self._gradients).numpy() * sizes
            usable = (len(self._gradients) * sizes <= samples) & np.isfinite(estimates)
            variances = np.where(usable, estimates, math.nan)
        sums: Sequence[Tensor | None] = [None] * sizes.size
        if self._gradient_sums is not None:
            sums = self._gradient_sums.unbind()
        shares = self._early_shares(weights)
        return list(map(StepPath, self._first_half.unbind(), variances.tolist(), sums, shares))

    def _early_shares(self, weights: Tensor) -> list[float]:
        """Return the share of each client's movement that its first steps have made."""
        if self._early is None:
            return [math.nan] * len(weights)
        whole = (self._start - weights[:, : self._trained]).double()
        shares = (self._early.double() * whole).sum(-1) / whole.square().sum(-1)
        return [float(share) for share in shares]


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
