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
)
from dynamite_fl.reports import RoundReport

ONE = np.ones(1)


def report(rates: list[float], ruining_rate: float | None = None) -> RoundReport:
    clients = len(rates)
    return RoundReport(
        round_index=1,
        clients=np.arange(clients),
        local_steps=4,
        learning_rate=0.1,
        batch_sizes=np.full(clients, 8),
        present=np.full(clients, True),
        samples=np.full(clients, 9.0),
        step_seconds=np.ones(clients),
        comm_seconds=np.ones(clients),
        stable_rates=np.array(rates),
        steepness=np.ones(clients),
        ruining_rate=ruining_rate,
    )


def test_nothing_is_known_at_first() -> None:
    assert not RateEstimate().is_known
    assert math.isnan(RateEstimate().stable)
    assert not update_rate(RateEstimate(), report([np.nan, np.nan])).is_known


def test_smaller_rates_are_followed_at_once_and_larger_ones_slowly() -> None:
    known = with_measured(RateEstimate(), ONE, ONE)
    assert with_measured(known, 0.1 * ONE, ONE).stable == pytest.approx(0.1**0.8)
    assert with_measured(known, 10 * ONE, ONE).stable == pytest.approx(10**0.2)


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
