from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dynamite_fl import Fleet, Infeasible, Limits, cooptimize, uniform_plan
from dynamite_fl.control.dynamite import Dynamite, DynamiteState
from dynamite_fl.control.estimate import gradient_variance, loss_geometry
from dynamite_fl.control.system import as_fleet
from dynamite_fl.plan.bound import marginal_bound, tight_cumulative_bound
from dynamite_fl.plan.cooptfl import bound_by_steps
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


def decided(
    remaining: Limits, cohort: IntArray = ALL, **settings: Any
) -> tuple[Plan, DynamiteState, Fleet, LossGeometry]:
    controller = Dynamite(learning_rate=0.01, **settings)
    _, state = controller.start(FLEET, LIMITS, ALL)
    plan, state = controller.adapt(second_round(), remaining, cohort, state)
    geometry = loss_geometry(state.loss, 0.01)
    assert geometry is not None
    return plan, state, as_fleet(state.system, cohort, gradient_variance(state.loss)), geometry


def same(plan: Plan, other: Plan) -> bool:
    return (
        plan.rounds == other.rounds
        and plan.local_steps == other.local_steps
        and plan.batch_sizes.tolist() == other.batch_sizes.tolist()
        and plan.bound == other.bound
    )


def test_first_round() -> None:
    """100 rounds of 4: (400 - 100)/(100 * 0.01) = 300 samples, 30 of them the last client's.

    Within a second a round, the first client does 0.89 * 50 = 44 samples.
    """
    plan, _ = Dynamite(learning_rate=0.01).start(FLEET, LIMITS, ALL)
    assert (plan.rounds, plan.local_steps) == (100, 1)
    assert plan.batch_sizes.tolist() == [44, 44, 44, 30]
    small, _ = Dynamite(learning_rate=0.01, first_batch=10).start(FLEET, LIMITS, ALL)
    assert small.batch_sizes.tolist() == [10] * 4


def test_a_round_without_probe_changes_nothing_yet() -> None:
    controller = Dynamite(learning_rate=0.01)
    _, state = controller.start(FLEET, LIMITS, ALL)
    plan, _ = controller.adapt(replace(second_round(), probe=None), LIMITS, ALL, state)
    assert plan.local_steps == 1
    assert len(set(plan.batch_sizes[:3].tolist())) == 1


@pytest.mark.parametrize("cohort", [ALL, np.array([3, 1])])
def test_the_plan_is_cooptfl_of_the_estimates(cohort: IntArray) -> None:
    remaining = replace(LIMITS, rounds=98, deadline=160, budget=390)
    plan, _, fleet, geometry = decided(remaining, cohort)
    assert same(plan, cooptimize(fleet, remaining, geometry, marginal_bound))
    assert plan.rounds == 98


def test_static_steps() -> None:
    remaining = replace(LIMITS, rounds=98, deadline=300)
    plan, _, fleet, geometry = decided(remaining, variant="static-tau", local_steps=3)
    assert plan.local_steps == 3
    best = bound_by_steps(
        fleet, remaining, geometry, marginal_bound, rounds=98, local_steps=np.array([3])
    )
    assert plan.bound == best[0]
    first, _ = Dynamite(learning_rate=0.01, variant="static-tau").start(FLEET, LIMITS, ALL)
    assert first.local_steps == 2


def test_uniform_is_theorem_2_with_the_marginal_bound() -> None:
    remaining = replace(LIMITS, rounds=98, deadline=160)
    plan, _, fleet, geometry = decided(remaining, variant="uniform")
    assert same(plan, uniform_plan(fleet, remaining, geometry, marginal_bound))
    plan, _, fleet, geometry = decided(
        replace(LIMITS, rounds=2, deadline=900, max_local_steps=1), variant="uniform"
    )
    assert plan.batch_sizes[3] == 30
    assert min(plan.batch_sizes[:3]) > 30  # the client of least data holds nobody back


def test_open_rounds_are_those_of_the_best_plan() -> None:
    remaining = replace(LIMITS, rounds=None)
    plan, state, fleet, geometry = decided(remaining)
    outlook = cooptimize(fleet, remaining, geometry, tight_cumulative_bound)
    assert state.open_rounds == outlook.rounds
    chosen = replace(remaining, rounds=outlook.rounds)
    assert same(plan, cooptimize(fleet, chosen, geometry, marginal_bound))


def test_open_rounds_count_down() -> None:
    remaining = replace(LIMITS, rounds=None)
    _, state, _, _ = decided(remaining)
    state = replace(state, open_rounds=60, chosen_at=50)
    controller = Dynamite(learning_rate=0.01)
    plan, _ = controller.adapt(replace(second_round(), round_index=54), remaining, ALL, state)
    assert plan.rounds == 56
    _, state = controller.adapt(replace(second_round(), round_index=55), remaining, ALL, state)
    assert state.chosen_at == 55


@pytest.mark.parametrize("variant", ["full", "static-tau", "uniform"])
def test_fewer_rounds_where_not_all_fit(variant: str) -> None:
    short = replace(LIMITS, rounds=50, deadline=3)
    plan, _, _, _ = decided(short, variant=variant)
    assert 1 <= plan.rounds < 50
    assert plan.seconds <= 3
    with pytest.raises(Infeasible):
        decided(replace(short, deadline=0.1), variant=variant)


def test_estimates_are_described() -> None:
    controller = Dynamite(learning_rate=0.01)
    assert controller.describe(controller.start(FLEET, LIMITS, ALL)[1]) == {}
    _, state, _, _ = decided(LIMITS)
    assert controller.describe(state) == pytest.approx(
        {
            "loss": 2,
            "quadratic_bound": 3,
            "smoothness": 2,
            "pl_constant": 0.5,
            "divergence": 1.5,
            "gradient_variance": 4,
        }
    )
