"""Losses of each sample, and whether the output of each sample is correct."""

import torch
from torch import Tensor
from torch.nn import functional


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the softmax cross-entropy (b,) of logits (b, classes) and labels (b,).

    Example:
        >>> cross_entropy(torch.zeros(1, 4), torch.tensor([2])).exp()
        tensor([4.])
    """
    return functional.cross_entropy(outputs, targets, reduction="none")


def largest_is_target(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return whether the largest logit is that of the label, (b,).

    Example:
        >>> largest_is_target(torch.tensor([[1.0, 3, 2]]), torch.tensor([1]))
        tensor([True])
    """
    return outputs.argmax(dim=-1) == targets


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
