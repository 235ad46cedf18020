"""The global model from the local ones."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dynamite_fl.records import FloatArray


def sound_average(
    updates: Sequence[Tensor], samples: FloatArray, like: Tensor
) -> tuple[Tensor, NDArray[np.bool_]]:
    """The average of those updates that can be averaged, and which they are.

    They must be of the model's shape and kind, and finite. The average of what is not finite is not
    finite, so each is looked at only if that is so. If there is none, it is the model as it was.
    """
    alike = [each.shape == like.shape and each.dtype == like.dtype for each in updates]
    fine = np.array(alike, dtype=bool)
    found = _average_of(updates, samples, fine, like)
    if not torch.isfinite(found).all():
        fine &= [bool(torch.isfinite(each).all()) for each in updates]
        found = _average_of(updates, samples, fine, like)
    return found, fine


def _average_of(
    updates: Sequence[Tensor], samples: FloatArray, these: NDArray[np.bool_], like: Tensor
) -> Tensor:
    if not these.any():
        return like
    kept = [update for update, ok in zip(updates, these, strict=True) if ok]
    return average(kept, samples[these])


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
