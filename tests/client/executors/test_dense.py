"""Which models are computed for many clients at once; ``test_stacked.py`` tests the steps."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from dynamite_fl.client.executors.dense import dense_layers

TWICE = nn.Linear(4, 4)


def tied() -> nn.Module:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    return nn.Sequential(first, nn.ReLU(), second)


def with_another_weight() -> nn.Module:
    model = nn.Linear(4, 2)
    model.register_parameter("unused", nn.Parameter(torch.ones(3)))
    return model


@pytest.mark.parametrize(
    ("module", "shape", "found"),
    [
        (nn.Linear(4, 2), (3, 4), 1),
        (nn.Sequential(nn.Linear(4, 2)), (3, 4), 1),
        (nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), (3, 2, 2), 1),
        (nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)), (3, 4), 2),
        (nn.Linear(4, 2), (3, 1, 4), 0),  # outputs would be (3, 1, 2)
        (nn.Linear(5, 2), (3, 4), 0),
        (nn.Sequential(nn.Flatten(2), nn.Linear(4, 2)), (3, 1, 4), 0),
        (nn.Sequential(nn.Linear(4, 2), nn.ReLU()), (3, 4), 0),
        (nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2)), (3, 4), 0),
        (nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)), (3, 4), 0),
        (nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(6, 2)), (3, 4), 0),
        (nn.Sequential(TWICE, nn.ReLU(), TWICE), (3, 4), 0),
        (tied(), (3, 4), 0),
        (with_another_weight(), (3, 4), 0),
        (weight_norm(nn.Linear(4, 2)), (3, 4), 0),
        (nn.Sequential(), (3, 4), 0),
        (nn.Linear(4, 2, dtype=torch.float64), (3, 4), 0),
    ],
)
def test_dense_layers(module: nn.Module, shape: tuple[int, ...], found: int) -> None:
    assert len(dense_layers(module, torch.zeros(shape))) == found
