"""Labelled samples in two parts: one for training and one for testing."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dynamite_fl.records import IntArray

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled samples for training and testing.

    Attributes:
        name: The name of the dataset, as in ``load_dataset``.
        train_inputs: The inputs of the training samples, float32, (D, ...). Images are
            (D, channels, height, width).
        train_labels: The labels of the training samples, int64, counted from 0, (D,).
        test_inputs: The inputs of the test samples, (T, ...).
        test_labels: The labels of the test samples, (T,).
        classes: The number of classes.
        train_clients: The client that each training sample comes from, (D,), where the data says
            so.
    """

    name: str
    train_inputs: Tensor
    train_labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor
    classes: int
    train_clients: IntArray | None = None


def unit_pixels(images: Bytes) -> Tensor:
    """Return images (n, h, w) of bytes as floats from 0 to 1 with one channel, (n, 1, h, w).

    Example:
        >>> unit_pixels(np.array([[[0, 51, 255]]], dtype=np.uint8))
        tensor([[[[0.0000, 0.2000, 1.0000]]]])
    """
    pixels = images[:, None].astype(np.float32, order="C")
    pixels /= 255
    return torch.from_numpy(pixels)


def whole_labels(labels: NDArray[np.integer]) -> Tensor:
    """Return labels as a tensor of int64, which torch's losses need."""
    return torch.from_numpy(labels.astype(np.int64))
