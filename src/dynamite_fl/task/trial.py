"""A trial of a task before any training, so that a mistake in it shows at once."""

import torch
from torch import Tensor

from dynamite_fl._load import user_code
from dynamite_fl.errors import InvalidInput
from dynamite_fl.task.task import Task

_SAMPLES = 2


def try_task(task: Task) -> None:
    """Put two training samples through the model, the loss and the metric.

    Raises:
        InvalidInput: The loss or the metric does not return one value per sample.
        UserCodeError: The model, the loss or the metric raised an exception.
    """
    inputs, targets = task.train_inputs[:_SAMPLES], task.train_targets[:_SAMPLES]
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


def _check(field: str, values: object, samples: int, hint: str) -> None:
    """Refuse what is not a tensor with one value per sample."""
    if not isinstance(values, Tensor):
        raise InvalidInput(f"{field} returned a {type(values).__name__}, not a tensor: use {hint}")
    if values.shape != (samples,):
        raise InvalidInput(
            f"{field} returned the shape {tuple(values.shape)} for {samples} samples, but it must "
            f"return one value per sample: use {hint}"
        )
