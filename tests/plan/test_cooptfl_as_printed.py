import math

import numpy as np
import pytest

from dynamite_fl import Fleet, Infeasible, Limits, cooptimize
from dynamite_fl.plan._allocate import allocate
from dynamite_fl.plan.cooptfl_as_printed import printed_cooptfl, printed_split
from tests.plan.fixtures import EXAMPLE, example
from tests.plan.oracles import greedy_noise


def test_printed_split_by_hand() -> None:
    # Shares of 20 in the ratio 1 : 2 : 2 are 4, 8 and 8; the last may have 5, so the others
    # share 15 as 5 and 10.
    assert printed_split([1, 4, 4], [10, 10, 10], [9, 99, 5], 20) == [5, 10, 5]


def test_printed_algorithm_can_leave_a_client_without_a_sample() -> None:
    """Misprint 2: five samples are enough for four clients, but the first keeps three."""
    assert printed_split([100, 1, 1, 1], [1, 1, 1, 1], [9, 9, 9, 9], 5) == [3, 1, 1, 0]
    sizes = allocate(np.array([100.0, 1, 1, 1]), np.full((1, 4), 9.0), np.array([5.0]))
    assert sizes.tolist() == [[2, 1, 1, 1]]


def test_printed_algorithm_can_miss_the_optimum() -> None:
    """Misprint 2: shares of 6 are 3, 1.8, 0.6 and 0.6. The first's third sample stays its own
    when the last two take what rounding down has freed, though the second needs it more."""
    variance = np.array([25.0, 9, 1, 1])
    assert printed_split(variance.tolist(), [1, 1, 1, 1], [9, 9, 9, 9], 6) == [3, 1, 1, 1]
    assert allocate(variance, np.full((1, 4), 9.0), np.array([6.0])).tolist() == [[2, 2, 1, 1]]
    assert 25 / 2 + 9 / 2 + 1 + 1 < 25 / 3 + 9 + 1 + 1


def test_how_often_the_printed_algorithm_fails() -> None:
    """On random small instances it is infeasible in some, worse in others, never better."""
    rng = np.random.default_rng(0)
    infeasible = worse = 0
    for _ in range(2000):
        n = rng.integers(2, 7)
        variance, samples = rng.lognormal(0, 2.5, n), rng.integers(1, 30, n).astype(float)
        ceilings = rng.integers(1, 40, n).astype(float)
        total = float(rng.integers(n, ceilings.sum() + 1))
        sizes = np.array(
            printed_split(variance.tolist(), samples.tolist(), ceilings.tolist(), total)
        )
        assert sizes.sum() <= total
        assert (sizes <= ceilings).all()
        if (sizes == 0).any():
            infeasible += 1
            continue
        weights = variance * samples**2
        best, noise = greedy_noise(weights, ceilings, total), (weights / sizes).sum()
        assert noise >= best * (1 - 1e-12)
        worse += noise > best * (1 + 1e-9)
    assert infeasible > 50
    assert worse > 10


def test_printed_plan_is_never_better_than_ours() -> None:
    fleet, given = example()
    printed = printed_cooptfl(fleet, given, EXAMPLE)
    assert printed.seconds <= given.deadline
    assert printed.cost <= given.budget
    assert cooptimize(fleet, given, EXAMPLE).bound <= printed.bound


def test_printed_algorithm_says_when_it_has_no_plan() -> None:
    fleet = Fleet(
        samples=[1000, 1, 1, 1], gradient_variance=1, samples_per_second=math.inf, comm_seconds=0
    )
    given = Limits(
        rounds=1, deadline=1, budget=6, cost_per_sample=1, cost_per_round=1, max_local_steps=1
    )
    assert cooptimize(fleet, given, EXAMPLE).batch_sizes.tolist() == [2, 1, 1, 1]
    with pytest.raises(ValueError, match="without a sample"):
        printed_cooptfl(fleet, given, EXAMPLE)
    with pytest.raises(Infeasible):
        printed_cooptfl(fleet, Limits(**{**vars(given), "budget": 4}), EXAMPLE)
