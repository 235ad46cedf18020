import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl import Fleet, Limits
from dynamite_fl.plan._problem import (
    batch_ceilings,
    cases,
    round_cost,
    round_seconds,
    total_ceilings,
)
from tests.examples import examples
from tests.plan.strategies import fleets, limits


def test_seconds_and_cost_by_hand() -> None:
    fleet = Fleet(
        samples=[9, 9],
        gradient_variance=1,
        samples_per_second=[10, 40],
        step_overhead=[0.5, 0],
        comm_seconds=[1, 3],
    )
    assert round_seconds(fleet, 2, [5, 8]).tolist() == [2 * (0.5 + 0.5) + 1, 2 * 0.2 + 3]
    prices = Limits(deadline=1, budget=1, cost_per_sample=0.5, cost_per_round=2)
    assert round_cost(prices, 3, 10) == 17


def test_the_budget_is_divided_by_the_rounds() -> None:
    """Misprint 1: the paper's own numbers give 66.7 samples a client, not 200,000."""
    fleet = Fleet(samples=[10**6] * 20, gradient_variance=1, samples_per_second=1, comm_seconds=0)
    prices = Limits(deadline=math.inf, budget=10_000, cost_per_sample=0.0005, cost_per_round=2)
    total = total_ceilings(fleet, prices, cases(3000, 2, math.inf, 10_000))
    assert total.tolist() == [1333]  # 20 * 66.7


def test_ceilings_by_hand() -> None:
    fleet = Fleet(
        samples=[100, 100, 7, 100],
        gradient_variance=1,
        samples_per_second=[10, 10, 10, math.inf],
        step_overhead=[0, 0.5, 0, 2],
        comm_seconds=1,
        buffer_size=[100, 100, 100, 60],
    )
    # 10 rounds in 50 s: 4 s a round are left for 2 steps of 2 s.
    assert batch_ceilings(fleet, cases(10, 2, 50, 1)).tolist() == [[20, 15, 7, 60]]
    # For 3 steps of 1.33 s the last client's 2 s of overhead are too long.
    assert batch_ceilings(fleet, cases(10, 3, 50, 1)).tolist() == [[13, 8, 7, 0]]


@examples(500)
@given(fleets(samples=50), limits(rounds=st.integers(1, 20)), st.integers(1, 5))
def test_ceilings_are_the_largest_that_keep_the_limits(
    fleet: Fleet, given: Limits, steps: int
) -> None:
    case = cases(given.rounds or 1, steps, given.deadline, given.budget)
    ceilings = batch_ceilings(fleet, case)[0]
    rounds = given.rounds or 1
    sizes = np.arange(0, 51)[:, None] * np.ones(len(fleet))
    in_time = rounds * round_seconds(fleet, steps, sizes) <= given.deadline
    allowed = np.where(in_time & (sizes <= fleet.at_hand), sizes, 0)
    assert ceilings.tolist() == allowed.max(axis=0).tolist()
    totals = np.arange(0, fleet.at_hand.sum() + 1)
    affordable = rounds * round_cost(given, steps, totals) <= given.budget
    assert total_ceilings(fleet, given, case)[0] == np.where(affordable, totals, 0).max()


@given(
    st.integers(1, 30),
    st.floats(1e13, 1e18),
    st.floats(0.1, 10),
    st.floats(0, 1e-15),
    st.integers(1, 3),
)
def test_ceilings_are_exact_where_the_guess_is_not(
    rounds: int, speed: float, comm: float, spare: float, steps: int
) -> None:
    """Hardly any time beside the communication, at speeds that blow up rounding errors."""
    fleet = Fleet(
        samples=[10**15], gradient_variance=1, samples_per_second=speed, comm_seconds=comm
    )
    deadline = rounds * comm * (1 + spare)
    (size,) = batch_ceilings(fleet, cases(rounds, steps, deadline, 1.0))[0]
    seconds = [float(rounds * round_seconds(fleet, steps, [size + more])[0]) for more in (0, 1)]
    assert size == 0 or seconds[0] <= deadline
    assert size == 10**15 or seconds[1] > deadline


@given(st.integers(1, 10**6), st.integers(1, 100), st.integers(1, 10**5), st.floats(1e-6, 10))
def test_a_budget_of_just_so_many_samples_buys_them(
    rounds: int, steps: int, total: int, price: float
) -> None:
    """Rounding errors must not cost a sample where the budget is exactly enough."""
    fleet = Fleet(samples=[2 * total], gradient_variance=1, samples_per_second=1, comm_seconds=0)
    prices = Limits(deadline=math.inf, budget=1, cost_per_sample=price, cost_per_round=0.3)
    budget = rounds * float(round_cost(prices, steps, total))
    assert total_ceilings(fleet, prices, cases(rounds, steps, math.inf, budget))[0] == total
