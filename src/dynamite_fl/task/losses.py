"""Losses of each sample, and whether the output of each sample is correct.

Computing many clients at once needs the loss of each sample, so that the mean can be taken for each
client. ``per_sample_loss`` finds it for the losses that people use.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

Loss = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the softmax cross-entropy (b,) of logits (b, classes) and labels (b,).

    Example:
        >>> cross_entropy(torch.zeros(1, 4), torch.tensor([2])).exp()
        tensor([4.])
    """
    return functional.cross_entropy(outputs, targets, reduction="none")


def per_sample_loss(loss: object) -> Loss | None:
    """Return a loss as a function to the loss of each sample; None if that is not known.

    It is known for the losses of this module, and for torch's cross-entropy unless it weighs or
    ignores classes.

    Example:
        >>> each = per_sample_loss(nn.CrossEntropyLoss())
        >>> each(torch.zeros(2, 4), torch.tensor([2, 0])).exp()
        tensor([4., 4.])
        >>> per_sample_loss(nn.CrossEntropyLoss(weight=torch.ones(4))) is None
        True
    """
    if loss in (cross_entropy, squared_hinge):
        return loss
    if loss is functional.cross_entropy:
        return cross_entropy
    if (
        type(loss) is nn.CrossEntropyLoss
        and loss.weight is None
        and loss.reduction != "sum"
        and loss.ignore_index < 0
    ):
        return partial(
            functional.cross_entropy,
            reduction="none",
            ignore_index=loss.ignore_index,
            label_smoothing=loss.label_smoothing,
        )
    return None


def squared_hinge(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return 1/2 max(0, 1 - y w'x)^2 of outputs w'x (b, 1), as (b,).

    The sign y is 1 for even labels and -1 for odd ones.

    Example:
        >>> squared_hinge(torch.tensor([[0.5], [0.5], [2.0]]), torch.tensor([4, 7, 0]))
        tensor([0.1250, 1.1250, 0.0000])
    """
    return functional.relu(1 - _margin(outputs, targets)).square() / 2


def sign_is_parity(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return whether outputs (b, 1) are above 0 for even and below 0 for odd labels, (b,).

    Example:
        >>> sign_is_parity(torch.tensor([[0.5], [0.5], [0.0]]), torch.tensor([4, 7, 0]))
        tensor([ True, False, False])
    """
    return _margin(outputs, targets) > 0


def _margin(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs[..., 0] * (1 - 2 * torch.remainder(targets, 2)).to(outputs.dtype)
