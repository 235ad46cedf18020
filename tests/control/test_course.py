import numpy as np
import pytest

from dynamite_fl.control.course import NO_COURSE, Course, follow, progress
from dynamite_fl.records import FloatArray
from dynamite_fl.reports import PathReport

RATE = 0.1


def path(head: list[float], tail: list[float]) -> PathReport:
    return PathReport(RATE * np.array(head), RATE * np.array(tail), np.ones(1))


def test_gains_by_hand() -> None:
    """Head (1, 0) and tail (0.5, 0), two rounds on head (2, 1): its products with them are 2, 1."""
    course = follow(NO_COURSE, path([1, 0], [0.5, 0]), 4, RATE)
    course = follow(course, path([9, 9], [9, 9]), 4, RATE)  # not compared with what came last
    assert course.weight == 0
    course = follow(course, path([2, 1], [0, 0]), 4, RATE)
    assert course.slope == pytest.approx(2.0)
    assert course.tail_slope == pytest.approx(1.0)
    assert course.persistence == pytest.approx(0.5)


def gain_of_quadratic(steps: int, curvature: FloatArray, start: FloatArray) -> float:
    after = start * (1 - RATE * curvature) ** steps
    return float((curvature * (start**2 - after**2)).sum() / 2)


def quadratic_course(steps: int, curvature: FloatArray, rounds: int) -> tuple[Course, FloatArray]:
    """Gradient descent on sum_j c_j x_j^2 / 2, without noise, as its path shows it."""
    course, x = NO_COURSE, np.ones(curvature.size)
    for _ in range(rounds):
        way = [x * (1 - RATE * curvature) ** step for step in range(steps + 1)]
        first = (steps + 1) // 2
        head = (way[0] - way[first]) / first
        tail = (way[first] - way[-1]) / max(steps - first, 1) if steps > first else head
        course = follow(course, PathReport(head, tail, np.ones(1)), steps, RATE)
        x = way[-1]
    return course, x


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_the_progress_of_gradient_descent_is_foreseen(steps: int) -> None:
    """On a quadratic the next round's true gain, from slow progress that hardly changes."""
    curvature = np.array([0.01, 0.005, 0.002])
    course, x = quadratic_course(steps, curvature, rounds=6)
    true = gain_of_quadratic(steps, curvature, x)
    assert RATE * float(progress(course, steps)) == pytest.approx(true, rel=0.08)


def test_steps_that_go_on_gaining_should_be_more_and_steps_that_lose_fewer() -> None:
    steps = np.arange(1, 33)
    for tail, best in ((1.0, 32), (0.125, 20), (-1.0, 8)):
        both = np.ones(1)
        course = Course(both, both, local_steps=16.0, slope=1.0, tail_slope=tail, weight=9.0)
        assert steps[np.argmax(progress(course, steps))] == best


@pytest.mark.parametrize("tail", [0.9, 0.25, 0.01, 0.0, -0.5])
def test_in_the_middles_of_head_and_tail_the_next_step_gains_what_was_seen(tail: float) -> None:
    both = np.ones(1)
    course = Course(both, both, local_steps=16.0, slope=2.0, tail_slope=2 * tail, weight=9.0)
    before, after = progress(course, [4 - 1e-4, 12 - 1e-4]), progress(course, [4 + 1e-4, 12 + 1e-4])
    np.testing.assert_allclose((after - before) / 2e-4, [2.0, 2 * tail], rtol=1e-3, atol=1e-3)


def test_worse_tails_never_want_more_steps() -> None:
    """Also where they turn from gain to loss: the curve changes evenly there."""
    both, steps = np.ones(1), np.arange(1, 200)
    best, curves = [], []
    for tail in np.linspace(1, -1, 201):
        course = Course(both, both, local_steps=40.0, slope=1.0, tail_slope=tail, weight=9.0)
        curves.append(progress(course, steps[:40]))
        best.append(int(steps[np.argmax(progress(course, steps))]))
    assert best == sorted(best, reverse=True)
    assert np.abs(curves[99] - curves[101]).max() < 0.25 * curves[100].max()


def test_steps_that_run_away_are_halved_for_good() -> None:
    course = NO_COURSE
    for variance, steps in ((9.0, 4), (1.0, 8), (80.0, 16), (900.0, 32), (np.nan, 64), (7e9, 40)):
        seen = PathReport(np.ones(1), np.ones(1), np.array([variance, variance, np.nan]))
        course = follow(course, seen, steps, RATE)
        if steps == 16:
            assert course.most_steps == np.inf  # nine times as much can be
    assert course.largest_variance == 80.0
    assert course.most_steps == 16.0


def test_noise_is_not_gain() -> None:
    """Heads of nothing but independent noise: the slope stays within its error."""
    random = np.random.default_rng(0)
    course = NO_COURSE
    for _ in range(200):
        head, tail = random.standard_normal((2, 50))
        course = follow(course, PathReport(head, tail, np.ones(1)), 10, 1.0)
    assert abs(course.slope) < 4 * course.error
    assert course.slope < 0.2 * 50  # of the noise's own squared norm


def test_rounds_count_less_and_less() -> None:
    """Heads 1 of 4 steps and 3 of 8, a round later: (0.8 * 1 + 3) / 1.8."""
    course = follow(NO_COURSE, path([1], [1]), 4, RATE)
    course = follow(course, path([3], [3]), 8, RATE)
    course = follow(course, path([9], [9]), 99, RATE)  # the last one is in no mean yet
    assert course.head[0] == pytest.approx(3.8 / 1.8)
    assert course.local_steps == pytest.approx((0.8 * 4 + 8) / 1.8)
    assert course.newest_steps == 8
