from dataclasses import replace

from dynamite_fl.control.baselines.uniform import Uniform
from tests.control.baselines.fleets import ALL, FLEET, LIMITS, STEADY


def test_the_largest_common_batch_is_chosen_once() -> None:
    """Budget: (1000/100 - 2)/(0.01 * 2) = 400 samples; deadline: 50 * (4 - 0.5)/2 = 87.5."""
    plan, state = Uniform().start(FLEET, LIMITS, ALL)
    assert plan.batch_sizes.tolist() == [87, 87, 40]
    plan, state = Uniform().adapt(STEADY, FLEET, replace(LIMITS, deadline=20), ALL, state)
    assert (plan.rounds, plan.batch_sizes.tolist()) == (5, [87, 87, 40])  # set before training
    plan, _ = Uniform().start(FLEET, replace(LIMITS, budget=460), ALL)
    assert plan.batch_sizes.tolist() == [45, 45, 40]  # 130 samples
    plan, _ = Uniform().start(FLEET, replace(LIMITS, budget=100), ALL)
    assert (plan.rounds, plan.batch_sizes.tolist()) == (48, [1, 1, 1])
    plan, _ = Uniform().start(FLEET, replace(LIMITS, rounds=None), ALL)
    assert plan.batch_sizes.tolist() == [60, 60, 40]
