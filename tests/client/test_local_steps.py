"""Local steps, worked by hand: what is computed, remembered and measured on the way."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.local_steps import AutogradSteps, Step, take_local_steps
from dynamite_fl.client.messages import Order
from dynamite_fl.records import IntArray
from tests.client.tasks import line_task

# Two samples: x = (1, 0) with y = 2, and x = (0, 2) with y = 2.
TASK = line_task([[1.0, 0.0], [0.0, 2.0]], [2.0, 2.0])
BOTH, FIRST = np.array([0, 1]), np.array([0])
ORDER = Order(
    client=0,
    round_index=1,
    weights=torch.zeros(2),
    local_steps=2,
    batch_size=2,
    learning_rate=0.5,
    probe=False,
    remember=False,
)


def steps() -> AutogradSteps:
    return AutogradSteps(FlatModel(TASK, seed=0), TASK.train_inputs, TASK.train_targets)


def test_one_step_by_hand() -> None:
    """At 0 the loss of both samples is 2 and its gradient (-1, -2)."""
    before = torch.zeros(1, 2)
    step = steps().step(before, [BOTH], learning_rate=0.5)
    assert step.losses.tolist() == [2.0]
    assert step.gradients.tolist() == [[-1.0, -2.0]]
    assert step.weights.tolist() == [[0.5, 1.0]]
    assert before.tolist() == [[0.0, 0.0]]
    assert steps().step_weights(before, [BOTH], 0.5).tolist() == [[0.5, 1.0]]


def test_gradient_variance_by_hand() -> None:
    """Gradients (-2, 0) and (0, -4) have the mean (-1, -2), and each is (1, 2) away from it."""
    assert steps().gradient_variance(torch.zeros(2), BOTH) == pytest.approx(10.0)


@dataclass
class Counting:
    """Computes as the real steps do, and counts how often gradients are asked for."""

    real: AutogradSteps = field(default_factory=steps)
    with_gradients: int = 0

    def step(self, weights: Tensor, batches: Sequence[IntArray], learning_rate: float) -> Step:
        self.with_gradients += 1
        return self.real.step(weights, batches, learning_rate)

    def step_weights(
        self, weights: Tensor, batches: Sequence[IntArray], learning_rate: float
    ) -> Tensor:
        return self.real.step_weights(weights, batches, learning_rate)

    def gradient_variance(self, weights: Tensor, rows: IntArray) -> float:
        return self.real.gradient_variance(weights, rows)


@pytest.mark.parametrize(
    ("remember", "local_steps", "gradients"), [(False, 5, 0), (True, 5, 2), (True, 1, 1)]
)
def test_gradients_are_computed_only_where_they_are_used(
    remember: bool, local_steps: int, gradients: int
) -> None:
    """A later probe needs those of the first and of the last step."""
    counting = Counting()
    order = replace(ORDER, remember=remember, local_steps=local_steps)
    take_local_steps(order, [[BOTH] * local_steps], [2], counting)
    assert counting.with_gradients == gradients


def test_the_memory_is_of_the_last_step_and_of_the_first_loss() -> None:
    order = replace(ORDER, remember=True)
    (result,) = take_local_steps(order, [[BOTH, FIRST]], [2], steps())
    assert result.weights.tolist() == [1.25, 1.0]  # the first sample's gradient is w1 - 2
    assert result.gradient is not None
    assert result.gradient.tolist() == [-1.0, -2.0]
    memory = result.memory
    assert memory is not None
    assert memory.batch.tolist() == [0]
    assert memory.weights.tolist() == [0.5, 1.0]
    assert (memory.first_loss, memory.loss) == (2.0, 1.125)
    assert result.path is None


def test_the_path_is_measured_if_it_is_asked_for() -> None:
    (result,) = take_local_steps(replace(ORDER, path=True), [[BOTH, BOTH]], [2], steps())
    assert result.path is not None
    assert result.memory is None
    (plain,) = take_local_steps(ORDER, [[BOTH, BOTH]], [2], steps())
    assert torch.equal(result.weights, plain.weights)
