"""A table of all pairs of outputs and targets is recognised, and nothing else is."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dynamite_fl.task.broadcasting import compares_all_pairs

COLUMN = torch.tensor([[0.2], [0.9], [0.4]])
TARGETS = torch.tensor([1.0, 0.0, 1.0])


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean()


def rmse(outputs: Tensor, targets: Tensor) -> Tensor:
    return squared(outputs, targets).sqrt()


def entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    p = outputs.sigmoid()
    return -(targets * p.log() + (1 - targets) * (1 - p).log()).mean()


def accuracy(outputs: Tensor, targets: Tensor) -> Tensor:
    return ((outputs > 0.5).float() == targets).double().mean()


ELEMENTWISE = [squared, rmse, entropy, accuracy, nn.functional.smooth_l1_loss, nn.L1Loss()]


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("function", ELEMENTWISE)
@pytest.mark.parametrize(
    ("outputs", "targets"),
    [(COLUMN, TARGETS), (COLUMN[:, 0], TARGETS[:, None]), (0 * COLUMN, TARGETS)],
)
def test_a_function_of_pairs_by_shape_is_recognised(
    function: Callable[..., Any], outputs: Tensor, targets: Tensor
) -> None:
    assert compares_all_pairs(function, outputs, targets)


@pytest.mark.parametrize("function", ELEMENTWISE)
@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_the_same_shapes_are_in_order(function: Any, shape: tuple[int, ...]) -> None:
    assert not compares_all_pairs(function, COLUMN.reshape(shape), TARGETS.reshape(shape))


def ranking(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss of pairs that is meant: of samples with different targets."""
    scores = outputs.reshape(-1)
    wanted = (targets.reshape(-1, 1) - targets.reshape(1, -1)).sign()
    return torch.relu(1 - (scores[:, None] - scores) * wanted).mean()


@pytest.mark.parametrize(
    "function",
    [
        lambda o, t: squared(o.squeeze(), t),
        lambda o, t: squared(o.squeeze(1), t),
        lambda o, t: squared(o[:, 0], t),
        lambda o, t: squared(o, t.view(-1, 1)),
        lambda o, t: squared(o, t.unsqueeze(1)),
        lambda o, t: squared(o.view_as(t), t),
        lambda o, t: squared(o.flatten(), t.flatten()),
        ranking,
        lambda o, _: o.square().mean(),
        lambda _, t: t.mean(),
        lambda *_: 1.0,
        lambda *_: None,
        lambda o, t: torch.corrcoef(torch.stack([o[:, 0], t]))[0, 1],
    ],
)
def test_a_function_that_expects_these_shapes_is_in_order(function: Callable[..., Any]) -> None:
    assert not compares_all_pairs(function, COLUMN, TARGETS)


@pytest.mark.parametrize(
    ("outputs", "targets"),
    [
        (torch.rand(3, 4), torch.tensor([0, 3, 1])),
        ((COLUMN, COLUMN), TARGETS),
        (COLUMN, {"labels": TARGETS}),
        (COLUMN[:1], TARGETS[:1]),
        (torch.rand(2, 3, 4), torch.rand(2, 4, 3)),
    ],
)
def test_other_outputs_and_targets_are_not_looked_at(outputs: Any, targets: Any) -> None:
    assert not compares_all_pairs(squared, outputs, targets)
