"""Model, loss and data of the app."""

import torch
from torch import Tensor, nn

from dynamite_fl import Task


def samples(seed: int, count: int = 400) -> tuple[Tensor, Tensor]:
    """Return random points, labelled 1 if the sum of their coordinates is positive."""
    inputs = torch.randn(count, 8, generator=torch.Generator().manual_seed(seed))
    return inputs, (inputs.sum(dim=1) > 0).long()


def make_task(seed: int) -> Task:
    """Return a task with two linear layers and the training data of one device."""
    return Task(
        name="signs",
        model=lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)),
        loss=nn.CrossEntropyLoss(),
        train_data=samples(seed),
        test_data=samples(10_000),
    )
