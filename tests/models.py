"""Small models of many kinds, and a task that each of them can learn."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from dynamite_fl.task.task import Task

FEATURES, CLASSES = 6, 3


def data(samples: int = 90, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return random points, labelled by the largest of their first three coordinates."""
    inputs = torch.randn(samples, FEATURES, generator=torch.Generator().manual_seed(seed))
    return inputs, inputs[:, :CLASSES].argmax(1)


def task_of(model: Callable[[], nn.Module], samples: int = 90, **fields: Any) -> Task:
    given = {"loss": nn.CrossEntropyLoss(), "train_data": data(samples), "test_data": data(40, 1)}
    return Task(**{"name": model.__name__, "model": model, **given, **fields})


def tanh_net() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, CLASSES))


def dropout_net() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.Dropout(0.5), nn.Linear(8, CLASSES))


def batch_norm_net() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))


class Recurrent(nn.Module):
    """Reads the coordinates one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent, self.last = nn.GRU(1, 4, batch_first=True), nn.Linear(4, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        states, _ = self.recurrent(inputs[:, :, None])
        outputs: Tensor = self.last(states[:, -1])
        return outputs


def gru_net() -> nn.Module:
    return Recurrent()


ALL: dict[str, Callable[[], nn.Module]] = {
    "tanh": tanh_net,
    "dropout": dropout_net,
    "batch norm": batch_norm_net,
    "gru": gru_net,
}
