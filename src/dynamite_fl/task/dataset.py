"""Data with labels, in two parts: one to learn from and one to test with."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dynamite_fl.records import IntArray

Bytes = NDArray[np.uint8]


class DatasetError(ValueError):
    """Data that is missing or not what it should be; the message says what to do."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples to learn from and samples to test with.

    Attributes:
        name: As ``load_dataset`` knows it.
        train_inputs: float32, (D, ...); images are (D, channels, height, width).
        train_labels: int64 from 0, (D,).
        test_inputs: (T, ...).
        test_labels: (T,).
        classes: How many classes there are.
        train_clients: Which client each training sample is of, where the data say so, (D,).
    """

    name: str
    train_inputs: Tensor
    train_labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor
    classes: int
    train_clients: IntArray | None = None


def unit_pixels(images: Bytes) -> Tensor:
    """Bytes as floats from 0 to 1, in a channel of their own: (n, h, w) to (n, 1, h, w).

    Example:
        >>> unit_pixels(np.array([[[0, 51, 255]]], dtype=np.uint8))
        tensor([[[[0.0000, 0.2000, 1.0000]]]])
    """
    pixels = images[:, None].astype(np.float32, order="C")
    pixels /= 255
    return torch.from_numpy(pixels)


def whole_labels(labels: NDArray[np.integer]) -> Tensor:
    """Labels as torch wants them."""
    return torch.from_numpy(labels.astype(np.int64))
