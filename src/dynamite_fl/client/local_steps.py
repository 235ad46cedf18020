"""The local steps of a round, for one client or for several clients at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from dynamite_fl._load import user_code
from dynamite_fl.client.flat_model import FlatModel, zero_if_none
from dynamite_fl.client.messages import ClientState, Order
from dynamite_fl.client.optimizer import Optimizer, load_state, read_state
from dynamite_fl.client.probe import ProbeMemory, gradient_variance
from dynamite_fl.client.step_path import (
    EARLY_STEPS,
    LONG_ROUND,
    MEASURED_GRADIENTS,
    PathRecorder,
    StepPath,
    steps_in_first_half,
)
from dynamite_fl.records import IntArray
from dynamite_fl.task.samples import Samples


@dataclass(frozen=True, eq=False)
class Measured:
    """What a step computed on the way.

    Attributes:
        losses: The loss of each client's batch before the step, (n,).
        gradients: The gradient of that loss, (n, trained); None if it was not asked for.
    """

    losses: Tensor
    gradients: Tensor | None = None


class StepComputer(Protocol):
    """Computes the local steps of n clients that share a model.

    This is the only part of a round that differs from executor to executor.
    """

    @property
    def trained(self) -> int:
        """The number of trained weights."""
        ...

    def begin(self, order: Order, clients: int) -> None:
        """Begin a round of so many clients at the order's global model."""
        ...

    def step(self, batches: Sequence[IntArray], *, measure: bool) -> Measured:
        """Take one local step of each client.

        Args:
            batches: The rows of each client's batch, n arrays.
            measure: Whether to return gradients. A step without them is faster.
        """
        ...

    def weights(self) -> Tensor:
        """Return the clients' models after the steps so far, a copy, (n, d)."""
        ...

    def gradient_sum(self) -> Tensor | None:
        """Return the sum of all gradients so far, (n, trained).

        It is None if it is the movement of the model divided by the learning rate, as with plain
        SGD.
        """
        ...

    def kept_state(self) -> ClientState:
        """Return a state with what the client keeps of its optimiser and of its model's buffers."""
        ...

    def gradient_variance(self, weights: Tensor, rows: IntArray) -> float:
        """Compute M_i at a model (d,) from the samples in these rows."""
        ...


class AutogradSteps:
    """Computes the steps of a single client (n = 1) with torch's autograd, for any model.

    The client's model is the module itself, which an optimiser of torch changes in place.

    Args:
        model: The model that is trained.
        samples: The samples that the rows of a batch point into.
        optimizer: What is done with gradients.
        state: The client's state after its last round.

    Attributes:
        samples: The samples that the rows of a batch point into.
    """

    def __init__(
        self,
        model: FlatModel,
        samples: Samples,
        optimizer: Optimizer,
        state: ClientState | None = None,
    ) -> None:
        self.model, self.samples = model, samples
        self._settings, self._state = optimizer, state or ClientState()
        self._sums: list[Tensor] | None = None

    @property
    def trained(self) -> int:
        """The number of trained weights; see ``StepComputer``."""
        return self.model.trained

    def begin(self, order: Order, clients: int) -> None:  # noqa: ARG002  there is one client
        """Load the global model, and make a new optimiser; see ``StepComputer``."""
        model = self.model
        model.load(order.weights, self._state.local_buffers)
        self._optimizer = self._settings.make(model.parameters, order.learning_rate)
        if self._settings.keep_state and self._state.optimizer:
            load_state(self._optimizer, self._state.optimizer)
        self._start: list[Tensor] = []
        if self._settings.proximal:
            self._start = [parameter.detach().clone() for parameter in model.parameters]
        sums_are_used = order.path and not self._settings.is_plain
        self._sums = [torch.zeros_like(p) for p in model.parameters] if sums_are_used else None

    def step(self, batches: Sequence[IntArray], *, measure: bool) -> Measured:
        """Take one local step; see ``StepComputer``."""
        (rows,) = batches
        with user_code("loading a batch of training samples"):
            batch = self.samples.batch(rows)
        loss = self.model.backward(batch)
        gradients = self.model.read_gradient()[None] if measure else None
        if self._sums is not None:
            for total, parameter in zip(self._sums, self.model.parameters, strict=True):
                total.add_(zero_if_none(parameter))
        self._change_gradients()
        self._optimizer.step()
        return Measured(loss[None], gradients)

    def weights(self) -> Tensor:
        """Return the local model; see ``StepComputer``."""
        return self.model.read()[None]

    def gradient_sum(self) -> Tensor | None:
        """Return the sum of gradients; see ``StepComputer``."""
        if self._sums is None:
            return None
        return torch.cat([total.reshape(-1) for total in self._sums]).cpu()[None]

    def kept_state(self) -> ClientState:
        """Return what the client keeps; see ``StepComputer``."""
        entries = read_state(self._optimizer) if self._settings.keep_state else ()
        return ClientState(optimizer=entries, local_buffers=self.model.read_local_buffers())

    def gradient_variance(self, weights: Tensor, rows: IntArray) -> float:
        """Compute M_i; see ``StepComputer``."""
        return gradient_variance(self.model, weights, self.samples, rows)

    def _change_gradients(self) -> None:
        """Add FedProx's term to the gradients, and clip them."""
        parameters, settings = self.model.parameters, self._settings
        for start, parameter in zip(self._start, parameters, strict=bool(self._start)):
            with torch.no_grad():
                pull = (parameter - start).mul_(settings.proximal)
                parameter.grad = pull if parameter.grad is None else parameter.grad.add_(pull)
        if settings.clip_norm is not None:
            clip_grad_norm_(parameters, settings.clip_norm)


@dataclass(frozen=True, eq=False)
class StepResults:
    """The results of all local steps of one client.

    Attributes:
        weights: The local model after the last step, (d,).
        first_loss: The loss of the first batch at the global model.
        memory: The results that a later probe compares with; None if the order asks for no memory.
        gradient: The gradient of the first batch at the global model, (trained,); None if the
            order asks for no memory.
        path: The path of the steps; None if the order does not ask for it.
        last_step: The last step, by which a trial judges the learning rate; None if the order
            does not ask for it.
    """

    weights: Tensor
    first_loss: float
    memory: ProbeMemory | None
    gradient: Tensor | None
    path: StepPath | None
    last_step: "LastStep | None" = None


@dataclass(frozen=True, eq=False)
class LastStep:
    """The last local step of a client.

    Attributes:
        batch: The rows of its batch.
        gradient: The gradient of the batch before the step, (trained,).
        movement: The weights before the step minus the weights after it, (trained,).
    """

    batch: IntArray
    gradient: Tensor
    movement: Tensor


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
    steps.begin(order, len(batches))
    path = PathRecorder(order.weights, steps.trained)
    seen: list[Measured] = []
    for index in range(order.local_steps):
        is_last = index + 1 == order.local_steps
        is_kept = order.remember or order.rate_trial == "check"
        before = steps.weights() if is_kept and is_last else None
        step_batches = [client_batches[index] for client_batches in batches]
        measured = steps.step(step_batches, measure=_is_measured(order, index))
        seen = [*seen[:1], measured]
        if measured.gradients is not None:
            path.record_gradients(measured.gradients)
        if order.path and index + 1 == EARLY_STEPS and order.local_steps >= LONG_ROUND:
            path.record_early(steps.weights())
        if order.path and index + 1 == steps_in_first_half(order.local_steps):
            path.record_first_half(steps.weights(), steps.gradient_sum())
    first, measured = seen[0], seen[-1]
    weights = steps.weights()
    last_batches = [client_batches[-1] for client_batches in batches]
    paths: Sequence[StepPath | None] = [None] * len(batches)
    if order.path:
        paths = path.paths(weights, [batch.size for batch in last_batches], stored)
    first_losses = first.losses.tolist()
    columns = zip(weights.unbind(), first_losses, paths, strict=True)
    results = [StepResults(local, loss, None, None, way) for local, loss, way in columns]
    if before is None or measured.gradients is None:
        return results
    last_losses, trained = measured.losses.tolist(), slice(steps.trained)
    for client, batch in enumerate(last_batches):
        start, gradient = before[client, trained], measured.gradients[client]
        if order.rate_trial == "check":
            last_step = LastStep(batch, gradient, start - weights[client, trained])
            results[client] = replace(results[client], last_step=last_step)
        if order.remember and first.gradients is not None:
            first_loss = first_losses[client]
            memory = ProbeMemory(batch, start, last_losses[client], gradient, first_loss)
            first_gradient = first.gradients[client]
            results[client] = replace(results[client], memory=memory, gradient=first_gradient)
    return results


def _is_measured(order: Order, index: int) -> bool:
    """Return whether a probe or the path uses the loss and the gradient of a step."""
    is_last = index + 1 == order.local_steps
    for_probe = order.remember and (index == 0 or is_last)
    for_trial = order.rate_trial == "check" and is_last
    return for_probe or for_trial or (order.path and index < MEASURED_GRADIENTS)
