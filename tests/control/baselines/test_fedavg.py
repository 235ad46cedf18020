import math
from dataclasses import replace

import numpy as np
import pytest

from dynamite_fl import Infeasible
from dynamite_fl.control.baselines.fedavg import FedAvg
from tests.control.baselines.fleets import ALL, FLEET, LIMITS, STEADY


def test_fedavg_has_two_steps_on_sixty_samples() -> None:
    """2 * 60/50 + 0.5 = 2.9 s a round: 137 of them in 400 s; costs 0.01 * 2 * 160 + 2 = 5.2."""
    plan, state = FedAvg().start(FLEET, LIMITS, ALL)
    assert (plan.rounds, plan.local_steps) == (100, 2)
    assert plan.batch_sizes.tolist() == [60, 60, 40]
    assert plan.seconds == pytest.approx(290)
    assert plan.cost == pytest.approx(520)
    assert math.isnan(plan.bound)
    plan, state = FedAvg().adapt(STEADY, FLEET, replace(LIMITS, rounds=None), ALL, state)
    assert plan.rounds == 137
    plan, state = FedAvg().adapt(STEADY, FLEET, replace(LIMITS, budget=53), np.array([2, 0]), state)
    assert (plan.rounds, plan.batch_sizes.tolist()) == (13, [40, 60])  # 4 a round
    with pytest.raises(Infeasible):
        FedAvg().adapt(STEADY, FLEET, replace(LIMITS, budget=5), ALL, state)


def test_a_fixed_setting_of_ones_own() -> None:
    plan, _ = FedAvg(local_steps=5, batch_size=7).start(FLEET, LIMITS, ALL)
    assert (plan.local_steps, plan.batch_sizes.tolist()) == (5, [7, 7, 7])


def test_limits_without_end_are_refused() -> None:
    endless = replace(LIMITS, rounds=None, deadline=math.inf, budget=math.inf)
    with pytest.raises(ValueError, match="rounds is needed"):
        FedAvg().start(FLEET, endless, ALL)
