"""From settings and limits to noise: who adds how much, and how many rounds are allowed."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamite_fl import Infeasible, InvalidInput, Limits
from dynamite_fl.client.gaussian_noise import KeyedNoise, SecretNoise
from dynamite_fl.training.private_mechanism import build_mechanism, require_a_round
from tests.training.private import limits, mechanism


def test_without_settings_there_is_no_mechanism_and_no_epsilon() -> None:
    plain = Limits(deadline=1, budget=1, cost_per_sample=0, cost_per_round=0)
    common = {"clients": 9, "cohort": None, "seed": 0, "is_real": False}
    assert build_mechanism(None, plain, **common) is None  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="no table privacy"):
        build_mechanism(None, limits(epsilon=1.0), **common)  # type: ignore[arg-type]


@pytest.mark.parametrize(("clients", "delta"), [(20, 0.05), (20, 0.5), (1000, 1e-3)])
def test_delta_must_be_below_one_in_the_number_of_clients(clients: int, delta: float) -> None:
    with pytest.raises(InvalidInput, match=f"1 / {clients}"):
        mechanism(clients=clients, given=limits(delta=delta))
    mechanism(clients=clients, given=limits(delta=0.99 / clients))


def test_delta_is_needed() -> None:
    with pytest.raises(InvalidInput, match="delta"):
        mechanism(given=limits(delta=None))


@pytest.mark.parametrize("missing", ["rounds", "epsilon"])
def test_noise_that_is_left_out_is_computed_from_rounds_and_epsilon(missing: str) -> None:
    made = mechanism(noise_multiplier=None, given=limits(rounds=30, epsilon=4.0))
    assert made.accountant.epsilon(30) <= 4.0
    assert made.most_releases == 30
    with pytest.raises(InvalidInput, match=missing):
        mechanism(
            noise_multiplier=None, given=limits(**{"rounds": 9, "epsilon": 4.0, missing: None})
        )


def test_noise_is_keyed_in_simulations_and_secret_on_real_machines() -> None:
    assert mechanism(seed=7).noise == KeyedNoise(7)
    assert mechanism(is_real=True).noise == SecretNoise()
    assert mechanism(is_real=True).is_secret


def test_a_cohort_lowers_the_chance_and_the_divisor() -> None:
    made = mechanism(clients=50, cohort=10, given=limits(delta=1e-3))
    assert (made.expected_clients, made.accountant.chance) == (10, 0.2)


def test_the_shares_of_nodes_add_up_to_the_noise() -> None:
    nodes = mechanism(cohort=5, noise_at="node", clip_norm=3.0).for_nodes()
    assert nodes is not None
    assert math.sqrt(5 * nodes.noise_deviation**2) == pytest.approx(2.0 * 3.0)
    assert nodes.clip_norm == 3.0
    assert mechanism(noise_at="server").for_nodes() is None


def test_the_noise_of_updates_and_of_counted_clips_spends_what_was_asked_for() -> None:
    made = mechanism(clients=100, clip_quantile=0.5, given=limits(delta=1e-3))
    # The divergences of Gaussian mechanisms add: 1/z^2 of updates and 1/(2 s)^2 of counts.
    assert made.update_noise**-2 + (2 * made.bit_noise) ** -2 == pytest.approx(2.0**-2)
    assert made.update_noise > 2.0
    with pytest.raises(InvalidInput, match="clip_quantile needs more than 20 clients"):
        mechanism(clip_quantile=0.5)


def test_an_epsilon_below_that_of_one_round_is_infeasible() -> None:
    given = limits(epsilon=0.1)
    made = mechanism(given=given)
    with pytest.raises(Infeasible, match="noise_multiplier = 2") as raised:
        require_a_round(made, given)
    assert raised.value.limit == "epsilon"
    enough = limits(epsilon=raised.value.needed)
    require_a_round(mechanism(given=enough), enough)


@settings(deadline=None)
@given(noise=st.floats(0.5, 20), epsilon=st.floats(0.1, 40), cohort=st.sampled_from([None, 4]))
def test_the_allowed_releases_never_exceed_epsilon(
    noise: float, epsilon: float, cohort: int | None
) -> None:
    made = mechanism(cohort=cohort, noise_multiplier=round(noise, 1), given=limits(epsilon=epsilon))
    assert made.accountant.epsilon(made.most_releases) <= epsilon
