"""The global model from the local ones."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dynamite_fl.records import FloatArray


def sound(update: Tensor, like: Tensor) -> bool:
    """Whether an update can be averaged: of the model's shape and kind, and finite."""
    same = update.shape == like.shape and update.dtype == like.dtype
    if not same:
        return False
    # Nothing infinite has a finite sum, which is quicker to see; a sum may also overflow.
    return bool(torch.isfinite(update.sum())) or bool(torch.isfinite(update).all())


def average(updates: Sequence[Tensor], samples: FloatArray) -> Tensor:
    """sum_i D_i w_i / sum_i D_i, summed in double precision and in the order given.

    Example:
        >>> import numpy as np
        >>> average([torch.tensor([1.0]), torch.tensor([5.0])], np.array([30.0, 10.0]))
        tensor([2.])
    """
    total = torch.zeros_like(updates[0], dtype=torch.float64)
    for update, count in zip(updates, samples, strict=True):
        total.add_(update, alpha=float(count))
    return (total / float(samples.sum())).to(updates[0].dtype)
