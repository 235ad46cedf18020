"""Cohort sizes against a search of everything by the appendix's formula."""

import itertools
import math

import numpy as np
import pytest

from dynamite_fl import Fleet, Infeasible, Limits, LossGeometry, choose_cohort
from dynamite_fl.errors import InvalidInput
from dynamite_fl.plan.bounds import client_selection_bound, cohort_bound

FLEET = Fleet(
    samples=[5, 3, 4], gradient_variance=[9, 4, 30], samples_per_second=[8, 9, 7], comm_seconds=0.3
)
LIMITS = Limits(
    rounds=10, deadline=16, budget=21, cost_per_sample=0.07, cost_per_round=0.3, max_local_steps=4
)
GEOMETRY = LossGeometry(
    learning_rate=0.01,
    quadratic_bound=1,
    smoothness=2.0,
    pl_constant=0.5,
    divergence=1.2,
    loss_gap=3.0,
)


def appendix(rounds: int, tau: int, noise: float, m: int, big_g: float) -> float:
    """The printed theorem, with L = beta, mu = c, Gamma = delta^2/2c and |w0 - w*|^2 = 2 gap/c."""
    big_l, mu = GEOMETRY.smoothness, GEOMETRY.pl_constant
    kappa, gap = big_l / mu, 2 * GEOMETRY.loss_gap / mu
    gamma = max(8 * kappa, tau)
    big_b = noise + 6 * big_l * GEOMETRY.divergence**2 / (2 * mu) + 8 * (tau - 1) ** 2 * big_g**2
    big_c = 4 / m * tau**2 * big_g**2
    error = 2 * (big_b + big_c) / mu + mu * gamma / 2 * gap
    return kappa / (gamma + rounds * tau - 1) * error


def test_the_bound_is_the_appendix_s() -> None:
    for tau, noise, m in itertools.product((1, 3), (0.5, 7.0), (1, 20)):
        found = cohort_bound(GEOMETRY, 10, tau, noise, cohort=m, gradient_norm=1.5)
        assert float(found) == pytest.approx(appendix(10, tau, noise, m, 1.5))


@pytest.mark.parametrize("price", [0.0, 0.2, 0.45])
@pytest.mark.parametrize("norm", [0.05, 0.5, 3.0])
def test_the_choice_is_the_best_of_all(price: float, norm: float) -> None:
    best, choice = math.inf, (0, 0)
    batches = np.array(list(itertools.product(*(range(1, int(d) + 1) for d in FLEET.samples))))
    share = FLEET.samples / FLEET.samples.sum()
    for m, tau in itertools.product((1, 2, 3), range(1, 5)):
        expected = m / 3 * batches.sum(1)
        cost = 10 * (0.07 * tau * expected + 0.3 + price * m)
        seconds = 10 * (tau * batches / FLEET.samples_per_second + 0.3).max(1)
        for sizes in batches[(cost <= 21) & (seconds <= 16)]:
            noise = float((FLEET.gradient_variance * share**2 / sizes).sum())
            value = appendix(10, tau, noise, m, norm)
            if value < best - 1e-12:
                best, choice = value, (m, tau)
    found = choose_cohort(
        FLEET, LIMITS, GEOMETRY, gradient_norm=norm, cost_per_client=price, sizes=(1, 2, 3)
    )
    assert found.plan.bound == pytest.approx(best)
    assert (found.size, found.plan.local_steps) == choice
    assert found.plan.cost <= 21


def test_by_default_powers_of_two_and_all_are_tried() -> None:
    everyone = choose_cohort(FLEET, LIMITS, GEOMETRY, gradient_norm=3.0)
    assert everyone.size == 3
    costly = choose_cohort(FLEET, LIMITS, GEOMETRY, gradient_norm=0.01, cost_per_client=0.6)
    assert costly.size < 3


def test_what_cannot_be_chosen_is_refused() -> None:
    with pytest.raises(Infeasible):
        choose_cohort(FLEET, LIMITS, GEOMETRY, gradient_norm=1, cost_per_client=9)
    with pytest.raises(InvalidInput, match="sizes is 4"):
        choose_cohort(FLEET, LIMITS, GEOMETRY, gradient_norm=1, sizes=[4])
    with pytest.raises(InvalidInput, match="sizes is empty"):
        choose_cohort(FLEET, LIMITS, GEOMETRY, gradient_norm=1, sizes=[])


def test_a_larger_cohort_has_a_smaller_bound() -> None:
    bounds = [
        float(cohort_bound(GEOMETRY, 10, 2, 1.0, cohort=m, gradient_norm=2.0)) for m in (1, 5, 50)
    ]
    assert bounds[0] > bounds[1] > bounds[2]
    printed = client_selection_bound(
        10,
        2,
        1.0,
        cohort=5,
        smoothness=2.0,
        strong_convexity=0.5,
        gradient_norm=2.0,
        heterogeneity=1.44,
        start_distance=math.sqrt(12),
    )
    assert bounds[1] == pytest.approx(float(printed))
