"""Epsilon against closed forms, against Opacus called on its own, and never above its limit."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import MOST_ROUNDS
from dynamite_fl.training.accountant import Accountant, least_noise

NOISES = (0.7, 1.0, 2.0, 4.0, 10.0, 30.0)


def exact_epsilon(noise: float, rounds: int, delta: float) -> float:
    """Return epsilon of the Gaussian mechanism without sampling (Balle and Wang 2018, Theorem 8).

    So many rounds with the noise z are as private as one round with the noise z / sqrt(rounds).
    """
    mu = math.sqrt(rounds) / noise

    def excess(epsilon: float) -> float:
        far = norm.logcdf(-epsilon / mu - mu / 2) + epsilon
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(far) - delta)

    return float(brentq(excess, 0.0, 10 * (mu**2 + 10 * mu)))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("rounds", [1, 10, 100])
@pytest.mark.parametrize("delta", [1e-3, 1e-5])
def test_without_cohorts_epsilon_is_between_the_exact_one_and_that_of_zcdp(
    noise: float, rounds: int, delta: float
) -> None:
    # Bun and Steinke 2016: k rounds are rho-zCDP with rho = k / (2 z^2), and that gives a bound.
    rho = rounds / (2 * noise**2)
    bound = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    found = Accountant(noise, 1.0, delta).epsilon(rounds)
    assert exact_epsilon(noise, rounds, delta) <= found <= bound


@pytest.mark.parametrize(("noise", "chance", "rounds"), [(1.0, 0.1, 50), (0.8, 0.02, 400)])
def test_with_cohorts_epsilon_is_that_of_opacus(noise: float, chance: float, rounds: int) -> None:
    from opacus.accountants import RDPAccountant

    # Opacus reports the sum step by step, over orders of its own choice.
    theirs = RDPAccountant()
    for _ in range(rounds):
        theirs.step(noise_multiplier=noise, sample_rate=chance)
    found = Accountant(noise, chance, 1e-5).epsilon(rounds)
    assert found == pytest.approx(theirs.get_epsilon(delta=1e-5), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "chance", "rounds"), [(1.0, 0.1, 50), (0.8, 0.02, 400)])
def test_epsilon_is_an_upper_bound_of_the_numerical_one(
    noise: float, chance: float, rounds: int
) -> None:
    from opacus.accountants import PRVAccountant

    numerical = PRVAccountant()
    numerical.history = [(noise, chance, rounds)]
    found = Accountant(noise, chance, 1e-5).epsilon(rounds)
    tight = numerical.get_epsilon(delta=1e-5)
    assert 0.7 * found < tight < found


def test_smaller_chances_spend_less_and_more_rounds_spend_more() -> None:
    chances = [Accountant(1.0, chance, 1e-4).epsilon(20) for chance in (0.05, 0.3, 1.0)]
    rounds = [Accountant(1.0, 0.1, 1e-4).epsilon(k) for k in (0, 1, 5, 50)]
    assert chances == sorted(chances)
    assert rounds == sorted(rounds)
    assert rounds[0] == 0


@settings(deadline=None)
@given(
    noise=st.floats(0.4, 60),
    chance=st.sampled_from([0.01, 0.2, 1.0]),
    epsilon=st.floats(0.05, 30),
    delta=st.sampled_from([1e-2, 1e-6]),
)
@example(noise=60.0, chance=0.01, epsilon=30.0, delta=1e-2)  # as many rounds as a limit may name
def test_the_most_rounds_keep_epsilon_and_one_more_does_not(
    noise: float, chance: float, epsilon: float, delta: float
) -> None:
    accountant = Accountant(round(noise, 1), chance, delta)
    most = accountant.most_rounds(epsilon)
    assert accountant.epsilon(most) <= epsilon
    assert most == MOST_ROUNDS or epsilon < accountant.epsilon(most + 1)


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 12.0])
def test_the_least_noise_is_enough_and_less_is_not(epsilon: float) -> None:
    noise = least_noise(epsilon=epsilon, delta=1e-4, chance=1.0, rounds=30)
    assert Accountant(noise, 1.0, 1e-4).epsilon(30) <= epsilon
    assert Accountant(0.999 * noise, 1.0, 1e-4).epsilon(30) > epsilon


def test_an_epsilon_that_no_noise_keeps_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="larger epsilon"):
        least_noise(epsilon=1e-9, delta=1e-9, chance=1.0, rounds=10)


def test_the_documented_table_is_right() -> None:
    page = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (all|\d+) \| (\d+) \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) == 5
    for clients, cohort, noise, cells in rows:
        n = int(clients)
        chance = 1.0 if cohort == "all" else int(cohort) / n
        accountant = Accountant(float(noise), chance, n**-1.1)
        expected = [f"{accountant.epsilon(rounds):.2f}" for rounds in (10, 100, 1000)]
        assert cells.split(" | ") == expected
    # What the server sees of one client, if a thousand clients share the noise of ten clip norms.
    models, single = (Accountant(z, 1.0, 1e-4).epsilon(100) for z in (10, 10 / math.sqrt(1000)))
    assert f"epsilon is {models:.1f} for the models" in page
    assert f"but {single:.0f} for what the server" in page
