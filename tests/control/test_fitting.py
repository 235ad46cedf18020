"""Batch sizes that fit the limits, against a search by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl import Fleet, Limits
from dynamite_fl.control.fitting import clip_batches, constant_plan, largest_batch
from dynamite_fl.plan.feasibility import Infeasible

FLEET = Fleet(
    samples=[5, 40, 90],
    gradient_variance=1,
    samples_per_second=[100, 50, 200],
    comm_seconds=[0.1, 0.2, 0.1],
)


def limits(deadline: float, budget: float) -> Limits:
    return Limits(deadline=deadline, budget=budget, cost_per_sample=0.01, cost_per_round=0.1)


def test_batches_are_limited_by_one_and_the_data() -> None:
    assert clip_batches(FLEET, [0, 39.9, 1000]).tolist() == [1, 39, 90]


def test_a_constant_plan_has_as_many_rounds_as_fit() -> None:
    plan = constant_plan(FLEET, limits(deadline=100, budget=1e9), local_steps=2, batch_sizes=20)
    assert plan.batch_sizes.tolist() == [5, 20, 20]
    assert plan.rounds == 100  # the slowest client takes 2 * 20/50 + 0.2 seconds
    with pytest.raises(Infeasible):
        constant_plan(FLEET, limits(deadline=0.5, budget=1e9), 2, 20)


@given(st.floats(0.5, 40), st.floats(0.5, 40), st.integers(1, 10), st.integers(1, 5))
def test_the_largest_batch_fits_and_the_next_does_not(
    deadline: float, budget: float, rounds: int, local_steps: int
) -> None:
    def fits(size: int) -> bool:
        sizes = np.minimum(size, FLEET.samples)
        steps = local_steps * sizes / FLEET.samples_per_second
        seconds = rounds * (steps + FLEET.comm_seconds).max()
        cost = rounds * (0.01 * local_steps * sizes.sum() + 0.1)
        return bool(seconds <= deadline and cost <= budget)

    found = largest_batch(FLEET, limits(deadline, budget), rounds, local_steps)
    sizes = [size for size in range(1, 91) if fits(size)]
    assert found == max(sizes, default=0)
