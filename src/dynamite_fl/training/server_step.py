"""What server optimisers work on, and the step from an averaged round to the new global model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.records import FloatArray
from dynamite_fl.training.server_optimizer import ServerOptimizer


@dataclass(frozen=True, eq=False)
class ServerState:
    """What a server optimiser carries from round to round.

    Attributes:
        first_moment: The momentum, or the mean movement of earlier rounds, (d,). None before the
            first round, and if the optimiser has none.
        second_moment: The mean square of the movement of earlier rounds, (d,). None likewise.
        last_movement: The movement of the average in the last round, (d,). None likewise.
        factor: How many times as far as the average the server moved in the last round.
    """

    first_moment: Tensor | None = None
    second_moment: Tensor | None = None
    last_movement: Tensor | None = None
    factor: float = 1.0


@dataclass(frozen=True, eq=False)
class AveragedRound:
    """The local models of a round and their average.

    Attributes:
        weights: The global model before the round, w, (d,).
        average: The average of the local models, (d,).
        updates: The local models that were averaged, w_i.
        shares: The weight of each of them in the average; p_i = D_i / D if all clients take part.
        scales: The factor by which each movement was changed before it was averaged, c_i. None if
            none was.
        is_last: Whether the training ends with this round.
    """

    weights: Tensor
    average: Tensor
    updates: Sequence[Tensor]
    shares: FloatArray
    scales: FloatArray | None = None
    is_last: bool = False

    def first(self, count: int) -> "AveragedRound":
        """Return the same for the first numbers of the model only."""
        return replace(
            self,
            weights=self.weights[:count],
            average=self.average[:count],
            updates=[update[:count] for update in self.updates],
        )

    def stretched(self, factor: float, trained: int) -> "AveragedRound":
        """Return the same with a movement of the trained weights that is longer by a factor.

        Args:
            factor: The factor; 1 changes nothing.
            trained: How many of the model's numbers are trained weights. They come first.
        """
        if factor == 1.0:
            return self
        longer = torch.lerp(self.weights[:trained], self.average[:trained], factor)
        scales = factor * (np.ones(len(self.updates)) if self.scales is None else self.scales)
        return replace(self, average=torch.cat([longer, self.average[trained:]]), scales=scales)

    @property
    def movement(self) -> Tensor:
        """The movement of the average, w - average, which takes the place of a gradient."""
        return self.weights - self.average

    @property
    def squared_norm(self) -> float:
        """The squared norm of the movement of the average."""
        return _squared_norm(self.movement)

    @property
    def mean_squared_norm(self) -> float:
        """The mean squared norm of the clients' movements, sum_i p_i |c_i (w - w_i)|^2."""
        norms = [_squared_norm(self.weights - update) for update in self.updates]
        if self.scales is not None:
            norms = [float(c) ** 2 * norm for c, norm in zip(self.scales, norms, strict=True)]
        return sum(float(share) * norm for share, norm in zip(self.shares, norms, strict=True))

    @property
    def disagreement(self) -> float:
        """The mean squared norm of the clients' movements, divided by that of the average.

        It is 1 if all clients move alike, and NaN if the average does not move.
        """
        square = self.squared_norm
        return self.mean_squared_norm / square if square > 0 else math.nan


def server_step(
    server: ServerOptimizer, averaged: AveragedRound, state: ServerState, trained: int
) -> tuple[Tensor, ServerState]:
    """Return the new global model, and the optimiser's state after the round.

    Args:
        server: The server optimiser.
        averaged: The local models of the round and their average.
        state: The optimiser's state before the round.
        trained: How many of the model's numbers are trained weights. They come first. The other
            numbers are statistics, such as those of batch normalisation, and are always averaged.

    Example:
        >>> import numpy as np
        >>> from dynamite_fl.training.server_optimizer import FedAvgM
        >>> old, new = torch.tensor([1.0, 1.0]), torch.tensor([0.5, 0.5])
        >>> averaged = AveragedRound(old, new, [new], np.array([1.0]))
        >>> server_step(FedAvgM(learning_rate=2.0), averaged, ServerState(), trained=1)[0]
        tensor([0.0000, 0.5000])
    """
    weights, state = server.step(averaged.first(trained), state)
    return torch.cat([weights, averaged.average[trained:]]), state


def _squared_norm(vector: Tensor) -> float:
    return float(torch.linalg.vector_norm(vector, dtype=torch.float64)) ** 2
