import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from dynamite_fl import Infeasible, cooptimize
from dynamite_fl.control.dynamite import Dynamite
from dynamite_fl.control.estimate.loss import known_means, loss_geometry, with_measured_variance
from dynamite_fl.plan.bounds import cohort_bound, marginal_bound, tight_cumulative_bound
from tests.control.probed_rounds import ALL, FLEET, LIMITS, decide, same, second_round


def test_the_first_round_by_hand() -> None:
    """100 rounds of 4: (400 - 100)/(100 * 0.01) = 300 samples, 30 of them the last client's.

    Within a second a round, the first client does 0.89 * 50 = 44 samples.
    """
    plan, _ = Dynamite().start(FLEET, LIMITS, ALL)
    assert (plan.rounds, plan.local_steps) == (100, 1)
    assert plan.batch_sizes.tolist() == [44, 44, 44, 30]
    small, _ = Dynamite(first_batch=10).start(FLEET, LIMITS, ALL)
    assert small.batch_sizes.tolist() == [10] * 4


def test_a_round_without_probe_changes_nothing_yet() -> None:
    controller = Dynamite()
    _, state = controller.start(FLEET, LIMITS, ALL)
    plan, _ = controller.adapt(replace(second_round(), probe=None), FLEET, LIMITS, ALL, state)
    assert plan.local_steps == 1
    assert len(set(plan.batch_sizes[:3].tolist())) == 1


def test_the_plan_is_cooptfl_of_the_estimates() -> None:
    remaining = replace(LIMITS, rounds=98, deadline=160, budget=390)
    plan, _, fleet, geometry = decide(Dynamite(), remaining)
    assert same(plan, cooptimize(fleet, remaining, geometry, marginal_bound))
    assert plan.rounds == 98


def test_open_rounds_are_those_of_the_best_plan() -> None:
    remaining = replace(LIMITS, rounds=None)
    plan, state, fleet, geometry = decide(Dynamite(), remaining)
    outlook = cooptimize(fleet, remaining, geometry, tight_cumulative_bound)
    assert state.open_rounds == outlook.rounds
    chosen = replace(remaining, rounds=outlook.rounds)
    assert same(plan, cooptimize(fleet, chosen, geometry, marginal_bound))


def test_open_rounds_count_down() -> None:
    remaining = replace(LIMITS, rounds=None)
    _, state, _, _ = decide(Dynamite(), remaining)
    state = replace(state, open_rounds=60, chosen_at=50)
    controller = Dynamite()
    later = replace(second_round(), round_index=54)
    plan, _ = controller.adapt(later, FLEET, remaining, ALL, state)
    assert plan.rounds == 56
    later = replace(second_round(), round_index=55)
    _, state = controller.adapt(later, FLEET, remaining, ALL, state)
    assert state.chosen_at == 55


def test_fewer_rounds_where_not_all_fit() -> None:
    short = replace(LIMITS, rounds=50, deadline=3)
    plan, _, _, _ = decide(Dynamite(), short)
    assert 1 <= plan.rounds < 50
    assert plan.seconds <= 3
    with pytest.raises(Infeasible):
        decide(Dynamite(), replace(short, deadline=0.1))


def test_estimates_are_described() -> None:
    controller = Dynamite()
    assert controller.describe(controller.start(FLEET, LIMITS, ALL)[1]) == {}
    _, state, _, _ = decide(Dynamite(), LIMITS)
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


def test_estimates_and_plans_follow_the_rate_of_the_round() -> None:
    controller = Dynamite()
    _, state = controller.start(FLEET, LIMITS, ALL)
    report = replace(second_round(), learning_rate=0.5)
    plan, state = controller.adapt(report, FLEET, LIMITS, ALL, state)
    assert state.loss.quadratic_bound == 2.0  # 3 was measured, and 1 / 0.5 is the most
    geometry = loss_geometry(known_means(state.loss), 0.5)
    assert geometry is not None
    fleet = with_measured_variance(FLEET, state.loss)
    assert same(plan, cooptimize(fleet, LIMITS, geometry, marginal_bound))


def test_with_a_cohort_plans_minimise_the_bound_for_client_selection() -> None:
    """Two of four clients take part; the largest gradient norm is that of c_i and F_i measured."""
    controller, pair = Dynamite(), np.array([0, 2])
    _, state = controller.start(FLEET, LIMITS, pair)
    plan, state = controller.adapt(second_round(), FLEET, LIMITS, pair, state)
    geometry = loss_geometry(known_means(state.loss), second_round().learning_rate)
    assert geometry is not None
    latest = state.loss.latest
    norm = math.sqrt(np.nanmax(2 * latest.pl_constant * latest.loss))
    fleet = with_measured_variance(FLEET, state.loss).subset(pair)
    bound = partial(cohort_bound, cohort=2, gradient_norm=norm)
    assert same(plan, cooptimize(fleet, LIMITS, geometry, bound))
    everyone, _ = controller.adapt(second_round(), FLEET, LIMITS, ALL, state)
    assert same(
        everyone,
        cooptimize(with_measured_variance(FLEET, state.loss), LIMITS, geometry, marginal_bound),
    )
