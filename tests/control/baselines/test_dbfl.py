from dataclasses import replace

import numpy as np
import pytest

from dynamite_fl.control.baselines.dbfl import DBFL, Growth, matched_growth
from tests.control.baselines.fleets import ALL, FLEET, LIMITS, STEADY


def test_batch_sizes_grow_by_a_factor_that_decays() -> None:
    """Factors 1.1, 1.05, 1.025: 20, 22, 23.1, 23.6775."""
    path = Growth(start=20, growth=0.1, decay=0.5, ceiling=100)
    assert path.sizes(4).tolist() == [20, 22, 24, 24]
    constant = Growth(start=100, growth=0.1, decay=1.0, ceiling=130)
    assert constant.sizes(4).tolist() == [100, 110, 121, 130]


@pytest.mark.parametrize("rounds", [1, 2, 10, 30, 100, 1000, 20_000])
@pytest.mark.parametrize("size", [1, 2, 10, 60, 500])
def test_growth_takes_as_many_samples(rounds: int, size: int) -> None:
    path = matched_growth(rounds, size, start=min(10, size), growth=0.1, ceiling=10 * size)
    total = path.sizes(rounds).sum()
    assert rounds * (size - 1) < total <= rounds * size  # batch sizes are whole
    assert (np.diff(path.sizes(rounds)) >= 0).all()
    if size == 60 and rounds >= 100:
        assert path.start == 10


def test_dbfl_spends_the_budget_over_all_rounds() -> None:
    controller = DBFL()
    plan, state = controller.start(FLEET, LIMITS, ALL)
    assert plan.batch_sizes.tolist() == [10, 10, 10]
    sizes = state.growth.sizes(100)
    assert 6000 - 20 <= sizes.sum() <= 6000
    for index in (1, 2, 50, 99):
        plan, state = controller.adapt(
            replace(STEADY, round_index=index), FLEET, LIMITS, ALL, state
        )
        assert plan.batch_sizes[0] == sizes[index]
        assert plan.local_steps == 2


def test_dbfl_counts_the_rounds_that_fit() -> None:
    _, state = DBFL().start(FLEET, replace(LIMITS, deadline=145), ALL)  # 50 of 2.9 s
    assert 3000 - 20 <= state.growth.sizes(50).sum() <= 3000
