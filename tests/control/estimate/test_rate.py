import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl.control.estimate.rate import (
    RateEstimate,
    after_ruin,
    update_rate,
    with_measured,
    with_raced,
)
from dynamite_fl.reports import RoundReport

ONE = np.ones(1)


def report(
    rates: list[float],
    ruining_rate: float | None = None,
    factors: list[float] | None = None,
    samples: list[float] | None = None,
) -> RoundReport:
    clients = len(rates)
    return RoundReport(
        round_index=1,
        clients=np.arange(clients),
        local_steps=4,
        learning_rate=0.1,
        batch_sizes=np.full(clients, 8),
        present=np.full(clients, True),
        samples=np.full(clients, 9.0) if samples is None else np.array(samples),
        step_seconds=np.ones(clients),
        comm_seconds=np.ones(clients),
        stable_rates=np.array(rates),
        steepness=np.ones(clients),
        race_factors=np.full(clients, np.nan) if factors is None else np.array(factors),
        ruining_rate=ruining_rate,
    )


def test_nothing_is_known_at_first() -> None:
    assert not RateEstimate().is_known
    assert math.isnan(RateEstimate().stable)
    assert not update_rate(RateEstimate(), report([np.nan, np.nan])).is_known


def test_smaller_rates_are_followed_at_once_and_larger_ones_slowly() -> None:
    """A stable rate of 0.1 halves the slope, so that 0.2 takes all of it."""
    known = with_measured(RateEstimate(), ONE, ONE)
    assert with_measured(known, 0.1 * ONE, ONE).stable == pytest.approx(0.2**0.8)
    assert with_measured(known, 10 * ONE, ONE).stable == pytest.approx(10**0.2)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_a_rate_is_kept_while_its_steps_end_before_the_least_loss(
    known: float, curvature: float
) -> None:
    """At a rate r, the slope falls by the share r h, where h is the curvature."""
    measured = with_measured(RateEstimate(math.log(known)), 0.5 / curvature * ONE, ONE).stable
    fall = known * curvature
    if 0.5 < fall < 1:
        assert measured == pytest.approx(known)
    elif fall >= 1:
        assert 1 / curvature * (1 - 1e-9) <= measured <= known * (1 + 1e-9)
    else:
        assert known * (1 - 1e-9) <= measured <= 0.5 / curvature * (1 + 1e-9)


def test_a_loss_that_bends_more_and_more_does_not_lower_the_rate_without_end() -> None:
    """The curvature doubles until it is at the edge of stability of a loss that saturates."""
    estimate, curvature = RateEstimate(math.log(0.4)), 0.5
    for _ in range(100):
        curvature = min(2 * curvature, 1 / estimate.stable)
        estimate = with_measured(estimate, 0.5 / curvature * ONE, ONE)
    assert estimate.stable > 0.3


@given(st.lists(st.tuples(st.floats(1e-6, 1e6), st.floats(1e-9, 1e9)), min_size=1, max_size=9))
def test_the_estimate_is_within_what_clients_measured(trials: list[tuple[float, float]]) -> None:
    rates, steepness = map(np.array, zip(*trials, strict=True))
    stable = with_measured(RateEstimate(), rates, steepness).stable
    assert rates.min() * (1 - 1e-9) <= stable <= rates.max() * (1 + 1e-9)


@given(st.sampled_from([np.nan, np.inf, -1.0, 0.0]), st.sampled_from([np.nan, np.inf, -1.0, 0.0]))
def test_figures_that_cannot_be_used_are_left_out(rate: float, steepness: float) -> None:
    measured = with_measured(
        RateEstimate(), np.array([rate, 0.5, 0.5]), np.array([1.0, 1.0, steepness])
    )
    assert measured.stable == pytest.approx(0.5)


def test_no_later_rate_comes_near_one_that_ruined_the_model() -> None:
    estimate = update_rate(with_measured(RateEstimate(), ONE, ONE), report([1.0], 0.8))
    assert estimate.stable == pytest.approx(0.2)  # a quarter of it at first
    for _ in range(50):
        estimate = update_rate(estimate, report([1.0]))
    assert estimate.stable == pytest.approx(0.4)  # and never more than half of it


def test_ruins_lower_the_rate_again_and_again() -> None:
    estimate = RateEstimate()
    for rate in (1.0, 0.25, 0.0625):
        estimate = after_ruin(estimate, rate)
    assert estimate.stable == pytest.approx(0.0625 / 4)


def test_the_median_winner_of_races_counts_if_most_clients_have_a_larger_one() -> None:
    """The mean curvature is (1 + 1 + 5) / 3 times that of the first client."""
    rates = [0.1, 0.1, 0.02]
    raced = update_rate(RateEstimate(), report(rates, factors=[8, 1, 32]))
    assert raced.stable == pytest.approx(0.64)
    assert raced.is_raced
    few = update_rate(RateEstimate(), report(rates, factors=[1, 1, 32]))
    assert few.stable == pytest.approx(0.1 * 3 / 7)
    assert not few.is_raced


def test_half_of_the_clients_are_not_most_of_them() -> None:
    rates = np.array([0.1, 0.1])
    assert not with_raced(RateEstimate(), rates, np.array([1.0, 8.0])).is_raced


def test_no_single_client_decides_a_race() -> None:
    rates, factors = np.full(3, 0.1), np.array([1e300, 1.0, 1.0])
    assert not with_raced(RateEstimate(), rates, factors).is_raced
    factors = np.array([1e300, 8.0, 8.0, 8.0])
    assert with_raced(RateEstimate(), np.full(4, 0.1), factors).stable == pytest.approx(0.8)


def test_clients_that_did_not_race_do_not_count() -> None:
    rates, factors = np.full(4, 0.1), np.array([np.nan, 8, np.nan, np.nan])
    assert with_raced(RateEstimate(), rates, factors).stable == pytest.approx(0.8)
    assert not with_raced(RateEstimate(), rates, np.full(4, np.nan)).is_raced


def test_curvature_does_not_change_a_rate_that_has_won_and_a_ruin_does() -> None:
    estimate = update_rate(RateEstimate(), report([0.1], factors=[8]))
    for rate in (0.001, 10.0):
        assert update_rate(estimate, report([rate])) == estimate
    ruined = update_rate(estimate, report([0.1], 0.8))
    assert ruined.stable == pytest.approx(0.2)
    assert ruined.ceiling == 0.4
    assert ruined.is_raced
