"""Ordinary mistakes in a task, by what torch says about them, and what to change."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dynamite_fl._load import user_code
from dynamite_fl.errors import InvalidInput, UserCodeError
from dynamite_fl.task.batch import tensors_in

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
    r"Expected target size": (
        "the classes must be the second dimension of the outputs, such as those of "
        "outputs.transpose(1, 2)"
    ),
    r"1D target tensor expected": "labels must be one number for each sample, of the shape (n,)",
    r"index out of range in self": (
        "an input is not less than the number of rows of an nn.Embedding, or is negative"
    ),
    r"input should be between 0 and 1": (
        "nn.BCELoss takes probabilities: use nn.BCEWithLogitsLoss, or end the model with a sigmoid"
    ),
    r"backward through the graph a second time": (
        "Task.training_step returns the loss, and its gradient is computed afterwards: leave "
        "loss.backward() out"
    ),
    r"floating point type for target with class probabilities": (
        "give the class of each sample, such as targets.argmax(dim=1), or targets.float()"
    ),
    r"argument 'target' .* must be Tensor, not (tuple|list|str)": (
        "targets must be numbers or tensors: if they are names of classes, number the classes"
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


@contextmanager
def explained(action: str, arguments: str = "") -> Iterator[None]:
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
            sizes, _, _ = str(error.__cause__).partition(". ")
            raise InvalidInput(
                f"{action.partition(',')[0]} compares each output with each target, because their "
                f"shapes differ: give targets the shape of the outputs ({sizes})"
            ) from None
        known = {_WRONG_ARGUMENTS: arguments, **_ADVICE} if arguments else _ADVICE
        for pattern, advice in known.items():
            if re.search(pattern, str(error.__cause__)):
                said = " ".join(str(error).split()).rstrip(".")
                raise InvalidInput(f"{said}: {advice}") from error.__cause__
        raise


def shapes(nest: Any) -> str:
    """Name the shapes of all tensors; the type of what holds none.

    Example:
        >>> import torch
        >>> shapes((torch.zeros(2, 3), {"mask": torch.zeros(2)}))
        'shapes (2, 3), (2,)'
    """
    names = [str(tuple(tensor.shape)) for tensor in tensors_in(nest)]
    if not names:
        return f"type {type(nest).__name__}"
    return ("shapes " if len(names) > 1 else "shape ") + ", ".join(names)
