"""What a loss takes a model's outputs for: logits, probabilities, or their logarithms.

Torch computes a number from the wrong kind too, and training then learns little or diverges.
"""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from dynamite_fl.errors import InvalidInput

_TOLERANCE = 1e-2  # of a sum of probabilities, which bfloat16 rounds
_NEW_SHAPES = ("View", "Squeeze", "Unsqueeze", "ReshapeAlias")  # operations that keep all values


def check_output_kind(loss: object, outputs: Any) -> None:
    """Refuse outputs of another kind than a loss of torch takes.

    Args:
        loss: The loss; losses that are not of torch are not known.
        outputs: A model's outputs for a batch, (b, classes, ...) or (b, ...), in training.

    Raises:
        InvalidInput: The outputs are of another kind; the message says what to change.

    Example:
        >>> import torch
        >>> check_output_kind(nn.NLLLoss(), nn.Linear(3, 2)(torch.ones(1, 3)))
        Traceback (most recent call last):
        dynamite_fl.errors.InvalidInput: nn.NLLLoss takes logarithms of probabilities, which ...
    """
    if not isinstance(outputs, Tensor) or not outputs.is_floating_point():
        return
    if _is(loss, nn.NLLLoss, functional.nll_loss) and not _are_log_probabilities(outputs):
        raise InvalidInput(
            "nn.NLLLoss takes logarithms of probabilities, which the model's outputs are not: use "
            "nn.CrossEntropyLoss, which takes them as they come from a linear layer, or end the "
            "model with nn.LogSoftmax(dim=1)"
        )
    if _is(loss, nn.CrossEntropyLoss, functional.cross_entropy) and _are_probabilities(outputs):
        raise InvalidInput(
            "nn.CrossEntropyLoss has the softmax in it, but the model's outputs are probabilities "
            "already, with which little is learned: leave the softmax out of the model"
        )
    with_logits = functional.binary_cross_entropy_with_logits
    if _is(loss, nn.BCEWithLogitsLoss, with_logits) and _come_from_sigmoid(outputs):
        raise InvalidInput(
            "nn.BCEWithLogitsLoss has the sigmoid in it, but the model ends with one too, so that "
            "little is learned: leave it out of the model, or use nn.BCELoss"
        )


def _is(loss: object, kind: type[nn.Module], function: object) -> bool:
    return isinstance(loss, kind) or loss is function


def _are_log_probabilities(outputs: Tensor) -> bool:
    return outputs.dim() < 2 or _are_ones(outputs.detach().float().exp().sum(dim=1))


def _are_probabilities(outputs: Tensor) -> bool:
    """Return whether outputs of several classes are not negative and have the sum 1."""
    if outputs.dim() < 2 or outputs.shape[1] == 1 or bool((outputs < 0).any()):
        return False
    return _are_ones(outputs.detach().float().sum(dim=1))


def _are_ones(sums: Tensor) -> bool:
    return bool(((sums - 1).abs() < _TOLERANCE).all())


def _come_from_sigmoid(outputs: Tensor) -> bool:
    """Return whether a sigmoid is the last operation that has changed values."""
    operation = outputs.grad_fn
    while operation is not None and operation.name().startswith(_NEW_SHAPES):
        operation = operation.next_functions[0][0]
    return operation is not None and operation.name().startswith("Sigmoid")
