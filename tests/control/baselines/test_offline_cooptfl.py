from dataclasses import replace

import numpy as np
import pytest

from dynamite_fl import Fleet, Infeasible, LossGeometry, cooptimize
from dynamite_fl.control.baselines.offline_cooptfl import CoOptFL
from dynamite_fl.plan.cooptfl import bound_by_steps
from tests.control.baselines.fleets import ALL, FLEET, LIMITS, STEADY

GEOMETRY = LossGeometry(
    learning_rate=0.01,
    quadratic_bound=5,
    smoothness=2,
    pl_constant=0.2,
    divergence=2,
    loss_gap=2.3,
)


def test_cooptfl_keeps_its_plan() -> None:
    controller = CoOptFL(geometry=GEOMETRY, gradient_variance=[5, 6, 7], samples_per_second=70)
    pilot = Fleet(
        samples=FLEET.samples,
        gradient_variance=[5, 6, 7],
        samples_per_second=70,
        comm_seconds=FLEET.comm_seconds,
    )
    best = cooptimize(pilot, LIMITS, GEOMETRY)
    plan, state = controller.start(FLEET, LIMITS, ALL)
    assert (plan.local_steps, plan.bound) == (best.local_steps, best.bound)
    assert plan.batch_sizes.tolist() == best.batch_sizes.tolist()
    plan, state = controller.adapt(
        STEADY, FLEET, replace(LIMITS, deadline=50, rounds=99), ALL, state
    )
    assert plan.local_steps == best.local_steps
    assert plan.batch_sizes.tolist() == best.batch_sizes.tolist()
    assert plan.rounds < 99
    plan, state = controller.adapt(
        STEADY, FLEET, replace(LIMITS, rounds=99), np.array([2, 0]), state
    )
    pair = cooptimize(pilot.subset(np.array([2, 0])), LIMITS, GEOMETRY)
    assert plan.batch_sizes.tolist() == pair.batch_sizes.tolist()
    with pytest.raises(Infeasible):
        controller.adapt(STEADY, FLEET, replace(LIMITS, deadline=0.4), ALL, state)


def test_cooptfl_chooses_open_rounds_once() -> None:
    limits = replace(LIMITS, rounds=None)
    plan, state = CoOptFL(geometry=GEOMETRY).start(FLEET, limits, ALL)
    assert state.limits.rounds == plan.rounds == cooptimize(FLEET, limits, GEOMETRY).rounds


def test_cooptfl_can_be_held_to_local_steps() -> None:
    """The best batch sizes at two local steps are those at most two, if one step is forbidden."""
    free, _ = CoOptFL(geometry=GEOMETRY).start(FLEET, LIMITS, ALL)
    held, _ = CoOptFL(geometry=GEOMETRY, local_steps=2).start(FLEET, LIMITS, ALL)
    assert free.local_steps != 2
    assert held.local_steps == 2
    assert held.bound > free.bound
    by_steps = bound_by_steps(
        FLEET, LIMITS, GEOMETRY, rounds=held.rounds, local_steps=np.array([2])
    )
    assert held.bound == pytest.approx(by_steps[0])
    with pytest.raises(ValueError, match="local_steps is 0"):
        CoOptFL(geometry=GEOMETRY, local_steps=0)
