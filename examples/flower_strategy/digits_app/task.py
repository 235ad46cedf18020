"""The model and the data of the app. Nothing here knows DYNAMITE."""

from functools import cache
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset


class Net(nn.Module):
    """A perceptron with one hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of the ten digits."""
        return self.layers(images)


@cache
def _digits() -> Any:
    return load_digits()


def load_data(partition_id: int, partitions: int) -> tuple[TensorDataset, TensorDataset]:
    """Return the training and the test data of one node; later nodes have more of it."""
    digits = _digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    ends = np.cumsum(np.arange(partitions + 1)) / (partitions * (partitions + 1) / 2)
    first, last = (ends[[partition_id, partition_id + 1]] * len(order)).astype(int)
    images = torch.tensor(digits.data[order[first:last]] / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target[order[first:last]])
    middle = int(0.8 * len(labels))
    return (
        TensorDataset(images[:middle], labels[:middle]),
        TensorDataset(images[middle:], labels[middle:]),
    )
