from dataclasses import replace

import numpy as np
import pytest

from dynamite_fl import Infeasible, cooptimize, tradeoff
from dynamite_fl.plan.bounds import marginal_bound
from tests.plan.fixtures import EXAMPLE, example


@pytest.mark.parametrize(
    ("rounds", "deadlines", "budgets"),
    [
        (3000, [100, 1500, 2000, 5000, np.inf], [5000, 7000, 10_000, 40_000]),
        (None, [0.4, 1500, 5000], [1, 7000]),
    ],
)
def test_every_cell_is_its_own_best_plan(
    rounds: int | None, deadlines: list[float], budgets: list[float]
) -> None:
    fleet, given = example()
    given = replace(given, rounds=rounds)
    table = tradeoff(fleet, given, EXAMPLE, deadlines=deadlines, budgets=budgets)
    for i, deadline in enumerate(deadlines):
        for j, budget in enumerate(budgets):
            cell = replace(given, deadline=deadline, budget=budget)
            try:
                plan = cooptimize(fleet, cell, EXAMPLE)
            except Infeasible:
                assert table.rounds[i, j] == table.local_steps[i, j] == 0
                assert np.isinf(table.bound[i, j])
                with pytest.raises(Infeasible):
                    table.plan(i, j)
                continue
            assert table.rounds[i, j] == plan.rounds
            assert table.local_steps[i, j] == plan.local_steps
            assert table.bound[i, j] == pytest.approx(plan.bound, rel=1e-12)
            assert table.plan(i, j).batch_sizes.tolist() == plan.batch_sizes.tolist()
    assert np.isinf(table.bound).any()
    assert np.isfinite(table.bound).any()


def test_the_objective_is_used() -> None:
    fleet, given = example()
    table = tradeoff(fleet, given, EXAMPLE, marginal_bound, deadlines=[5000], budgets=[10_000])
    plan = cooptimize(fleet, given, EXAMPLE, marginal_bound)
    assert table.local_steps[0, 0] == plan.local_steps
    assert table.bound[0, 0] == pytest.approx(plan.bound, rel=1e-12)


def test_more_time_or_money_never_hurts() -> None:
    fleet, given = example()
    deadlines, budgets = np.linspace(1400, 6000, 12), np.linspace(6100, 12_000, 12)
    bound = tradeoff(fleet, given, EXAMPLE, deadlines=deadlines, budgets=budgets).bound
    assert (bound[1:] <= bound[:-1] * (1 + 1e-12)).all()
    assert (bound[:, 1:] <= bound[:, :-1] * (1 + 1e-12)).all()


@pytest.mark.parametrize("grid", [[], [[1, 2]], [1, -1], [np.nan], ["soon"]])
def test_a_bad_grid_is_named(grid: list[float]) -> None:
    fleet, given = example()
    with pytest.raises(ValueError, match="deadlines"):
        tradeoff(fleet, given, EXAMPLE, deadlines=grid, budgets=[1000])
