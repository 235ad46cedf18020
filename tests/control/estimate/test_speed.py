from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl import Fleet
from dynamite_fl.control.estimate import speed as speed_module
from dynamite_fl.control.estimate.speed import (
    SpeedEstimates,
    estimated_fleet,
    first_estimates,
    update_speeds,
)
from dynamite_fl.reports import RoundReport
from tests.control.simulator import World, report


def fleet(n: int = 4, **columns: object) -> Fleet:
    given: dict[str, object] = {
        "samples": [1000] * n,
        "gradient_variance": 1,
        "samples_per_second": 50,
        "step_overhead": 0.2,
        "comm_seconds": 1,
    }
    return Fleet(**{**given, **columns})  # type: ignore[arg-type]


def update(speeds: SpeedEstimates, seen: RoundReport, memory: float = 0.9) -> SpeedEstimates:
    """Update with another memory than the usual one, for numbers worked by hand."""
    with patch.object(speed_module, "_MEMORY", memory):
        return update_speeds(speeds, seen)


def timed(speeds: SpeedEstimates, size: int, seconds: float, memory: float = 0.9) -> SpeedEstimates:
    return update(speeds, report([0], sizes=[size], step_seconds=[seconds]), memory)


@given(st.floats(1e-4, 10), st.floats(0.1, 1e5), st.integers(1, 200), st.integers(3, 10))
def test_affine_times_are_recovered(overhead: float, speed: float, size: int, times: int) -> None:
    """A size and ``times`` it in turn for long: the slope is as exact as the guess's weight lets.

    Against the guess counts weight * variance of sizes / noise * (doubt * seconds a sample)^2, with
    noise = (0.1 seconds)^2 / weight: at a weight of 10 that is 100 * 25 * (spread / mean)^2, where
    spread / mean is at least 1/2 here; so at most 1/625 of the guess is left.
    """
    speeds = first_estimates(fleet())
    for _ in range(50):
        for each in (size, times * size):
            speeds = timed(speeds, each, overhead + each / speed)
    mean = overhead + (1 + times) / 2 * size / speed
    per_sample = mean / ((1 + times) / 2 * size)
    assert 1 / speeds.samples_per_second[0] == pytest.approx(1 / speed, abs=per_sample / 600)


def test_the_guess_counts_like_a_measured_slope() -> None:
    """Worked by hand: 0.3 s at 20 samples, 0.6 s at 50, both counting alike, a guess of 0.2 + s/50.

    Means are 35 samples and 0.45 s, the variance of sizes 225, and the slope 0.01, with the error
    of (0.1 * 0.45)^2 / (2 * 225) = 4.5e-6. The guess has 10 samples' worth of overhead: a
    slope of 0.45 / 45 = 0.01 too, so that it cannot matter how much it counts. A guess without
    overhead has 0.45 / 35, and the error (0.5 * 0.45 / 35)^2 = 4.133e-5.
    """
    speeds = timed(timed(first_estimates(fleet()), 20, 0.3, 1.0), 50, 0.6, 1.0)
    assert speeds.samples_per_second[0] == pytest.approx(100)
    assert speeds.step_overhead[0] == pytest.approx(0.1)
    speeds = timed(timed(first_estimates(fleet(step_overhead=0)), 20, 0.3, 1.0), 50, 0.6, 1.0)
    ours, guess = 1 / 4.5e-6, 1 / (0.5 * 0.45 / 35) ** 2
    slope = (ours * 0.01 + guess * 0.45 / 35) / (ours + guess)
    assert 1 / speeds.samples_per_second[0] == pytest.approx(slope)
    assert speeds.step_overhead[0] == pytest.approx(0.45 - 35 * slope)


def test_before_that_the_given_ratio_stays() -> None:
    """Given 0.2 s + s/50: at 40 samples 1 s, of which a fifth is overhead."""
    speeds = timed(first_estimates(fleet()), 40, 3.0)
    assert speeds.step_overhead[0] == pytest.approx(0.6)
    assert speeds.samples_per_second[0] == pytest.approx(40 / 2.4)


def test_a_free_step_becomes_proportional() -> None:
    guess = first_estimates(fleet(samples_per_second=np.inf, step_overhead=0))
    speeds = timed(guess, 40, 2.0)
    assert speeds.step_overhead[0] == 0
    assert speeds.samples_per_second[0] == pytest.approx(20)


def test_constant_times_are_recognised() -> None:
    speeds = first_estimates(fleet())
    for size in (20, 60, 40, 100) * 10:
        speeds = timed(speeds, size, 0.5)
    assert speeds.step_overhead[0] == pytest.approx(0.5, rel=0.01)


def test_times_that_fall_with_the_batch_size_leave_no_negative_slope() -> None:
    speeds = timed(timed(first_estimates(fleet()), 20, 0.6), 50, 0.3)
    assert 0 < speeds.samples_per_second[0] < np.inf
    assert 0 <= speeds.step_overhead[0] <= 0.6


def test_times_that_rise_too_fast_leave_no_negative_overhead() -> None:
    """0.1 s at 20 and 1 s at 50 would have an overhead of -0.5 s; the means are kept."""
    speeds = timed(timed(first_estimates(fleet()), 20, 0.1, 1.0), 50, 1.0, 1.0)
    assert speeds.step_overhead[0] == 0
    assert speeds.samples_per_second[0] == pytest.approx(35 / 0.55)


def test_noise_does_not_pass_for_a_slope() -> None:
    """Batch sizes that hardly differ: the ratio all but stays, the scale follows.

    Sizes vary by 1.4 % and seconds by 20 %: a slope's error is 0.2 / 0.014 / sqrt(10) = 4.5 times
    the seconds a sample. That of the guess is half of them, so it counts 81 times as much, and what
    the slope adds has an error of 4.5 / 81 of a step.
    """
    random = np.random.default_rng(0)
    speeds = first_estimates(fleet())
    for _ in range(50):
        size = int(random.integers(98, 103))
        speeds = timed(speeds, size, (0.4 + size / 25) * float(np.exp(random.normal(0, 0.2))))
    step = speeds.step_overhead[0] + 100 / speeds.samples_per_second[0]
    assert speeds.step_overhead[0] == pytest.approx(step / 11, abs=1.5 * step * 4.5 / 81)
    assert step == pytest.approx(4.4, rel=0.2)


def test_nobody_is_stuck_with_a_slope_found_by_chance() -> None:
    """Twenty clients whose times vary by 10 %, on batches that differ by some 10 %: for each, ten
    samples are known to be much quicker than a hundred."""
    random = np.random.default_rng(1)
    speeds = first_estimates(fleet(20, step_overhead=0.0))
    for _ in range(100):
        sizes = random.integers(85, 116, 20)
        seconds = sizes / 50 * np.exp(random.normal(0, 0.1, 20))
        speeds = update(speeds, report([*range(20)], sizes=[*sizes], step_seconds=[*seconds]))
        ten = speeds.step_overhead + 10 / speeds.samples_per_second
        hundred = speeds.step_overhead + 100 / speeds.samples_per_second
        assert (ten < 0.7 * hundred).all()


def test_a_ratio_once_told_well_stays_known() -> None:
    """The guess says nothing of overheads. Batches fall from 64 to one, which shows them, and stay
    at one for long, which shows nothing: what twenty samples take is still known."""
    random = np.random.default_rng(2)
    speeds = first_estimates(fleet(10, step_overhead=0.0))
    for size in [64, 64, 32, 32, 16, 16, 8, 8, 4, 4, 2, 2, *[1] * 200]:
        seconds = (0.02 + size / 1000) * np.exp(random.normal(0, 0.1, 10))
        one = report([*range(10)], sizes=[size] * 10, step_seconds=[*seconds])
        speeds = update(speeds, one)
    twenty = speeds.step_overhead + 20 / speeds.samples_per_second
    np.testing.assert_allclose(twenty, 0.04, rtol=0.3)


def test_drift_is_followed() -> None:
    speeds = first_estimates(fleet())
    for _ in range(2):
        for factor in (1.0, 3.0):
            for size in [20, 50, 80] * 30:
                speeds = timed(speeds, size, factor * (0.1 + size / 100))
            assert speeds.samples_per_second[0] == pytest.approx(100 / factor, rel=1e-3)
            assert speeds.step_overhead[0] == pytest.approx(0.1 * factor, rel=1e-3)


def test_noisy_times_are_averaged() -> None:
    truth = fleet(20, samples_per_second=np.linspace(20, 400, 20))
    world = World(truth, seed=1, jitter=0.1, absence=0.1)
    speeds = first_estimates(fleet(20))
    for index in range(60):
        sizes = world.random.integers(20, 200, 20)
        step = truth.step_overhead + sizes / truth.samples_per_second
        seconds = step * np.exp(0.1 * world.random.standard_normal(20))
        one = report([*range(20)], sizes=[*sizes], step_seconds=[*seconds], round_index=index)
        speeds = update(speeds, one, 0.95)
    at = speeds.step_overhead + 100 / speeds.samples_per_second
    expected = truth.step_overhead + 100 / truth.samples_per_second
    np.testing.assert_allclose(at, expected, rtol=0.15)


def test_communication_is_averaged() -> None:
    """The first replaces the guess; then (0.5 * 4 + 10) / 1.5."""
    speeds = first_estimates(fleet())
    for seconds in (4.0, 10.0):
        one = report([2], sizes=[9], step_seconds=[np.nan], comm_seconds=[seconds])
        speeds = update(speeds, one, 0.5)
    assert speeds.comm_seconds.tolist() == [1, 1, 8, 1]


def test_unseen_clients_take_the_median() -> None:
    given = fleet(
        5, samples_per_second=np.inf, step_overhead=[1, 2, 3, 4, 5], gradient_variance=np.arange(5)
    )
    one = report([4, 0, 2], sizes=[9, 9, 9], step_seconds=[50, 10, 20], comm_seconds=[7, np.nan, 5])
    speeds = update(first_estimates(given), one)
    known = estimated_fleet(given, speeds, np.arange(1.0, 6)).subset(np.array([0, 1, 4]))
    assert known.step_overhead == pytest.approx([10, 20, 50])
    assert known.comm_seconds.tolist() == [6, 6, 7]
    assert known.samples.tolist() == [1, 2, 5]
    assert known.gradient_variance.tolist() == [0, 1, 4]
    assert known.label(2) == "client 4"


def test_before_anyone_is_seen_the_guess_stands() -> None:
    given = fleet(3, comm_seconds=[1, 2, 3], buffer_size=[5, 6, 7], name=["a", "b", "c"])
    known = estimated_fleet(given, first_estimates(given), given.samples).subset(np.array([2, 0]))
    assert known.comm_seconds.tolist() == [3, 1]
    assert known.buffer_size is not None
    assert known.buffer_size.tolist() == [7, 5]
    assert known.name == ("c", "a")


def test_absent_clients_keep_their_estimates() -> None:
    speeds = first_estimates(fleet(3))
    one = report([1, 2], sizes=[9, 9], step_seconds=[np.nan, 2.0])
    after = update(speeds, one)
    assert after.steps.weight.tolist() == [0, 0, 1]
    assert after.samples_per_second[:2].tolist() == [50, 50]
    assert (speeds.steps.weight == 0).all()  # the old estimates are unchanged


def test_late_rounds_make_plans_longer() -> None:
    """Expected 2 * 1 + 1 = 3 s; the slower of two took 4.5 s: (0.5 * 1 + 1.5) / 1.5."""
    speeds = first_estimates(fleet(2))
    for seconds in ([1.0, 1.0], [1.75, 0.5]):
        one = report(
            [0, 1], sizes=[40] * 2, step_seconds=seconds, comm_seconds=[1, 1], local_steps=2
        )
        speeds = update(speeds, one, 0.5)
    assert speeds.lateness == pytest.approx(4 / 3)
    late = estimated_fleet(fleet(2), speeds, fleet(2).samples)
    step = speeds.step_overhead[0] + 9 / speeds.samples_per_second[0]
    assert late.step_overhead[0] + 9 / late.samples_per_second[0] == pytest.approx(step * 4 / 3)
    assert late.comm_seconds[0] == pytest.approx(4 / 3)


def test_early_rounds_do_not_make_plans_shorter() -> None:
    speeds = first_estimates(fleet(1))
    for step in (1.0, 0.2):
        speeds = update(speeds, report([0], sizes=[40], step_seconds=[step], comm_seconds=[1]))
    assert speeds.lateness < 1
    assert estimated_fleet(fleet(1), speeds, fleet(1).samples).comm_seconds.tolist() == [1]
