from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl import Fleet, LossGeometry
from dynamite_fl.plan.bounds import (
    client_selection_bound,
    cumulative_bound,
    evaluate,
    geometric_sum,
    gradient_noise,
    local_bias,
    marginal_bound,
    power,
    tight_cumulative_bound,
)
from tests.plan.strategies import geometries

EASY = LossGeometry(
    learning_rate=0.5, quadratic_bound=2, smoothness=1, pl_constant=1, divergence=4, loss_gap=8
)


def geometry(**changes: float) -> LossGeometry:
    values = {
        "learning_rate": 0.01,
        "quadratic_bound": 3.0,
        "smoothness": 2.0,
        "pl_constant": 0.5,
        "divergence": 1.5,
        "loss_gap": 2.3,
    }
    return LossGeometry(**{**values, **changes})


def exact_bias(given: LossGeometry, tau: int) -> float:
    """h(tau) as the paper writes it, with so many digits that cancellation does not matter."""
    with localcontext() as context:
        context.prec = 400
        eta, beta, delta = map(Decimal, (given.learning_rate, given.smoothness, given.divergence))
        return float(delta / beta * ((eta * beta + 1) ** tau - 1) - eta * delta * tau)


def test_local_bias_by_hand() -> None:
    # h(1) = 4 (1.5 - 1) - 0.5*4 = 0;  h(2) = 4 (2.25 - 1) - 4 = 1;  h(3) = 4 * 2.375 - 6 = 3.5
    assert local_bias(EASY, [1, 2, 3]).tolist() == [0.0, 1.0, 3.5]


@pytest.mark.parametrize("smoothness", [1e-250, 1e-12, 1e-5, 0.1, 90.0])
def test_local_bias_does_not_cancel(smoothness: float) -> None:
    given = geometry(smoothness=smoothness)
    for tau in (1, 2, 3, 10, 100):
        assert local_bias(given, tau) == pytest.approx(exact_bias(given, tau), rel=1e-13)


def test_local_bias_at_the_edges() -> None:
    assert local_bias(geometry(smoothness=0), [1, 50]).tolist() == [0, 0]
    assert local_bias(geometry(divergence=0), [1, 50]).tolist() == [0, 0]
    with pytest.warns(UserWarning, match="learning_rate"):
        steep = geometry(learning_rate=1, smoothness=1e9)
    assert np.isfinite(local_bias(steep, 1000))


@pytest.mark.parametrize("decay", [0.0, 1e-300, 1e-17, 1e-9, 0.3, 1 - 1e-12, 1.0])
def test_geometric_sum_is_the_sum(decay: float) -> None:
    for terms in (1, 2, 17, 1000):
        with localcontext() as context:
            context.prec = 60
            contraction = 1 - Decimal(decay)
            terms_one_by_one = [contraction**j for j in range(1, terms)]
            exact = float(1 + sum(terms_one_by_one))
        assert geometric_sum(decay, terms) == pytest.approx(exact, rel=1e-13)
        assert power(decay, terms) == pytest.approx(float((1 - Decimal(decay)) ** terms), rel=1e-13)


def test_bounds_by_hand() -> None:
    # q = 1/2, beta eta^2/2 = 1/8; at tau = 2: (1 - q^2)/(1 - q) = 3/2, rho h^2 = 2, so with
    # noise 16/3 a round adds 1/8 * 3/2 * 16/3 + 2 = 3.
    noise = 16 / 3
    assert marginal_bound(EASY, 1, 2, noise) == pytest.approx(8 / 4 + 3)
    assert marginal_bound(EASY, 1, 2, noise, drift=4) == pytest.approx(12 / 4 + 3)
    # Two rounds: 8/2^4 + (1 + 1/2) 3 as printed, and 8/2^4 + (1 + 1/4) 3 exactly.
    assert cumulative_bound(EASY, 2, 2, noise) == pytest.approx(0.5 + 4.5)
    assert tight_cumulative_bound(EASY, 2, 2, noise) == pytest.approx(0.5 + 3.75)


@given(geometries, st.integers(1, 300), st.integers(1, 60), st.floats(0, 10))
def test_tight_bound_is_lemma_1_round_after_round(
    given: LossGeometry, rounds: int, steps: int, noise: float
) -> None:
    gap = given.loss_gap
    for _ in range(rounds):
        gap = float(marginal_bound(geometry_with_gap(given, gap), 1, steps, noise))
    assert tight_cumulative_bound(given, rounds, steps, noise) == pytest.approx(gap, rel=1e-9)


def geometry_with_gap(given: LossGeometry, gap: float) -> LossGeometry:
    return LossGeometry(**{**vars(given), "loss_gap": gap})


@given(geometries, st.integers(1, 10**6), st.integers(1, 200), st.floats(0, 10))
def test_printed_bound_is_looser_and_equal_at_one_step(
    given: LossGeometry, rounds: int, steps: int, noise: float
) -> None:
    tight, printed = (
        bound(given, rounds, steps, noise) for bound in (tight_cumulative_bound, cumulative_bound)
    )
    assert tight <= printed * (1 + 1e-9)
    one = cumulative_bound(given, rounds, 1, noise)
    assert tight_cumulative_bound(given, rounds, 1, noise) == pytest.approx(one, rel=1e-9)


@given(geometries, st.integers(1, 100), st.floats(0, 10))
def test_bounds_fall_then_rise_in_rounds(given: LossGeometry, steps: int, noise: float) -> None:
    rounds = np.unique(np.geomspace(1, 1e6, 300).astype(int))
    for bound in (cumulative_bound, tight_cumulative_bound, marginal_bound):
        values = bound(given, rounds, np.full(rounds.size, steps), np.full(rounds.size, noise))
        rise = np.diff(values) > 1e-12 * values[1:]
        fall = np.diff(values) < -1e-12 * values[1:]
        first_rise = np.argmax(rise) if rise.any() else rise.size
        assert not fall[first_rise:].any()


def test_bounds_take_many_plans_at_once() -> None:
    rounds, steps, noise = np.array([[10], [20]]), np.array([1, 2, 3]), np.array([0.1, 0.2, 0.3])
    for bound in (cumulative_bound, tight_cumulative_bound, marginal_bound):
        table = np.broadcast_to(bound(EASY, rounds, steps, noise), (2, 3))
        for i, j in np.ndindex(2, 3):
            assert table[i, j] == bound(EASY, rounds[i, 0], steps[j], noise[j])


def test_gradient_noise_is_the_variance_of_the_average() -> None:
    """Against sampling: means of batches drawn from normal gradients of known variance."""
    rng = np.random.default_rng(0)
    fleet = Fleet(
        samples=[100, 300], gradient_variance=[4, 9], samples_per_second=1, comm_seconds=0
    )
    draws = 40_000
    means = rng.normal(0, 2, (draws, 5)).mean(1) / 4 + 3 / 4 * rng.normal(0, 3, (draws, 7)).mean(1)
    # The variance of a normal's sample variance is 2 sigma^4/draws: four of its roots are allowed.
    allowed = 4 * np.sqrt(2 / draws)
    assert means.var() == pytest.approx(float(gradient_noise(fleet, [5, 7])), rel=allowed)


def test_an_objective_that_is_nan_is_refused() -> None:
    def broken(*_: object) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([np.nan, 1.0])

    with pytest.raises(ValueError, match="NaN"):
        evaluate(broken, 1, np.array([1, 2]), np.array([0.0, 0.0]))


CONSTANTS = {
    "smoothness": 2.0,
    "strong_convexity": 0.5,
    "gradient_norm": 3.0,
    "heterogeneity": 0.25,
    "start_distance": 2.0,
}


def test_client_selection_bound_by_hand() -> None:
    # kappa = 4, gamma = max(32, 2) = 32, B = 1 + 6*2*0.25 + 8*1*9 = 76, C = 4/6 * 4 * 9 = 24
    expected = 4 / (32 + 20 - 1) * (2 * (76 + 24) / 0.5 + 0.5 * 32 / 2 * 4)
    assert client_selection_bound(10, 2, 1.0, cohort=6, **CONSTANTS) == pytest.approx(expected)


def test_client_selection_bound_depends_on_the_cohort_not_on_rounds_alone() -> None:
    """The paper prints C = 4/K tau^2 G^2: with many rounds a cohort of one would cost nothing."""
    rounds = 10**9
    small, large = client_selection_bound(rounds, 5, 1.0, cohort=np.array([1, 100]), **CONSTANTS)
    # B = 1 + 3 + 8*16*9 = 1156; C = 4*25*9/cohort: 900 and 9. The rest is the same for both.
    assert small / large == pytest.approx((1156 + 900) / (1156 + 9), rel=1e-2)


def test_client_selection_bound_holds_for_drawn_clients() -> None:
    """FedAvg with a cohort of two on scalar quadratics, against the bound with its constants."""
    centres, share = np.array([-1.0, 0.0, 2.0]), np.array([0.5, 0.3, 0.2])  # F_i = (w - c_i)^2/2
    optimum = float(share @ centres)
    heterogeneity = float(share @ (optimum - centres) ** 2 / 2)  # all F_i* are 0
    rng = np.random.default_rng(0)
    rounds, steps, cohort, runs = 40, 3, 2, 2000
    gamma = max(8, steps)
    weights, largest = np.full(runs, 4.0), 0.0
    for k in range(rounds):
        chosen = centres[rng.choice(3, size=(runs, cohort), p=share)]
        local = np.repeat(weights[:, None], cohort, axis=1)
        for step in range(steps):
            gradient = local - chosen
            largest = max(largest, float(np.abs(gradient).max()))
            local = local - 2 / (gamma + k * steps + step) * gradient
        weights = local.mean(axis=1)
    gap = ((weights - optimum) ** 2 / 2).mean()
    bound = client_selection_bound(
        rounds,
        steps,
        0.0,
        cohort=cohort,
        smoothness=1,
        strong_convexity=1,
        gradient_norm=largest,
        heterogeneity=heterogeneity,
        start_distance=abs(4.0 - optimum),
    )
    assert 0 < gap < bound
