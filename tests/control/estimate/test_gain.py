from dataclasses import replace

import numpy as np
import pytest

from dynamite_fl.control.estimate.gain import GainEstimate, expected_gain, update_gain
from dynamite_fl.records import FloatArray
from dynamite_fl.reports import PathReport

RATE = 0.1


def path(first_half: list[float], second_half: list[float]) -> PathReport:
    return PathReport(RATE * np.array(first_half), RATE * np.array(second_half), np.ones(1))


def estimate(steps: float, first_gain: float, second_gain: float) -> GainEstimate:
    return GainEstimate(
        mean_way=steps,
        mean_rate=1.0,
        first_gain=first_gain,
        second_gain=second_gain,
        gain_weight=9.0,
    )


def test_gains_by_hand() -> None:
    """The halves (1, 0) and (0.5, 0) have the products 2 and 1 with the first half (2, 1).

    The first round is compared with itself, with the weight 0.25, and the second one with the
    first, with the weight 0.5.
    """
    gain = update_gain(GainEstimate(), path([1, 0], [0.5, 0]), 4, RATE)
    assert (gain.first_gain, gain.second_gain) == pytest.approx((1.0, 0.5))
    assert (gain.gain_weight, gain.mean_way) == pytest.approx((0.25, 0.4))
    gain = update_gain(gain, path([9, 9], [9, 9]), 4, RATE)
    assert gain.gain_weight == pytest.approx(0.8 * 0.25 + 0.5)
    second = (0.8 * 0.25 * 1.0 + 0.5 * 9.0) / 0.7
    assert gain.first_gain == pytest.approx(second)
    gain = update_gain(gain, path([2, 1], [0, 0]), 4, RATE)  # not compared with the round before
    assert gain.first_gain == pytest.approx((0.8 * 0.7 * second + 2.0) / 1.56)
    assert gain.gain_weight == pytest.approx(1.56)


def gain_of_quadratic(steps: int, curvature: FloatArray, start: FloatArray) -> float:
    after = start * (1 - RATE * curvature) ** steps
    return float((curvature * (start**2 - after**2)).sum() / 2)


def quadratic_gain(
    steps: int, curvature: FloatArray, rounds: int
) -> tuple[GainEstimate, FloatArray]:
    """Return the estimate after gradient descent on sum_j c_j x_j^2 / 2, and the last x."""
    gain, x = GainEstimate(), np.ones(curvature.size)
    for _ in range(rounds):
        points = [x * (1 - RATE * curvature) ** step for step in range(steps + 1)]
        first = (steps + 1) // 2
        first_half = (points[0] - points[first]) / first
        second_half = first_half
        if steps > first:
            second_half = (points[first] - points[-1]) / (steps - first)
        gain = update_gain(gain, PathReport(first_half, second_half, np.ones(1)), steps, RATE)
        x = points[-1]
    return gain, x


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_the_gain_of_gradient_descent_is_predicted(steps: int) -> None:
    """On a quadratic, slow progress hardly changes, so the next gain is known."""
    curvature = np.array([0.01, 0.005, 0.002])
    gain, x = quadratic_gain(steps, curvature, rounds=6)
    true = gain_of_quadratic(steps, curvature, x)
    assert float(expected_gain(gain, RATE * steps, RATE)) == pytest.approx(true, rel=0.08)


def test_steps_that_go_on_gaining_should_be_more_and_steps_that_lose_fewer() -> None:
    steps = np.arange(1, 33)
    for second_gain, best in ((1.0, 32), (0.125, 20), (-1.0, 8)):
        gain = estimate(16.0, 1.0, second_gain)
        assert steps[np.argmax(expected_gain(gain, steps, 1.0))] == best


@pytest.mark.parametrize("persistence", [0.9, 0.25, 0.01, 0.0, -0.5])
def test_in_the_middle_of_each_half_a_step_gains_what_was_measured(persistence: float) -> None:
    gain = estimate(16.0, 2.0, 2 * persistence)
    middles = np.array([4.0, 12.0])
    before, after = (expected_gain(gain, middles + side, 1.0) for side in (-1e-4, 1e-4))
    np.testing.assert_allclose(
        (after - before) / 2e-4, [2.0, 2 * persistence], rtol=1e-3, atol=1e-3
    )


def test_a_worse_second_half_never_wants_more_steps() -> None:
    """The curve is continuous where the second half turns from gain to loss."""
    steps = np.arange(1, 200)
    best, curves = [], []
    for second_gain in np.linspace(1, -1, 201):
        gain = estimate(40.0, 1.0, float(second_gain))
        curves.append(expected_gain(gain, steps[:40], 1.0))
        best.append(int(steps[np.argmax(expected_gain(gain, steps, 1.0))]))
    assert best == sorted(best, reverse=True)
    assert np.abs(curves[99] - curves[101]).max() < 0.25 * curves[100].max()


@pytest.mark.parametrize("second_gain", [0.9, 0.25, 0.01, -0.3])
@pytest.mark.parametrize(("steps", "rate"), [(16, 1.0), (8, 2.0), (4, 4.0), (32, 0.5)])
def test_a_step_gains_what_the_curve_shows_where_it_begins(
    second_gain: float, steps: int, rate: float
) -> None:
    """The gains of single steps are added up, with the curve taken from its definition.

    Its cube root is a line through the cube roots of both gains, at the places where the steps of
    the two halves of an earlier round begin on average. The integral of a cube of the root r over a
    step is longer than the step times the cube in its middle, by rate^3 slope^2 r / 4.
    """
    gain = estimate(16.0, 1.0, second_gain)
    halves = np.array([gain.mean_way / 4, 3 * gain.mean_way / 4]) - gain.mean_rate / 2
    roots = np.cbrt([gain.first_gain, gain.second_gain])
    slope = (roots[1] - roots[0]) / (halves[1] - halves[0])
    root = roots[0] + slope * (rate * np.arange(steps) - halves[0])
    gains = rate * root**3 + rate**3 * slope**2 * root / 4
    assert float(expected_gain(gain, steps * rate, rate)) == pytest.approx(gains.sum())


def test_fewer_and_larger_steps_gain_more_if_clients_drift_apart() -> None:
    drifting, agreeing = estimate(16.0, 1.0, 0.05), estimate(16.0, 1.0, 1.0)
    assert expected_gain(drifting, 16.0, 4.0) > 1.3 * expected_gain(drifting, 16.0, 0.5)
    assert expected_gain(agreeing, 16.0, 4.0) == pytest.approx(expected_gain(agreeing, 16.0, 0.5))


def test_an_uncertain_gain_says_nothing_about_the_rate() -> None:
    """A single measurement has an error as large as itself, and a loss shows nothing at all."""
    uncertain = replace(estimate(16.0, 1.0, 0.05), gain_weight=1.0)
    sure, doubled = (float(expected_gain(uncertain, 16.0, rate)) for rate in (1.0, 2.0))
    certain = estimate(16.0, 1.0, 0.05)
    ratio = float(expected_gain(certain, 16.0, 2.0) / expected_gain(certain, 16.0, 1.0))
    assert 1 < doubled / sure < ratio
    lost = replace(estimate(16.0, -1.0, -1.0), gain_variance=9.0)
    assert expected_gain(lost, 8.0, 4.0) == pytest.approx(expected_gain(lost, 8.0, 1.0))


def test_steps_that_diverge_are_halved_for_good() -> None:
    gain = GainEstimate()
    for variance, steps in ((9.0, 4), (1.0, 8), (80.0, 16), (900.0, 32), (np.nan, 64), (7e9, 40)):
        seen = PathReport(np.ones(1), np.ones(1), np.array([variance, variance, np.nan]))
        gain = update_gain(gain, seen, steps, RATE)
        if steps == 16:
            assert gain.most_way == np.inf  # nine times the variance shows no divergence
    assert gain.largest_variance == 80.0
    assert gain.most_way == pytest.approx(16 * RATE)


def test_noise_is_not_gain() -> None:
    """Of independent noise, the estimated gain stays within its standard error."""
    random = np.random.default_rng(0)
    gain = GainEstimate()
    for _ in range(200):
        first_half, second_half = random.standard_normal((2, 50))
        noise = PathReport(first_half, second_half, np.ones(1))
        gain = update_gain(gain, noise, 10, 1.0)
    assert abs(gain.first_gain) < 4 * gain.standard_error
    assert gain.first_gain < 0.2 * 50  # 50 is the squared norm of the noise


def test_rounds_count_less_and_less() -> None:
    """The first halves are 1 (4 steps) and, one round later, 3 (8 steps): (0.8 * 1 + 3) / 1.8."""
    gain = update_gain(GainEstimate(), path([1], [1]), 4, RATE)
    gain = update_gain(gain, path([3], [3]), 8, RATE)
    gain = update_gain(gain, path([9], [9]), 99, RATE)  # the last round is not in the means yet
    assert gain.first_half[0] == pytest.approx(3.8 / 1.8)
    assert gain.mean_way == pytest.approx(RATE * (0.8 * 4 + 8) / 1.8)
    assert gain.newest_way == pytest.approx(RATE * 8)
    assert (gain.mean_rate, gain.last_rate) == pytest.approx((RATE, RATE))
