from dataclasses import replace

import numpy as np
import pytest

from dynamite_fl import Infeasible, uniform_plan
from dynamite_fl.control.ablations import StaticTau, UniformBatches
from dynamite_fl.plan.bounds import marginal_bound
from dynamite_fl.plan.cooptfl import bound_by_steps
from tests.control.probed_rounds import ALL, FLEET, LIMITS, decide, same


def test_static_steps() -> None:
    remaining = replace(LIMITS, rounds=98, deadline=300)
    plan, _, fleet, geometry = decide(StaticTau(local_steps=3), remaining)
    assert plan.local_steps == 3
    best = bound_by_steps(
        fleet, remaining, geometry, marginal_bound, rounds=98, local_steps=np.array([3])
    )
    assert plan.bound == best[0]
    first, _ = StaticTau().start(FLEET, LIMITS, ALL)
    assert first.local_steps == 2


def test_static_steps_within_the_largest_number_allowed() -> None:
    few = replace(LIMITS, max_local_steps=3)
    first, _ = StaticTau(local_steps=5).start(FLEET, few, ALL)
    assert first.local_steps == 3
    plan, _, _, _ = decide(StaticTau(local_steps=5), few)
    assert plan.local_steps == 3


def test_uniform_is_theorem_2_with_the_marginal_bound() -> None:
    remaining = replace(LIMITS, rounds=98, deadline=160)
    plan, _, fleet, geometry = decide(UniformBatches(), remaining)
    assert same(plan, uniform_plan(fleet, remaining, geometry, marginal_bound))


def test_the_client_of_least_data_limits_no_other() -> None:
    remaining = replace(LIMITS, rounds=2, deadline=900, max_local_steps=1)
    plan, _, _, _ = decide(UniformBatches(), remaining)
    assert plan.batch_sizes[3] == 30
    assert min(plan.batch_sizes[:3]) > 30


@pytest.mark.parametrize("kind", [StaticTau, UniformBatches])
def test_fewer_rounds_where_not_all_fit(kind: type[StaticTau] | type[UniformBatches]) -> None:
    short = replace(LIMITS, rounds=50, deadline=3)
    plan, _, _, _ = decide(kind(), short)
    assert 1 <= plan.rounds < 50
    assert plan.seconds <= 3
    with pytest.raises(Infeasible):
        decide(kind(), replace(short, deadline=0.1))
