from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.local_steps import AutogradSteps
from dynamite_fl.client.messages import Order
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.client.rate_race import MOST_RACE_GRADIENTS, RACE_STEPS, Race, race_rates
from dynamite_fl.client.rate_trial import search_rate
from dynamite_fl.records import IntArray
from dynamite_fl.task.datasets.digits import load_digits
from dynamite_fl.task.models import perceptron, softmax_regression
from dynamite_fl.task.task import Task


def order(weights: torch.Tensor, kind: str = "search") -> Order:
    return Order(
        client=0,
        round_index=1,
        weights=weights,
        local_steps=4,
        batch_size=8,
        learning_rate=0.1,
        probe=False,
        remember=False,
        rate_trial=kind,
    )


def race_on_quadratic(curvatures: list[float], start: list[float], rate: float) -> Race:
    """Race on sum_i h_i w_i^2 / 2. A step of rate r multiplies w_i by 1 - r h_i."""
    rows = np.arange(len(curvatures))
    task = Task(
        model=lambda: nn.Linear(rows.size, 1, bias=False),
        loss=lambda outputs, _: outputs.square().sum() / 2,
        train_data=(torch.tensor(curvatures).sqrt().diag(), torch.zeros(rows.size, 1)),
    )
    steps = AutogradSteps(FlatModel(task, seed=0), task.train, Optimizer())
    return race_rates(order(torch.tensor(start)), [rows] * RACE_STEPS, rate, steps)


@given(st.floats(1e-3, 1e3), st.floats(0.1, 10))
def test_no_larger_rate_wins_on_a_quadratic_loss(curvature: float, start: float) -> None:
    """At eight times the stable rate 0.5 / h, a step multiplies w by -3."""
    race = race_on_quadratic([curvature], [start], 0.5 / curvature)
    assert race == Race(1.0, gradients=2 * RACE_STEPS, samples=2 * RACE_STEPS)


def test_a_race_ends_where_a_larger_rate_does_harm() -> None:
    """Half of the loss bends a hundredth as much, and is still there after 16 steps.

    At eight times the stable rate 0.5 / 4, a step multiplies the other weight by -3.
    """
    race = race_on_quadratic([4.0, 0.04], [1.0, 10.0], 0.125)
    assert race == Race(1.0, gradients=2 * RACE_STEPS, samples=4 * RACE_STEPS)


def test_a_larger_rate_wins_if_the_first_one_is_too_small() -> None:
    """At r / h, a step multiplies w by 1 - r, and the loss by its square.

    At 0.0004 / h, the late losses are 99 % of the first one, so that nothing is learned. At
    0.2048 / h, the fifth rate and the last one, they are at most 3 %.
    """
    race = race_on_quadratic([4.0], [1.0], 0.0004 / 4)
    assert race.factor == 512
    assert race.gradients == 5 * RACE_STEPS == MOST_RACE_GRADIENTS


def test_rates_at_which_the_model_leaves_all_numbers_do_not_win() -> None:
    race = race_on_quadratic([1.0], [1.0], 1e30)
    assert race == Race(1.0, gradients=RACE_STEPS, samples=RACE_STEPS)
    assert race_on_quadratic([1e-6], [1.0], 1e-30).factor == 1


def digits_race(make: Callable[[], nn.Module], rows: IntArray) -> float:
    """Return the winner of the race for these rows of digits, relative to the stable rate."""
    data = load_digits()
    task = Task(
        model=make, loss=nn.CrossEntropyLoss(), train_data=(data.train_inputs, data.train_labels)
    )
    model = FlatModel(task, seed=0)
    random = np.random.default_rng(0)
    batches = [random.choice(rows, 8, replace=False) for _ in range(RACE_STEPS)]
    steps = AutogradSteps(model, task.train, Optimizer())
    adopted, tried = search_rate(order(model.first_weights, "adopt"), batches[0], batches, steps)
    assert adopted.learning_rate == tried.stable_rate / 2
    return tried.race_factor


PERCEPTRON = partial(perceptron, 64, 10)
SOFTMAX = partial(softmax_regression, 64, 10)


def deep() -> nn.Module:
    """Return layers with batch normalisation, whose first gradients grow from layer to layer."""
    hidden = [(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU()) for _ in range(6)]
    layers = [layer for triple in hidden for layer in triple]
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), *layers, nn.Linear(32, 10))


def test_a_deep_network_learns_faster_beyond_its_curvature_and_others_do_not() -> None:
    everything = np.arange(1000)
    assert digits_race(deep, everything) >= 8
    for make in (PERCEPTRON, SOFTMAX):
        assert digits_race(make, everything) == 1


def test_a_single_label_is_learned_at_any_rate_and_shows_nothing() -> None:
    zeros = np.flatnonzero(load_digits().train_labels.numpy() == 0)
    assert digits_race(PERCEPTRON, zeros) == 1
