"""The format that a model's samples must have."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.local_data.sources import Delivery
from dynamite_fl.errors import InvalidInput
from dynamite_fl.task.batch import to_device


@dataclass(frozen=True)
class SampleFormat:
    """The shapes and types of a model's samples.

    Attributes:
        input_shape: The shape of one sample's inputs.
        target_shape: The shape of one sample's target.
        input_type: The type of the inputs.
        target_type: The type of the targets; if it is an integer type, any integer type will do.
        classes: The number of classes if the targets are labels from 0; otherwise None.
    """

    input_shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    input_type: torch.dtype
    target_type: torch.dtype
    classes: int | None

    def tensors(self, delivery: Delivery) -> tuple[Tensor, Tensor]:
        """Return the inputs and targets of a delivery as tensors.

        Raises:
            InvalidInput: The samples do not have this format; the message names the delivery.
        """
        name = delivery.name
        inputs = _tensor(name, "inputs", delivery.inputs)
        targets = _tensor(name, "targets", delivery.targets)
        if not self.target_type.is_floating_point and not targets.is_floating_point():
            targets = targets.to(self.target_type)
        _check(name, "inputs", inputs, (len(inputs), *self.input_shape), self.input_type)
        _check(name, "targets", targets, (len(inputs), *self.target_shape), self.target_type)
        self._check_labels(name, targets)
        return inputs, targets

    def _check_labels(self, name: str, targets: Tensor) -> None:
        if self.classes is None or not targets.numel():
            return
        for label in (int(targets.min()), int(targets.max())):
            if not 0 <= label < self.classes:
                raise InvalidInput(
                    f"{name}: a label is {label}, but the model's are 0 to {self.classes - 1}"
                )


def _tensor(name: str, what: str, array: NDArray[Any]) -> Tensor:
    if array.ndim == 0:
        raise InvalidInput(f"{name}: {what} are a single number, not one for each sample")
    try:
        return torch.from_numpy(np.ascontiguousarray(array))
    except TypeError:
        raise InvalidInput(f"{name}: {what} are {array.dtype}, which are no numbers") from None


def _check(
    name: str, what: str, values: Tensor, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    if values.shape != shape:
        raise InvalidInput(
            f"{name}: {what} have shape {tuple(values.shape)}, but the model learns from {shape}"
        )
    if values.dtype != dtype:
        raise InvalidInput(f"{name}: {what} are {values.dtype}, but the model learns from {dtype}")
    if values.is_floating_point() and not bool(torch.isfinite(values).all()):
        raise InvalidInput(f"{name}: {what} are not all finite")


def sample_format(model: FlatModel) -> SampleFormat:
    """Return the format of a model's samples, from its task's data and the model's outputs.

    Integer targets are labels if the model has more than one output.
    """
    task = model.task
    shown = task.train if task.has_train_data else task.test
    batch = shown.batch(np.zeros(1, dtype=np.int64))
    parts = list(batch) if isinstance(batch, tuple) else []
    if len(parts) != 2 or not all(isinstance(part, Tensor) for part in parts):
        raise InvalidInput(
            "samples that arrive in a folder have one array of inputs and one of targets: the "
            "task's data must have them too, to show their format"
        )
    inputs, targets = parts
    model.load(model.first_weights)
    model.module.eval()
    with torch.no_grad():
        outputs, _ = task.outputs_and_targets(model.module, to_device(batch, model.device))
    is_matrix = isinstance(outputs, Tensor) and outputs.dim() == 2 and outputs.shape[1] > 1
    are_labels = is_matrix and targets.dim() == 1 and not targets.is_floating_point()
    return SampleFormat(
        input_shape=tuple(inputs.shape[1:]),
        target_shape=tuple(targets.shape[1:]),
        input_type=inputs.dtype,
        target_type=targets.dtype,
        classes=outputs.shape[1] if are_labels else None,
    )
