"""From local models to the global one."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dynamite_fl.records import FloatArray

_PIECE = 2**16  # numbers that are summed at once, so that their sum stays in a cache


def sound_average(
    updates: Sequence[Tensor], samples: FloatArray, like: Tensor
) -> tuple[Tensor, NDArray[np.bool_]]:
    """Average those updates that are finite and of the model's shape and type.

    An average is finite only if all of its parts are, so updates are examined one by one only if
    the first average is not.

    Args:
        updates: The clients' local models.
        samples: The weight of each update, its client's number of samples.
        like: The global model before the round, which is returned if no update is sound.

    Returns:
        The average, and a mask of the updates that are in it.
    """
    sound = np.array([_alike(update, like) for update in updates], dtype=bool)
    result = _average_of(updates, samples, sound, like)
    if not torch.isfinite(result).all():
        sound &= [bool(torch.isfinite(update).all()) for update in updates]
        result = _average_of(updates, samples, sound, like)
    return result, sound


def are_sound(updates: Sequence[Tensor], like: Tensor) -> NDArray[np.bool_]:
    """Return which updates are finite and of the model's shape and type."""
    return np.array(
        [_alike(update, like) and bool(torch.isfinite(update).all()) for update in updates],
        dtype=bool,
    )


def average(updates: Sequence[Tensor], samples: FloatArray) -> Tensor:
    """Return sum_i D_i w_i / sum_i D_i, summed in double precision and in the order given.

    Example:
        >>> import numpy as np
        >>> average([torch.tensor([1.0]), torch.tensor([5.0])], np.array([30.0, 10.0]))
        tensor([2.])
    """
    mean = torch.empty_like(updates[0])
    everything = float(samples.sum())
    for start in range(0, mean.numel(), _PIECE):
        piece = slice(start, start + _PIECE)
        total = torch.zeros_like(mean[piece], dtype=torch.float64)
        for update, count in zip(updates, samples, strict=True):
            total.add_(update[piece], alpha=float(count))
        mean[piece] = total / everything
    return mean


def _alike(update: Tensor, like: Tensor) -> bool:
    return update.shape == like.shape and update.dtype == like.dtype


def _average_of(
    updates: Sequence[Tensor], samples: FloatArray, mask: NDArray[np.bool_], like: Tensor
) -> Tensor:
    if not mask.any():
        return like
    chosen = [update for update, wanted in zip(updates, mask, strict=True) if wanted]
    return average(chosen, samples[mask])
