"""Local steps, worked by hand: what is computed, remembered and measured on the way."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.local_steps import AutogradSteps, Measured, take_local_steps
from dynamite_fl.client.messages import ClientState, Order
from dynamite_fl.client.optimizer import Optimizer
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
    return AutogradSteps(FlatModel(TASK, seed=0), TASK.train, Optimizer())


def test_one_step_by_hand() -> None:
    """At 0 the loss of both samples is 2 and its gradient (-1, -2)."""
    taking = steps()
    taking.begin(ORDER, 1)
    before = taking.weights()
    measured = taking.step([BOTH], measure=True)
    assert measured.losses.tolist() == [2.0]
    assert measured.gradients is not None
    assert measured.gradients.tolist() == [[-1.0, -2.0]]
    assert taking.weights().tolist() == [[0.5, 1.0]]
    assert before.tolist() == ORDER.weights[None].tolist() == [[0.0, 0.0]]


def test_a_step_that_is_not_measured_leads_to_the_same_weights() -> None:
    taking = steps()
    taking.begin(ORDER, 1)
    measured = taking.step([BOTH], measure=False)
    assert (measured.losses.tolist(), measured.gradients) == ([2.0], None)
    assert taking.weights().tolist() == [[0.5, 1.0]]


def test_a_round_begins_at_its_own_global_model() -> None:
    taking = steps()
    for start in ([0.0, 0.0], [1.0, 1.0], [0.0, 0.0]):
        taking.begin(replace(ORDER, weights=torch.tensor(start)), 1)
        assert taking.weights().tolist() == [start]
        taking.step([FIRST], measure=False)
        assert taking.weights().tolist() == [[start[0] + (2 - start[0]) / 2, start[1]]]


def test_gradient_variance_by_hand() -> None:
    """Gradients (-2, 0) and (0, -4) have the mean (-1, -2), and each is (1, 2) away from it."""
    assert steps().gradient_variance(torch.zeros(2), BOTH) == pytest.approx(10.0)


@dataclass
class Counting:
    """Computes as the real steps do, and counts how often gradients are asked for."""

    real: AutogradSteps = field(default_factory=steps)
    with_gradients: int = 0

    @property
    def trained(self) -> int:
        return self.real.trained

    def begin(self, order: Order, clients: int) -> None:
        self.real.begin(order, clients)

    def step(self, batches: Sequence[IntArray], *, measure: bool) -> Measured:
        self.with_gradients += measure
        return self.real.step(batches, measure=measure)

    def weights(self) -> Tensor:
        return self.real.weights()

    def gradient_sum(self) -> Tensor | None:
        return self.real.gradient_sum()

    def kept_state(self) -> ClientState:
        return self.real.kept_state()

    def gradient_variance(self, weights: Tensor, rows: IntArray) -> float:
        return self.real.gradient_variance(weights, rows)


@pytest.mark.parametrize(
    ("remember", "path", "local_steps", "gradients"),
    [
        (False, False, 5, 0),
        (True, False, 5, 2),
        (True, False, 1, 1),
        (False, True, 5, 3),
        (False, True, 2, 2),
        (True, True, 5, 4),
        (True, True, 3, 3),
    ],
)
def test_gradients_are_copied_only_where_they_are_used(
    remember: bool, path: bool, local_steps: int, gradients: int
) -> None:
    """A later probe needs those of the first and the last step, and the path those of three."""
    counting = Counting()
    order = replace(ORDER, remember=remember, path=path, local_steps=local_steps)
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
