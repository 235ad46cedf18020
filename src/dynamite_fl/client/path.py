"""What a client's local steps show on their way, at no computation of its own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from dynamite_fl.client.sketch import sketch

GRADIENTS = 3  # of a round's first steps, from which noise is told


@dataclass(frozen=True, eq=False)
class Path:
    """What the path of local steps shows.

    Attributes:
        head: A sketch of how far the first half of the steps led, w - w_i, (m,).
        gradient_variance: M_i, from the first batches; NaN where they cannot tell.
    """

    head: Tensor
    gradient_variance: float


def head_steps(local_steps: int) -> int:
    """How many steps the first half of a round has, the middle one included.

    Example:
        >>> [head_steps(local_steps) for local_steps in (1, 2, 5)]
        [1, 1, 3]
    """
    return -(-local_steps // 2)


class Tracker:
    """Follows local steps, of one client or of a stack of them.

    Args:
        weights: Where they begin, (d,).
        local_steps: How many there will be.
    """

    def __init__(self, weights: Tensor, local_steps: int) -> None:
        self._start, self._steps = weights, local_steps
        self._gradients: list[Tensor] = []

    def step(self, step: int, weights: Tensor, gradient: Tensor | None) -> None:
        """After step 0, 1, ...: where it led, and its gradient, needed of the first steps only."""
        if gradient is not None and step < GRADIENTS:
            self._gradients.append(gradient)
        if step + 1 == head_steps(self._steps):
            self._head = sketch(self._start - weights)

    def path(self, batch_size: int, at_hand: int) -> Path:
        """What one client's steps showed."""
        return self.paths([batch_size], [at_hand])[0]

    def paths(self, batch_sizes: Sequence[int], at_hand: Sequence[int]) -> list[Path]:
        """What each client's steps showed.

        Batches share no sample until all were used. Where the first ones use up all that is at
        hand, they differ less than batches do, and nothing is said of the noise.
        """
        sizes, rows = np.array(batch_sizes), np.array(at_hand)
        noise = np.full(sizes.size, math.nan)
        if len(self._gradients) > 1:
            found = noise_of(self._gradients).reshape(sizes.size).numpy() * sizes
            few = len(self._gradients) * sizes <= rows
            noise = np.where(few & np.isfinite(found), found, math.nan)
        return list(map(Path, self._head.reshape(sizes.size, -1).unbind(), noise.tolist()))


def noise_of(gradients: Sequence[Tensor]) -> Tensor:
    """M_i / s, the variance of a batch's gradient, from two or three of them, (..., d).

    Local steps move their mean, evenly at first: of three, twice the second less the first and
    the third has mean 0 and variance 6 M_i / s. Of two, the difference has 2 M_i / s and what
    moved.

    Example:
        >>> import torch
        >>> first, second = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 2.0])
        >>> float(noise_of([first, second]))
        2.5
        >>> float(noise_of([first, second, 2 * second - first]))
        0.0
    """
    if len(gradients) == 2:
        return (gradients[0] - gradients[1]).double().square().sum(-1) / 2
    first, second, third = gradients
    return (first - 2 * second + third).double().square().sum(-1) / 6
