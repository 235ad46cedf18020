"""A task's module, and the one flat vector in which its model crosses borders.

The vector holds what a round can change: first the trained weights, then the persistent buffers of
finite floating-point numbers, such as the statistics of batch normalisation. Frozen weights,
counters and masks with infinities are the same everywhere, because every side makes the model under
the same seed, so they are not sent. Tied weights are one entry.

A device can also keep its buffers to itself. Then the vector has trained weights only.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from dynamite_fl._load import user_code
from dynamite_fl.client.batch_norm import (
    NORMALISED_BATCH,
    accept_single_values,
    depends_on_batch,
)
from dynamite_fl.client.module_state import ModuleState
from dynamite_fl.errors import InvalidInput
from dynamite_fl.task.batch import Batch, to_device
from dynamite_fl.task.task import Task

BufferPlace = tuple[nn.Module, str]  # the module that has a buffer, and the buffer's name there


@dataclass(frozen=True)
class Compute:
    """Where and how precisely a model is computed.

    Attributes:
        device: The device of torch: ``cpu``, ``cuda``, ``mps``, or ``auto`` for the best there is.
        precision: ``float32``, or ``bfloat16`` to compute outputs and losses by torch's autocast.
        local_buffers: Whether buffers, such as statistics of batch normalisation, stay on each
            device instead of being averaged.
    """

    device: str = "cpu"
    precision: str = "float32"
    local_buffers: bool = False

    def torch_device(self) -> torch.device:
        """Return the device.

        Raises:
            InvalidInput: This machine does not have it.
        """
        is_there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        name = self.device
        if name == "auto":
            name = next((kind for kind in is_there if is_there[kind]), "cpu")
        if not is_there.get(name, True):
            raise InvalidInput(f'training.device is "{name}", which this machine does not have')
        return torch.device(name)


class FlatModel:
    """A task's module and its flat vector of weights and buffers, (d,).

    Args:
        task: The task.
        seed: The seed of the first weights.
        compute: Where the module is computed. Vectors are always on the CPU.

    Attributes:
        module: The module. Every use loads a vector first, which also undoes all other changes.
        trained: The number of trained weights, which come first in a vector.
        first_weights: The vector before training, (d,).

    Example:
        >>> x, y = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]])
        >>> task = Task(
        ...     model=lambda: torch.nn.Linear(2, 1, bias=False),
        ...     loss=lambda outputs, targets: (outputs - targets).square().mean() / 2,
        ...     train_data=(x, y),
        ... )
        >>> loss, gradient = FlatModel(task, seed=0).gradient(torch.zeros(2), (x, y))
        >>> float(loss), gradient.tolist()  # 9/2, -3 x
        (4.5, [-3.0, -6.0])
    """

    def __init__(self, task: Task, seed: int, compute: Compute | None = None) -> None:
        self.task = task
        self.compute = compute or Compute()
        self.device = self.compute.torch_device()
        self.module = task.new_model(seed).to(self.device)
        if isinstance(task.loss, nn.Module) and self.device.type != "cpu":  # weights of classes
            self.task = replace(task, loss=deepcopy(task.loss).to(self.device))
        if any(isinstance(part, torch.jit.ScriptModule) for part in self.module.modules()):
            raise InvalidInput(
                f"the model of {task.name} was compiled by torch.jit: give the module as it was "
                "before, or use torch.compile"
            )
        self._parts = list(self.module.modules())
        self._all_parameters = list(self.module.parameters())
        self.parameters = [p for p in self._all_parameters if p.requires_grad]
        if any(parameter.is_complex() for parameter in self.parameters):
            raise InvalidInput(
                f"the model of {task.name} has complex weights, which cannot be averaged here: "
                "keep their real and imaginary parts, torch.view_as_real(weights)"
            )
        buffers = _floating_buffers(self.module)
        self._averaged, self._local = ([], buffers) if self.compute.local_buffers else (buffers, [])
        self._sizes = [tensor.numel() for tensor in self._exchanged()]
        self._first_state = ModuleState(self.module)
        self._takes_single_values = False
        self.trained = sum(parameter.numel() for parameter in self.parameters)
        self.first_weights = self.read()

    def __len__(self) -> int:
        return sum(self._sizes)

    @property
    def least_batch(self) -> int | None:
        """The least number of samples in a batch; None if one sample is enough.

        It is what the task says, or 8 if the model has batch normalisation.
        """
        if self.task.least_batch is None:
            return NORMALISED_BATCH if depends_on_batch(self.module) else None
        return None if self.task.least_batch == 1 else self.task.least_batch

    def load(self, weights: Tensor, local_buffers: Tensor | None = None) -> None:
        """Load a vector into the module, and reset everything else to its first state.

        Args:
            weights: The vector, (d,).
            local_buffers: The buffers that a device keeps to itself, as ``read_local_buffers``
                returned them. Default: the first ones.
        """
        self._first_state.restore()
        _unflatten(weights, self._exchanged())
        if local_buffers is not None:
            _unflatten(local_buffers, _tensors(self._local))

    def read_local_buffers(self) -> Tensor | None:
        """Return the buffers that a device keeps to itself; None if there are none."""
        return _flat(_tensors(self._local)) if self._local else None

    def read(self) -> Tensor:
        """Return the module's vector, a copy, (d,).

        Raises:
            InvalidInput: A buffer has another size than at first.
        """
        tensors = self._exchanged()
        if [tensor.numel() for tensor in tensors] != self._sizes:
            raise InvalidInput(
                f"a buffer of the model of {self.task.name} changes its size: register it with "
                "persistent=False, so that it is not averaged"
            )
        return _flat(tensors)

    def read_gradient(self) -> Tensor:
        """Return the gradient that the module's weights hold, a copy; zero where they have none."""
        return _flat([zero_if_none(parameter) for parameter in self.parameters])

    def state_dict(self, weights: Tensor, local_buffers: Tensor | None = None) -> dict[str, Tensor]:
        """Return the module's whole state for a vector, by its names, as a copy.

        Args:
            weights: The vector, (d,).
            local_buffers: The buffers that devices keep to themselves. Default: the first ones.
        """
        self.load(weights, local_buffers)
        # A module may add something that is no tensor, by ``get_extra_state``.
        return {
            name: value.detach().cpu().clone() if isinstance(value, Tensor) else value
            for name, value in self.module.state_dict().items()
        }

    def loss(self, batch: Batch) -> Tensor:
        """Compute F_S(w), the mean loss of a batch plus the penalty, at the module's weights."""
        with self.autocast():
            loss = self.task.batch_loss(self.module, to_device(batch, self.device))
        if self.task.penalty:
            squares = sum(parameter.square().sum() for parameter in self.parameters)
            loss = loss + self.task.penalty / 2 * squares
        return loss

    def gradient(self, weights: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Compute F_S(w) and its gradient (trained,), in training mode."""
        self.load(weights)
        return self.backward(batch), self.read_gradient()

    def train(self) -> None:
        """Put the module into training mode; batch normalisation takes single values too.

        Raises:
            InvalidInput: No weight is trained.
        """
        if not self.parameters:
            raise InvalidInput(
                f"the model of {self.task.name} has no weight with requires_grad=True: it learns "
                "nothing"
            )
        if not self._takes_single_values:  # not before: a model that is only evaluated is a user's
            accept_single_values(self.module)
            self._takes_single_values = True
        if not all(part.training for part in self._parts):  # to look is faster than to set
            self.module.train()

    def backward(self, batch: Batch) -> Tensor:
        """Compute the loss of a batch in training mode; its gradient is in the module's weights."""
        self.train()
        for parameter in self._all_parameters:
            parameter.grad = None
        with user_code("a local step"):
            loss = self.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        for parameter in self.parameters:
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_dense()  # few optimisers take sparse ones
        return loss.detach()

    def autocast(self) -> torch.autocast:
        """Return the context that computes in the precision that was asked for."""
        lower = self.compute.precision != "float32"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=lower)

    def _exchanged(self) -> list[Tensor]:
        """Return the weights and buffers of the vector, which a module may have replaced."""
        return [*self.parameters, *_tensors(self._averaged)]


def zero_if_none(parameter: nn.Parameter) -> Tensor:
    """Return a weight's gradient; zeros if the loss does not depend on it."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _floating_buffers(module: nn.Module) -> list[BufferPlace]:
    """Return the owner and the name of each persistent buffer of finite floating-point numbers.

    A buffer that several modules share is listed once.
    """
    places: dict[int, tuple[nn.Module, str]] = {}
    for owner in module.modules():
        for name, buffer in owner._buffers.items():
            is_kept = name not in owner._non_persistent_buffers_set
            if buffer is None or not is_kept or not buffer.is_floating_point():
                continue
            if bool(torch.isfinite(buffer).all()):
                places.setdefault(id(buffer), (owner, name))
    return list(places.values())


def _tensors(places: Sequence[BufferPlace]) -> list[Tensor]:
    """Return the buffers at these places, with an empty tensor for each that is gone."""
    buffers = [owner._buffers.get(name) for owner, name in places]
    return [torch.empty(0) if buffer is None else buffer for buffer in buffers]


def _unflatten(vector: Tensor, tensors: Sequence[Tensor]) -> None:
    """Copy the parts of a vector into tensors."""
    parts = torch.split(vector, [tensor.numel() for tensor in tensors])
    with torch.no_grad():
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view(tensor.shape))


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    parts = [tensor.detach().reshape(-1) for tensor in tensors]
    return torch.cat(parts).cpu() if parts else torch.empty(0)
