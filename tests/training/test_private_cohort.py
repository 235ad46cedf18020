"""Poisson sampling: every client is drawn on its own, with the same chance."""

import math

import numpy as np
import pytest

from dynamite_fl.training.private_cohort import draw_private_cohort
from tests.training.private import limits, mechanism

CLIENTS, ROUNDS = 40, 2000


@pytest.mark.parametrize("is_real", [False, True])
def test_clients_are_drawn_independently_with_the_same_chance(is_real: bool) -> None:
    made = mechanism(clients=CLIENTS, cohort=10, is_real=is_real)
    drawn = np.zeros((ROUNDS, CLIENTS), dtype=bool)
    for k in range(ROUNDS):
        cohort, is_empty = draw_private_cohort(CLIENTS, made, seed=5, round_index=k)
        drawn[k, cohort] = not is_empty
    # A frequency has the variance q (1 - q) / K; six deviations of 40 clients are safe.
    assert np.abs(drawn.mean(axis=0) - 0.25).max() < 6 * math.sqrt(0.25 * 0.75 / ROUNDS)
    # Sizes are binomial; a cohort of fixed size would have no variance. The variance of a sample
    # variance is below 3 v^2 / K.
    variance = CLIENTS * 0.25 * 0.75
    sizes = drawn.sum(axis=1)
    assert abs(sizes.var() - variance) < 6 * variance * math.sqrt(3 / ROUNDS)


def test_one_client_stands_in_for_an_empty_cohort() -> None:
    made = mechanism(clients=CLIENTS, cohort=1)
    draws = [draw_private_cohort(CLIENTS, made, seed=0, round_index=k) for k in range(300)]
    empty = [cohort for cohort, is_empty in draws if is_empty]
    # Nobody is drawn with the chance (1 - 1/40)^40 = 0.363, whose deviation here is 0.028.
    assert abs(len(empty) / 300 - 0.363) < 5 * 0.028
    assert all(cohort.shape == (1,) for cohort in empty)
    assert len({int(cohort[0]) for cohort in empty}) > 10


def test_without_a_cohort_everybody_takes_part() -> None:
    cohort, is_empty = draw_private_cohort(CLIENTS, mechanism(clients=CLIENTS), 0, 1)
    assert cohort.tolist() == list(range(CLIENTS))
    assert not is_empty


def test_keyed_cohorts_repeat_and_secret_ones_do_not() -> None:
    given = limits(delta=1e-4)
    keyed = mechanism(clients=900, cohort=300, given=given)
    secret = mechanism(clients=900, cohort=300, given=given, is_real=True)
    first, second = (draw_private_cohort(900, keyed, 1, 7)[0] for _ in range(2))
    assert np.array_equal(first, second)
    first, second = (draw_private_cohort(900, secret, 1, 7)[0] for _ in range(2))
    assert not np.array_equal(first, second)
