"""A trial of a task before any training, so that a mistake in it shows at once."""

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dynamite_fl._load import user_code
from dynamite_fl._random import random_stream
from dynamite_fl.errors import InvalidInput, UserCodeError
from dynamite_fl.records import IntArray
from dynamite_fl.task.batch import Batch, batch_length, map_tensors, tensors_in
from dynamite_fl.task.keyed_random import keyed_random
from dynamite_fl.task.mapped_file import MappedFile
from dynamite_fl.task.samples import JoinedSamples, Samples, TensorSamples
from dynamite_fl.task.task import Task

_SAME = 1e-3  # the relative difference below which two losses count as the same
# What torch says about ordinary mistakes, and what to change. The first that is found counts.
_ADVICE = {
    r"target dtype to be Long|scalar type Long but found": (
        "labels of classes must be of type int64, such as labels.long()"
    ),
    r"Target -?\d+ is out of bounds": (
        "labels count from 0 and must be less than the number of the model's outputs"
    ),
    r"shapes cannot be multiplied|size mismatch|must match the size of tensor|to have \d+ channels"
    r"|input\.size\(-1\) must be equal to input_size|Given normalized_shape": (
        "the size of a layer does not fit the shape of what it is given"
    ),
    r"indices'? to have one of the following scalar types|index_select.*Expected dtype int": (
        "an nn.Embedding needs whole numbers, such as inputs.long()"
    ),
    r"same dtype|expected .*(dtype|scalar type)|bias type .* should be the same": (
        "the data and the weights have different types; convert the data, such as inputs.float()"
    ),
    r"Target size": (
        "targets must have the shape of the outputs, such as targets[:, None] for outputs of the "
        "shape (n, 1)"
    ),
    r"1D target tensor expected": "labels must be one number for each sample, of the shape (n,)",
    r"index out of range in self": (
        "an input is not less than the number of rows of an nn.Embedding, or is negative"
    ),
    r"must be Tensor, not (list|str)": (
        "samples must hold tensors or numbers, such as those of dataset.with_format('torch'), or "
        "Task.collate_fn must make tensors of them"
    ),
    r"must be Tensor, not|object has no attribute '(argmax|shape|size|dim)'": (
        "it is given something else than a tensor: if the model returns several outputs, pick one "
        "of them by Task.predict; if the data holds lists, let Task.collate_fn make tensors of them"
    ),
}
_WRONG_ARGUMENTS = r"unexpected keyword argument|positional arguments? but|positional argument"


def try_task(task: Task, *, needs_test_data: bool = True, needs_train_data: bool = True) -> None:
    """Put batches of two and three samples through the model, the loss and the metrics.

    If targets are numbers in a tensor, the smallest and the largest one are among them.

    Args:
        task: The task.
        needs_test_data: Whether the task must have test data, as it must for an evaluation.
        needs_train_data: Whether the task must have training data.

    Raises:
        InvalidInput: Data is missing, the loss or a metric does not return a number, or a mistake
            was made that is known; the message says what to change.
        UserCodeError: The data, the model, the loss or a metric raised another exception.
    """
    with _explained("Task.model", "it is called without arguments, such as lambda: Net(10)"):
        model = task.new_model(seed=0)
        if task.new_model(seed=0) is model:
            raise InvalidInput(
                "Task.model returns the same model each time, so that one training would change "
                "it for the next: let it make a new one, or return copy.deepcopy(model)"
            )
    with keyed_random(random_stream(0, "trial"), torch.device("cpu")):
        if needs_train_data or task.has_train_data:
            for batch in _trial_batches(task.train, "train_data"):
                _try_training(task, model, batch)
        if needs_test_data or task.has_test_data:
            _try_evaluation(task, model, _trial_batches(task.test, "test_data"))


def _try_training(task: Task, model: nn.Module, batch: Batch) -> None:
    """Compute the loss of a batch and its gradient."""
    loss = _try_loss(task, model.train(), batch)
    if not loss.requires_grad:
        raise InvalidInput(
            "the loss does not depend on a weight with requires_grad=True: nothing can be learned "
            "(is the model detached, or are all weights frozen?)"
        )
    with _explained("the gradient of the loss"):
        loss.mean().backward()  # type: ignore[no-untyped-call]


def _try_evaluation(task: Task, model: nn.Module, batches: Sequence[Batch]) -> None:
    """Compute the loss and the metrics of batches."""
    model.eval()
    with torch.no_grad():
        for batch in batches:
            loss = _try_loss(task, model, batch)
            _check_mean(task, model, batch, float(loss.mean()))
        if not task.all_metrics:
            return
        results = [_predict(task, model, batch) for batch in batches]
    outputs, targets = [pair[0] for pair in results], [pair[1] for pair in results]
    for name, metric in task.all_metrics.items():
        action = f"metric {name}, on outputs of {_shapes(outputs[0])},"
        with _explained(action, "it is called with outputs and targets"):
            try:
                metric.compute(outputs, targets)
            except InvalidInput as error:
                raise InvalidInput(f"metric {name}: {error}") from None


def _try_loss(task: Task, model: nn.Module, batch: Batch) -> Tensor:
    """Return the loss of a batch; refuse what is not one number, nor one for each sample."""
    if task.training_step is not None:
        field, samples = "Task.training_step", batch_length(batch)
        with _explained(field, "it is called with the model and a batch"):
            loss = task.training_step(model, batch)
    else:
        field = "Task.loss"
        outputs, targets = _predict(task, model, batch)
        samples = batch_length((targets, batch))  # packed sequences count steps, targets samples
        loss_of: Any = task.loss
        action = f"Task.loss, on outputs of {_shapes(outputs)}, targets of {_shapes(targets)},"
        with _explained(action, "it is called with outputs and targets"):
            loss = loss_of(outputs, targets)
    _check_loss(field, loss, samples)
    return loss


def _predict(task: Task, model: nn.Module, batch: Batch) -> tuple[Any, Any]:
    if task.predict is not None:
        with _explained("Task.predict", "it is called with the model and a batch"):
            return task.predict(model, batch)
    how = "it is called with the inputs of a batch, a dict by its keys; or give Task.predict"
    with _explained(f"the model, on a batch of {_shapes(batch)},", how):
        return task.outputs_and_targets(model, batch)


def _trial_batches(samples: Samples, field: str) -> list[Batch]:
    with _explained(f"loading two samples of Task.{field}"):
        return [samples.batch(rows) for rows in _trial_rows(samples)]


def _trial_rows(samples: Samples) -> list[IntArray]:
    """Return two rows of the first client and three of the last one; some may be the same."""
    parts = samples.parts if isinstance(samples, JoinedSamples) else [samples]
    last = np.arange(len(samples) - len(parts[-1]), len(samples))
    return [
        np.array(_lowest_and_highest(parts[0])),
        last[[*_lowest_and_highest(parts[-1]), -1]],
    ]


def _lowest_and_highest(samples: Samples) -> list[int]:
    """Return the rows of the smallest and the largest target; the first two if not known."""
    targets = samples.targets if isinstance(samples, TensorSamples) else None
    if isinstance(targets, MappedFile):
        targets = targets.array
    if targets is not None and not isinstance(targets, tuple | dict) and targets.ndim == 1:
        return [int(targets.argmin()), int(targets.argmax())]
    return [0, min(1, len(samples) - 1)]


def _check_loss(field: str, loss: object, samples: int) -> None:
    """Refuse a loss that is not one number, nor one for each sample."""
    advice = "return the mean loss of the batch, as nn.CrossEntropyLoss() does"
    if not isinstance(loss, Tensor):
        raise InvalidInput(f"{field} returned a {type(loss).__name__}, not a tensor: {advice}")
    if tuple(loss.shape) not in ((), (1,), (samples,)) or not loss.is_floating_point():
        shape = f"{loss.dtype} of the shape {tuple(loss.shape)} for {samples} samples"
        raise InvalidInput(f"{field} returned {shape}: {advice}")
    if not bool(torch.isfinite(loss.detach()).all()):
        raise InvalidInput(
            f"{field} is {float(loss.detach().mean())} for the first samples: look at the data and "
            "the loss"
        )


def _check_mean(task: Task, model: nn.Module, batch: Batch, loss: float) -> None:
    """Refuse a loss that doubles if every sample is there twice, because it is a sum.

    Args:
        task: The task.
        model: The model, in evaluation mode.
        batch: A batch.
        loss: The loss of this batch.
    """
    samples = batch_length(batch)

    def twice(tensor: Tensor) -> Tensor:
        has_rows = tensor.dim() > 0 and len(tensor) == samples
        return torch.cat([tensor, tensor]) if has_rows else tensor

    doubled = math.nan
    with warnings.catch_warnings(), suppress(Exception):  # not every batch can be doubled
        warnings.simplefilter("ignore")
        doubled = float(task.batch_loss(model, map_tensors(twice, batch)))
    if abs(doubled - 2 * loss) < _SAME * abs(loss):
        field = "Task.loss" if task.training_step is None else "Task.training_step"
        raise InvalidInput(
            f"{field} returns the sum over a batch, not the mean, so that steps would grow with "
            'the batch size: leave reduction="sum" out, or divide by the number of samples'
        )


@contextmanager
def _explained(action: str, arguments: str = "") -> Iterator[None]:
    """Say what to change if an exception of the user's code is that of an ordinary mistake.

    Torch only warns if outputs and targets of different shapes are compared, each with each, which
    is a mistake.

    Args:
        action: What the user's code is doing, for the message.
        arguments: The arguments that it is called with, for the message if it takes others.
    """
    try:
        with warnings.catch_warnings(), user_code(action):
            warnings.filterwarnings("error", "Using a target size")
            yield
    except UserCodeError as error:
        if isinstance(error.__cause__, UserWarning):
            shapes, _, _ = str(error.__cause__).partition(". ")
            raise InvalidInput(
                f"{action.partition(',')[0]} compares each output with each target, because their "
                f"shapes differ: give targets the shape of the outputs ({shapes})"
            ) from None
        known = {_WRONG_ARGUMENTS: arguments, **_ADVICE} if arguments else _ADVICE
        for pattern, advice in known.items():
            if re.search(pattern, str(error.__cause__)):
                said = " ".join(str(error).split()).rstrip(".")
                raise InvalidInput(f"{said}: {advice}") from error.__cause__
        raise


def _shapes(nest: Any) -> str:
    """Name the shapes of all tensors.

    Example:
        >>> _shapes((torch.zeros(2, 3), {"mask": torch.zeros(2)}))
        'shapes (2, 3), (2,)'
    """
    shapes = [str(tuple(tensor.shape)) for tensor in tensors_in(nest)]
    return ("shapes " if len(shapes) > 1 else "shape ") + ", ".join(shapes)
