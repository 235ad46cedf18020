"""The local steps of a round, for one client or for several clients at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.messages import Order
from dynamite_fl.client.probe import ProbeMemory, gradient_variance
from dynamite_fl.client.step_path import MEASURED_GRADIENTS, PathRecorder, StepPath
from dynamite_fl.records import IntArray


@dataclass(frozen=True, eq=False)
class Step:
    """One local step of n clients.

    Attributes:
        weights: The local models after the step, (n, d).
        losses: The loss of each client's batch before the step, (n,).
        gradients: The gradient of that loss, (n, d).
    """

    weights: Tensor
    losses: Tensor
    gradients: Tensor


class StepComputer(Protocol):
    """Computes the local steps of n clients that share a model.

    This is the only part of a round that differs from executor to executor.
    """

    def step(self, weights: Tensor, batches: Sequence[IntArray], learning_rate: float) -> Step:
        """Compute one local step of each client.

        Args:
            weights: The local models before the step, (n, d); they stay as they are.
            batches: The rows of each client's batch, n arrays.
            learning_rate: The learning rate.
        """
        ...

    def step_weights(
        self, weights: Tensor, batches: Sequence[IntArray], learning_rate: float
    ) -> Tensor:
        """Compute only the local models after a step, (n, d); ``weights`` may be overwritten."""
        ...

    def gradient_variance(self, weights: Tensor, rows: IntArray) -> float:
        """Compute M_i at the weights (d,) from the samples in these rows."""
        ...


@dataclass(frozen=True, eq=False)
class AutogradSteps:
    """Computes the steps of a single client (n = 1) with torch's autograd, for any model.

    Attributes:
        model: The model that is trained.
        inputs: The inputs that the rows of a batch point into.
        targets: The targets that the rows of a batch point into.
    """

    model: FlatModel
    inputs: Tensor
    targets: Tensor

    def step(self, weights: Tensor, batches: Sequence[IntArray], learning_rate: float) -> Step:
        """Compute one local step; see ``StepComputer``."""
        (batch,) = batches
        loss, gradient = self.model.gradient(weights[0], *self.samples(batch))
        gradients = gradient[None]
        return Step(weights - learning_rate * gradients, loss[None], gradients)

    def step_weights(
        self, weights: Tensor, batches: Sequence[IntArray], learning_rate: float
    ) -> Tensor:
        """Compute only the local model after a step; see ``StepComputer``."""
        return self.step(weights, batches, learning_rate).weights

    def gradient_variance(self, weights: Tensor, rows: IntArray) -> float:
        """Compute M_i; see ``StepComputer``."""
        return gradient_variance(self.model, weights, *self.samples(rows))

    def samples(self, rows: IntArray) -> tuple[Tensor, Tensor]:
        """Return the inputs and targets in these rows."""
        places = torch.from_numpy(rows)
        return self.inputs[places], self.targets[places]


@dataclass(frozen=True, eq=False)
class StepResults:
    """The results of all local steps of one client.

    Attributes:
        weights: The local model after the last step, (d,).
        memory: What a later probe compares with; None if the order asks for no memory.
        gradient: The gradient of the first batch at the global model, (d,); None if the order asks
            for no memory.
        path: The path of the steps; None if the order does not ask for it.
    """

    weights: Tensor
    memory: ProbeMemory | None
    gradient: Tensor | None
    path: StepPath | None


def take_local_steps(
    order: Order, batches: Sequence[Sequence[IntArray]], stored: Sequence[int], steps: StepComputer
) -> list[StepResults]:
    """Take the local steps of n clients from the global model.

    Args:
        order: The order; all clients' orders are the same except for client and batch size.
        batches: For each client, the rows of the batch of each local step.
        stored: For each client, the number of samples that its batches are drawn from.
        steps: Computes a step of all n clients.
    """
    weights = order.weights.detach().repeat(len(batches), 1)  # (n, d)
    path = PathRecorder(order.weights, order.local_steps)
    first: Step | None = None
    for index in range(order.local_steps):
        step_batches = [client_batches[index] for client_batches in batches]
        if _gradients_are_needed(order, index):
            before, step = weights, steps.step(weights, step_batches, order.learning_rate)
            weights, gradients = step.weights, step.gradients
            first = first or step
        else:
            weights = steps.step_weights(weights, step_batches, order.learning_rate)
            gradients = None
        if order.path:
            path.record(index, weights, gradients)
    last_batches = [client_batches[-1] for client_batches in batches]
    paths = path.paths([batch.size for batch in last_batches], stored) if order.path else None
    if not order.remember or first is None:
        return [
            StepResults(local_weights, None, None, paths[client] if paths else None)
            for client, local_weights in enumerate(weights.unbind())
        ]
    # The order asks for a memory, so ``step`` is the last step and ``before`` the models before it.
    last_losses, first_losses = step.losses.tolist(), first.losses.tolist()
    return [
        StepResults(
            weights=weights[client],
            memory=ProbeMemory(
                batch=batch,
                weights=before[client],
                loss=last_losses[client],
                gradient=step.gradients[client],
                first_loss=first_losses[client],
            ),
            gradient=first.gradients[client],
            path=paths[client] if paths else None,
        )
        for client, batch in enumerate(last_batches)
    ]


def _gradients_are_needed(order: Order, index: int) -> bool:
    """Return whether a probe or the path uses the losses and gradients of a step.

    A step whose gradients are not used can be computed faster (``StepComputer.step_weights``).
    """
    for_probe = order.remember and index in (0, order.local_steps - 1)
    return for_probe or (order.path and index < MEASURED_GRADIENTS)
