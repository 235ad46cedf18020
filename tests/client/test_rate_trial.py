from dataclasses import replace

import numpy as np
import pytest
import torch

from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.local_steps import AutogradSteps, take_local_steps
from dynamite_fl.client.messages import Order
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.client.rate_race import RACE_STEPS
from dynamite_fl.client.rate_trial import check_rates, most_trial_samples, search_rate
from dynamite_fl.task.task import Task

CURVATURE = 4.0
BATCH = np.array([0])
RACED = [BATCH] * RACE_STEPS


def quadratic(optimizer: Optimizer | None = None) -> AutogradSteps:
    """Return steps on h w^2 / 2 for w = 1, whose slope falls by eta h in a step of rate eta."""
    task = Task(
        model=lambda: torch.nn.Linear(1, 1, bias=False),
        loss=lambda outputs, _: CURVATURE * outputs.square().mean() / 2,
        train_data=(torch.ones(3, 1), torch.zeros(3, 1)),
    )
    model = FlatModel(task, seed=0)
    return AutogradSteps(model, task.train, optimizer or Optimizer())


def order(rate: float, kind: str, local_steps: int = 1) -> Order:
    return Order(
        client=0,
        round_index=1,
        weights=torch.ones(1),
        local_steps=local_steps,
        batch_size=1,
        learning_rate=rate,
        probe=False,
        remember=False,
        rate_trial=kind,
    )


@pytest.mark.parametrize("guess", [1e-4, 0.01, 0.17, 1.0, 10.0, 1e6])
def test_a_search_finds_the_rate_at_which_the_slope_falls_by_half(guess: float) -> None:
    """The slope falls by 4 eta, so the rate is 0.5 / 4, whatever the search begins with."""
    _, tried = search_rate(order(guess, "search"), BATCH, RACED, quadratic())
    assert tried.stable_rate == pytest.approx(0.5 / CURVATURE, rel=1e-3)
    assert tried.samples <= most_trial_samples(replace(order(guess, "search"), race=True), 1, None)


def test_a_search_leaves_the_rate_and_adopting_takes_half_of_it() -> None:
    kept, _ = search_rate(order(0.01, "search"), BATCH, RACED, quadratic())
    assert kept.learning_rate == 0.01
    adopted, _ = search_rate(order(0.01, "adopt"), BATCH, RACED, quadratic())
    assert adopted.learning_rate == pytest.approx(0.25 / CURVATURE, rel=1e-3)


def test_the_steepness_is_the_squared_gradient_at_any_rate() -> None:
    for rate in (1e-3, 0.1):
        _, tried = search_rate(order(rate, "search"), BATCH, RACED, quadratic())
        assert tried.steepness == pytest.approx(CURVATURE**2, rel=1e-3)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3, 0.45])
def test_a_check_reads_the_rate_off_the_last_step(rate: float) -> None:
    steps = quadratic()
    asked = order(rate, "check", local_steps=3)
    results = take_local_steps(asked, [[BATCH] * 3], [3], steps)
    (tried,) = check_rates(asked, [results[0].last_step], steps)
    assert tried.stable_rate == pytest.approx(0.5 / CURVATURE, rel=1e-3)
    weight = (1 - rate * CURVATURE) ** 2  # before the last of three steps
    assert tried.steepness == pytest.approx((CURVATURE * weight) ** 2, rel=1e-3)
    assert tried.gradients == tried.samples == most_trial_samples(asked, 1, None) == 1
    assert results[0].weights.tolist() == pytest.approx([(1 - rate * CURVATURE) ** 3], abs=1e-6)


def test_a_check_does_not_change_the_local_steps() -> None:
    checked, plain = quadratic(), quadratic()
    asked = order(0.05, "check", local_steps=4)
    with_check = take_local_steps(asked, [[BATCH] * 4], [3], checked)[0]
    without = take_local_steps(replace(asked, rate_trial="none"), [[BATCH] * 4], [3], plain)[0]
    assert torch.equal(with_check.weights, without.weights)
    assert without.last_step is None


@pytest.mark.parametrize(("name", "share"), [("SGD", 1.0), ("Adam", 1 / CURVATURE)])
def test_the_rule_holds_for_other_optimisers(name: str, share: float) -> None:
    """Adam's first step is eta whatever the gradient is, so the slope falls by eta / w = eta."""
    _, tried = search_rate(order(0.01, "search"), BATCH, RACED, quadratic(Optimizer(name)))
    assert tried.stable_rate == pytest.approx(0.5 / (CURVATURE * share), rel=1e-2)


def test_a_model_that_leaves_all_numbers_asks_for_a_much_smaller_rate() -> None:
    steps = quadratic()
    asked = order(1e30, "check", local_steps=2)
    results = take_local_steps(asked, [[BATCH] * 2], [3], steps)
    (tried,) = check_rates(asked, [results[0].last_step], steps)
    assert tried.stable_rate == pytest.approx(1e28)


def test_no_slope_says_nothing() -> None:
    steps = quadratic()
    at_the_minimum = replace(order(0.1, "search"), weights=torch.zeros(1))
    _, tried = search_rate(at_the_minimum, BATCH, RACED, steps)
    assert (tried.stable_rate, tried.steepness) == (0.1, 0.0)
