"""A trial of a task before any training, so that a mistake in it shows at once."""

import torch
from torch import Tensor, nn

from dynamite_fl._load import user_code
from dynamite_fl.errors import InvalidInput
from dynamite_fl.task.task import Task

_SAMPLES = 2


def try_task(task: Task) -> None:
    """Put two training samples through the model, the loss and the metric.

    One of them has the largest label, if targets are labels.

    Raises:
        InvalidInput: The loss or the metric does not return one value per sample.
        UserCodeError: The model, the loss or the metric raised an exception.
    """
    _check_factory(task)
    rows = _rows(task.train_targets)
    inputs, targets = task.train_inputs[rows], task.train_targets[rows]
    with user_code("Task.make_model"):
        model = task.new_model(seed=0)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        with user_code(f"the model, on inputs of shape {tuple(inputs.shape)},"):
            outputs = model(inputs)
        with user_code("Task.loss, on the model's outputs,"):
            losses = task.loss(outputs, targets)
        with user_code("Task.correct, on the model's outputs,"):
            correct = task.correct(outputs, targets)
    _check("Task.loss", losses, len(inputs), 'such as CrossEntropyLoss(reduction="none")')
    _check("Task.correct", correct, len(inputs), "such as outputs.argmax(dim=1) == targets")
    if correct.dtype != torch.bool:
        raise InvalidInput(
            f"Task.correct returned {correct.dtype}, but it must return booleans: use "
            "outputs.argmax(dim=1) == targets or the like"
        )


def _check_factory(task: Task) -> None:
    if isinstance(task.make_model, nn.Module):
        raise InvalidInput(
            "Task.make_model is a model: give a function that returns a new one, such as "
            "lambda: Net()"
        )


def _rows(targets: Tensor) -> Tensor:
    """Return the first sample and, among labels, one of the largest label."""
    labels = targets.dim() == 1 and not targets.is_floating_point()
    last = int(targets.argmax()) if labels else min(_SAMPLES, len(targets)) - 1
    return torch.tensor([0, last])


def _check(field: str, values: object, samples: int, hint: str) -> None:
    """Refuse what is not a tensor with one value per sample."""
    if not isinstance(values, Tensor):
        raise InvalidInput(f"{field} returned a {type(values).__name__}, not a tensor: use {hint}")
    if values.shape != (samples,):
        raise InvalidInput(
            f"{field} returned the shape {tuple(values.shape)} for {samples} samples, but it must "
            f"return one value per sample: use {hint}"
        )
