"""A probe: a client's measurements of its loss.

A probe compares the loss and the gradient of a round's last batch at two models: at the local model
of that round, and at the global model when the next round begins. Their differences give rho_i and
beta_i of Algorithm 3, and the gradient at the global model alone gives c_i.

- The paper's probe, which is used where probes are free, computes both gradients for this purpose.
  The local model is the one after the last step, and the next round begins with a new batch.
- A probe that is charged saves both. The local model is the one before the last step, which
  computed that gradient anyway, and the next round begins with the same batch.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dynamite_fl.client.batch_norm import depends_on_batch
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.sample_gradients import GradientSums, sample_gradients
from dynamite_fl.records import IntArray
from dynamite_fl.task.batch import Batch
from dynamite_fl.task.samples import Samples

_SMALLEST_DISTANCE = 1e-10  # models closer than this show nothing about the loss between them
_SAMPLES_AT_ONCE = 32  # in one backward pass, which bounds its memory


@dataclass(frozen=True, eq=False)
class ProbeMemory:
    """What a client keeps of a round so that the next probe can compare with it.

    Attributes:
        batch: The rows of the round's last batch.
        weights: The trained weights of the local model, (trained,).
        loss: The loss of the last batch at that local model.
        gradient: The gradient of the last batch at that local model, (trained,).
        first_loss: The loss of the round's first batch at the global model.
    """

    batch: IntArray
    weights: Tensor
    loss: float
    gradient: Tensor
    first_loss: float


@dataclass(frozen=True)
class ProbeFigures:
    """One client's row of a ``reports.Probe``.

    A figure is NaN if the two models are too close to measure it. The drift is NaN if the client
    has all its samples from the start.
    """

    loss: float
    quadratic_bound: float
    lipschitz: float
    smoothness: float
    pl_constant: float
    drift: float


def measure(
    memory: ProbeMemory, weights: Tensor, loss: float, gradient: Tensor, drift: float = math.nan
) -> ProbeFigures:
    """Compare the last round's results with those at the new global model: Algorithm 3, lines 8-10.

    Args:
        memory: The last round's results.
        weights: The trained weights of the new global model, (trained,).
        loss: The loss of the memory's batch at the new global model.
        gradient: The gradient of the memory's batch at the new global model, (trained,).
        drift: The drift of this round.
    """
    distance = float(torch.linalg.vector_norm(memory.weights - weights))
    loss_change = abs(memory.loss - loss)
    gradient_change = float(torch.linalg.vector_norm(memory.gradient - gradient))
    is_far = distance > _SMALLEST_DISTANCE
    return ProbeFigures(
        loss=loss,
        quadratic_bound=loss_change / distance**2 if is_far else math.nan,
        lipschitz=loss_change / distance if is_far else math.nan,
        smoothness=gradient_change / distance if is_far else math.nan,
        pl_constant=float(gradient.dot(gradient)) / (2 * loss) if loss > 0 else math.nan,
        drift=drift,
    )


def gradient_variance(model: FlatModel, weights: Tensor, samples: Samples, rows: IntArray) -> float:
    """Measure M_i, the trace of the covariance of the samples' gradients; 0 for one sample.

    Only the sum of the gradients and the sum of their squares are kept. Where one backward pass
    shows them for many samples, that is used (``sample_gradients.py``). For any other model,
    gradients are computed of one sample after the other. The gradient of one sample is not defined
    where outputs depend on the whole batch, as with batch normalisation. There, the gradients of
    pairs are compared: their covariance is half as large.

    Args:
        model: The model.
        weights: The weights at which it is measured, (d,).
        samples: The samples that rows point into.
        rows: The rows of the samples that it is measured on.
    """
    size = 2 if depends_on_batch(model.module) else 1
    groups = rows.size // size
    if groups < 2:
        return 0.0
    model.load(weights)
    total = torch.zeros(model.trained, dtype=torch.float64)
    squares = 0.0
    of_samples = sample_gradients(model)
    at_once = size if of_samples is None else _SAMPLES_AT_ONCE
    for start in range(0, groups * size, at_once):
        batch = samples.batch(rows[start : min(start + at_once, groups * size)])
        sums = _gradient_of(model, batch) if of_samples is None else of_samples.sums(batch)
        total += sums.gradients
        squares += sums.squares
    variance = (squares - float(total.dot(total)) / groups) / (groups - 1)
    return max(variance * size, 0.0)


def _gradient_of(model: FlatModel, batch: Batch) -> GradientSums:
    """Compute the gradient of a single sample or pair, as sums over one."""
    model.backward(batch)
    gradient = model.read_gradient().double()
    return GradientSums(gradient, float(gradient.dot(gradient)))
