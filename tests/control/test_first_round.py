from dataclasses import replace

import pytest

from dynamite_fl import Fleet, Limits
from dynamite_fl.control.first_round import long_first_plan

FLEET = Fleet(
    samples=[500, 500], gradient_variance=4, samples_per_second=[100, 200], comm_seconds=0.1
)
LIMITS = Limits(
    deadline=1e4, budget=1e4, cost_per_sample=0.01, cost_per_round=1, max_local_steps=1000
)


@pytest.mark.parametrize(
    ("rounds", "steps"), [(None, 64), (200, 64), (20, 64), (10, 128), (5, 256), (3, 427)]
)
def test_few_rounds_begin_with_a_longer_one(rounds: int | None, steps: int) -> None:
    plan = long_first_plan(FLEET, replace(LIMITS, rounds=rounds), least_steps=4)
    assert plan is not None
    assert (plan.local_steps, plan.batch_sizes.tolist()) == (steps, [16, 16])


@pytest.mark.parametrize("rounds", [3, 10, 50, 400])
@pytest.mark.parametrize("budget", [30.0, 300.0, 3000.0])
@pytest.mark.parametrize("deadline", [30.0, 300.0, 3000.0])
def test_the_round_keeps_to_its_share(rounds: int, budget: float, deadline: float) -> None:
    limits = replace(LIMITS, rounds=rounds, budget=budget, deadline=deadline)
    plan = long_first_plan(FLEET, limits, least_steps=4)
    if plan is None:
        return
    share = max(1 / rounds, 0.02)
    assert plan.cost / plan.rounds <= share * budget * (1 + 1e-9)
    assert plan.seconds / plan.rounds <= share * deadline * (1 + 1e-9)
    assert plan.local_steps > 4
    assert plan.batch_sizes.min() >= 4


def test_there_is_none_without_room() -> None:
    assert long_first_plan(FLEET, replace(LIMITS, rounds=50, budget=60), least_steps=4) is None
