"""A fleet whose loss was probed in the second round, for DYNAMITE and its ablations."""

from typing import Any

import numpy as np

from dynamite_fl import Fleet, Limits
from dynamite_fl.control.controller import Controller
from dynamite_fl.control.dynamite import DynamiteState
from dynamite_fl.control.estimate.loss import known_means, loss_geometry, with_measured_variance
from dynamite_fl.control.estimate.speed import estimated_fleet, first_estimates, update_speeds
from dynamite_fl.records import IntArray, LossGeometry, Plan
from dynamite_fl.reports import RoundReport
from tests.control.simulator import probe, report

FLEET = Fleet(
    samples=[400, 1600, 900, 30],
    gradient_variance=[2, 8, 3, 3],
    samples_per_second=[50, 200, 100, 80],
    step_overhead=0.01,
    comm_seconds=0.1,
)
LIMITS = Limits(
    rounds=100, deadline=100, budget=400, cost_per_sample=0.01, cost_per_round=1, max_local_steps=30
)
ALL = np.arange(4)


def second_round(cohort: IntArray = ALL) -> RoundReport:
    n = cohort.size
    return report(
        [*cohort],
        sizes=[40] * n,
        step_seconds=[*np.linspace(0.3, 0.9, n)],
        comm_seconds=[0.2] * n,
        samples=[*FLEET.samples[cohort]],
        round_index=2,
        probe=probe(
            n,
            loss=[2.0] * n,
            quadratic_bound=[3.0] * n,
            smoothness=[2.0] * n,
            pl_constant=[0.5] * n,
            divergence=[1.5] * n,
            gradient_variance=[*np.linspace(3, 5, n)],
        ),
    )


def decide(
    controller: Controller[Any], remaining: Limits, cohort: IntArray = ALL
) -> tuple[Plan, DynamiteState, Fleet, LossGeometry]:
    """Return the plan after the probe, the state, and the fleet and the geometry it is based on."""
    _, state = controller.start(FLEET, LIMITS, ALL)
    seen = second_round()
    fleet = estimated_fleet(FLEET, update_speeds(first_estimates(FLEET), seen), FLEET.samples)
    plan, state = controller.adapt(seen, fleet, remaining, cohort, state)
    geometry = loss_geometry(known_means(state.loss), 0.01)
    assert geometry is not None
    return plan, state, with_measured_variance(fleet, state.loss).subset(cohort), geometry


def same(plan: Plan, other: Plan) -> bool:
    return (
        plan.rounds == other.rounds
        and plan.local_steps == other.local_steps
        and plan.batch_sizes.tolist() == other.batch_sizes.tolist()
        and plan.bound == other.bound
    )
