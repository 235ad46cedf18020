from dataclasses import replace

import numpy as np
import pytest
import torch

from dynamite_fl import Fleet
from dynamite_fl.control.baselines.no_straggler import NoStraggler
from dynamite_fl.errors import InvalidInput
from dynamite_fl.training.engine import RoundOrder
from dynamite_fl.training.loop import begin
from dynamite_fl.training.progress import Progress
from dynamite_fl.training.training import Training
from tests.control.baselines.fleets import ALL, FLEET, LIMITS, STEADY
from tests.trainings import RATE, training


def order_of(given: Training, progress: Progress) -> RoundOrder:
    """Return the order of the first round."""
    return RoundOrder(
        round_index=1,
        weights=progress.weights,
        plan=progress.plan,
        cohort=progress.cohort,
        learning_rate=RATE,
        probe=False,
        remember=False,
        path=False,
        begins=0.0,
        seconds_left=given.limits.deadline,
    )


def test_batches_are_proportional_to_speeds() -> None:
    """180 samples by speeds of 50, 100, 250: 22.5, 45, 112.5, of which the last has 40."""
    plan, state = NoStraggler().start(FLEET, LIMITS, ALL)
    assert plan.batch_sizes.tolist() == [22, 45, 40]
    measured = FLEET.with_columns(samples_per_second=np.array([100.0, 50, 250]))
    plan, _ = NoStraggler().adapt(STEADY, measured, LIMITS, np.array([0, 1]), state)
    assert plan.batch_sizes.tolist() == [80, 40]


def test_no_straggler_gives_everyone_a_sample() -> None:
    fleet = Fleet(
        samples=[90, 90], gradient_variance=1, samples_per_second=[1, 1000], comm_seconds=0
    )
    plan, _ = NoStraggler().start(fleet, LIMITS, np.arange(2))
    assert plan.batch_sizes.tolist() == [1, 90]


def test_rates_can_be_in_proportion_to_batches() -> None:
    """eta s_i / s with s = 60: batches of 22, 45 and 40 learn at 0.37, 0.75 and 0.67 of eta."""
    plan, _ = NoStraggler(scale_rate=True).start(FLEET, LIMITS, ALL)
    assert plan.rate_factors == pytest.approx(np.array([22, 45, 40]) / 60)
    assert NoStraggler().start(FLEET, LIMITS, ALL)[0].rate_factors is None
    with pytest.raises(InvalidInput, match="scale_rate is 1: use true or false"):
        NoStraggler(scale_rate=1)  # type: ignore[arg-type]


def test_clients_learn_at_their_own_rates() -> None:
    """A step moves each client by eta s_i / s times its gradient, stacked or one by one."""
    found = []
    for model in ("softmax", "cnn"):
        given = training("no-straggler", model=model, limits={"deadline": 99.0}, local_steps=1)
        scaled = replace(given, controller=NoStraggler(local_steps=1, scale_rate=True))
        moved = []
        for each in (given, scaled):
            progress = begin(each)
            outcome = each.engine.run_round(order_of(each, progress))
            moved.append([progress.weights - update for update in outcome.updates])
        factors = begin(scaled).plan.rate_factors
        assert factors is not None
        assert np.unique(factors).size > 2
        for plain, own, factor in zip(*moved, factors, strict=True):
            torch.testing.assert_close(own, factor * plain, rtol=1e-3, atol=1e-6)
        found.append(factors)
    assert found[0].tolist() == found[1].tolist()
