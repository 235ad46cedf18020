"""What a client measures of its loss, from gradients it needs anyway.

A round's last gradient, at the local model of that moment, and the next round's first, at the
new global model, are taken on the same batch. Their differences give Algorithm 3's rho_i and
beta_i, and the second alone gives c_i, at no computation of their own.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, vmap

from dynamite_fl.client.flat import FlatModel

_CLOSEST = 1e-10  # models closer than this say nothing about the loss between them


@dataclass(frozen=True, eq=False)
class Memory:
    """What a client keeps from one round to the next.

    Attributes:
        batch: Its last batch, as rows of the data.
        weights: The local model at which that batch was used, (d,).
        loss: The batch's loss there.
        gradient: The batch's gradient there, (d,).
        first_loss: The loss of its first batch in that round, at the global model.
    """

    batch: np.ndarray[tuple[int], np.dtype[np.int64]]
    weights: Tensor
    loss: float
    gradient: Tensor
    first_loss: float


@dataclass(frozen=True)
class Figures:
    """One client's part of a ``Probe``.

    NaN where the models are too close to tell; drift is NaN where data does not stream.
    """

    loss: float
    quadratic_bound: float
    lipschitz: float
    smoothness: float
    pl_constant: float
    drift: float


def measure(
    memory: Memory, weights: Tensor, loss: float, gradient: Tensor, drift: float = math.nan
) -> Figures:
    """Algorithm 3, lines 8-10, at the new global model ``weights``."""
    distance = float(torch.linalg.vector_norm(memory.weights - weights))
    change = abs(memory.loss - loss)
    turn = float(torch.linalg.vector_norm(memory.gradient - gradient))
    far = distance > _CLOSEST
    return Figures(
        loss=loss,
        quadratic_bound=change / distance**2 if far else math.nan,
        lipschitz=change / distance if far else math.nan,
        smoothness=turn / distance if far else math.nan,
        pl_constant=float(gradient.dot(gradient)) / (2 * loss) if loss > 0 else math.nan,
        drift=drift,
    )


def gradient_variance(
    model: FlatModel, weights: Tensor, inputs: Tensor, targets: Tensor, chunk: int = 16
) -> float:
    """M_i, the trace of the covariance of per-sample gradients, from at least two samples."""
    if len(inputs) < 2:
        return 0.0

    def one_loss(flat: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return model.loss(flat, x[None], y[None])

    per_sample = vmap(grad(one_loss), in_dims=(None, 0, 0), chunk_size=chunk)
    gradients = per_sample(weights, inputs, targets)  # (m, d)
    return float((gradients - gradients.mean(0)).square().sum() / (len(inputs) - 1))
