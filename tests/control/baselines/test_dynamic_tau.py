import math
from dataclasses import replace

import numpy as np
import pytest

from dynamite_fl import Infeasible
from dynamite_fl.control.baselines.dynamic_tau import DynamicTau, wang_bound
from dynamite_fl.reports import RoundReport
from tests.control.baselines.fleets import ALL, FLEET, LIMITS, STEADY, round_of
from tests.control.simulator import probe


def measured(lipschitz: float, smoothness: float, divergence: float) -> RoundReport:
    each = {"lipschitz": lipschitz, "smoothness": smoothness, "divergence": divergence}
    columns = {name: [value] * 3 for name, value in each.items()}
    return round_of(
        [60, 60, 40],
        [1.2, 0.6, 0.16],
        learning_rate=0.05,
        round_index=2,
        probe=probe(3, loss=[1] * 3, pl_constant=[1] * 3, **columns),
    )


def test_dynamic_tau_by_hand() -> None:
    """A slowest step takes 1.2 s and a round 0.5 s more; a step costs 1.6 and a round 2 more."""
    controller = DynamicTau(phi=0.05)
    plan, state = controller.start(FLEET, LIMITS, ALL)
    assert (plan.local_steps, plan.batch_sizes.tolist()) == (1, [60, 60, 40])
    plan, state = controller.adapt(STEADY, FLEET, LIMITS, ALL, state)
    assert plan.local_steps == 1  # nothing was measured

    values = []
    for tau in range(1, 11):
        by_time = (400 - 1.2 - 0.5) * tau / (1.2 * tau + 0.5)
        by_cost = (1000 - 1.6 - 2) * tau / (1.6 * tau + 2)
        steps = min(by_time, by_cost)
        h = 1 / 5 * ((1 + 0.05 * 5) ** tau - 1) - 0.05 * 1 * tau
        root = math.sqrt(1 + 4 * steps**2 * 0.05 * 0.01 * 0.05 * h / tau)
        values.append((1 + root) / (2 * steps * 0.05 * 0.05) + 0.01 * h)
    assert np.argmin(values) == 3
    assert values[3] == pytest.approx(1.395, abs=1e-3)
    plan, state = controller.adapt(
        measured(0.01, 5, 1), FLEET, replace(LIMITS, rounds=98), ALL, state
    )
    assert plan.local_steps == 4
    assert plan.batch_sizes.tolist() == [60, 60, 40]


def test_dynamic_tau_rises_tenfold_at_most() -> None:
    controller = DynamicTau()
    _, state = controller.start(FLEET, LIMITS, ALL)
    free = replace(LIMITS, max_local_steps=64)
    taken = []
    for _ in range(3):  # no divergence: as many local steps as may be
        plan, state = controller.adapt(measured(1, 1, 0), FLEET, free, ALL, state)
        taken.append(plan.local_steps)
    assert taken == [10, 64, 64]


def test_dynamic_tau_cuts_the_last_round_to_fit() -> None:
    controller = DynamicTau()
    _, state = controller.start(FLEET, LIMITS, ALL)
    plan, _ = controller.adapt(measured(1, 1, 0), FLEET, replace(LIMITS, deadline=5.4), ALL, state)
    assert (plan.rounds, plan.local_steps) == (1, 4)  # 4 * 1.2 + 0.5 = 5.3
    with pytest.raises(Infeasible):
        controller.adapt(measured(1, 1, 0), FLEET, replace(LIMITS, deadline=1.6), ALL, state)


def test_dynamic_tau_may_count_rounds() -> None:
    """With so few rounds that time and money never run out, more local steps are free."""
    few = replace(LIMITS, rounds=3)
    steps = []
    for counted in (False, True):
        controller = DynamicTau(phi=0.5, count_rounds=counted)
        _, state = controller.start(FLEET, few, ALL)
        steps.append(controller.adapt(measured(0.02, 5, 3), FLEET, few, ALL, state)[0].local_steps)
    assert steps[0] < steps[1]


def test_wang_bound_by_hand() -> None:
    value = wang_bound(
        np.array([4]), np.array([8.0]), np.array([-1.0]), learning_rate=1, lipschitz=3, phi=0.5
    )
    assert value.tolist() == [0.25]  # h is floored at 0: 2 / (2 * 8 * 0.5)


def test_dynamic_tau_follows_the_rate_of_the_round() -> None:
    """At a smaller rate clients drift less, so that more local steps are best."""
    steps = []
    for rate in (0.05, 0.01):
        controller = DynamicTau(phi=0.05)
        _, state = controller.start(FLEET, LIMITS, ALL)
        report = replace(measured(0.01, 5, 1), learning_rate=rate)
        steps.append(controller.adapt(report, FLEET, LIMITS, ALL, state)[0].local_steps)
    assert steps[0] < steps[1]
