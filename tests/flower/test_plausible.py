"""What a node may say, in tables and for every possible liar."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl.flower.plausible import (
    ABSURD_FIGURE,
    LARGEST_DEVIATION,
    LARGEST_FIGURE,
    LARGEST_MOVEMENT,
    MOST_SPEED_RATIO,
    Implausible,
    allowed_samples,
    believed_paths,
    believed_speeds,
    bounded,
    check_seconds,
    check_speed,
    check_work,
    is_absurd,
    is_too_far,
)

HONEST = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=9)
ANYTHING = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("step_seconds", "seconds", "round_trip", "is_fine"),
    [
        (0.1, 0.5, 0.6, True),
        (0.1, 0.4, 0.4, True),
        (0.1, 0.6, 0.5999, True),  # two clocks
        (1e6, 0.5, 0.6, False),
        (1e308, 0.5, 0.6, False),
        (0.1, 1e9, 0.6, False),
        (0.2, 0.4, 0.6, False),  # four steps of 0.2 s take longer than 0.4 s
        (0.0, 0.4, 0.6, False),
    ],
)
def test_seconds(step_seconds: float, seconds: float, round_trip: float, is_fine: bool) -> None:
    if is_fine:
        check_seconds(step_seconds, 4, seconds, round_trip)
    else:
        with pytest.raises(Implausible, match="it says that"):
            check_seconds(step_seconds, 4, seconds, round_trip)


@pytest.mark.parametrize("speed", [0.0, 1e-300, 1e29, 1e308])
def test_speeds_that_nothing_has(speed: float) -> None:
    with pytest.raises(Implausible, match="samples per second"):
        check_speed(speed, seconds=0.1, round_trip=0.2)


def test_an_introduction_takes_no_longer_than_the_server_waited() -> None:
    check_speed(100.0, seconds=0.1, round_trip=0.2)
    with pytest.raises(Implausible, match=r"computed for 5 s, but its reply came after 0.2 s"):
        check_speed(100.0, seconds=5.0, round_trip=0.2)


@pytest.mark.parametrize(
    ("computed", "measured", "is_fine"),
    [(80, 0, True), (4, 128, True), (3, 0, False), (81, 0, False), (80, 129, False)],
)
def test_work(computed: int, measured: int, is_fine: bool) -> None:
    """Four steps on batches of 20 samples were ordered."""
    if is_fine:
        check_work(computed, measured, 4, 80, most_measured=128)
    else:
        with pytest.raises(Implausible):
            check_work(computed, measured, 4, 80, most_measured=128)


@pytest.mark.parametrize(
    ("claimed", "known", "others", "believed"),
    [
        (500, 500, [500, 400], 500),
        (900, 500, [500, 400], 900),
        (2000, 500, [500, 400], 2000),  # twice as many, and 1000
        (10_000_000, 500, [500, 400], 4500),  # ten times the median of the others
        (4000, 1, [500, 300], 4000),  # its first samples
        (10_000_000, 1, [500], 10_000_000),  # of two nodes nobody knows
    ],
)
def test_samples_that_keep_arriving(
    claimed: int, known: int, others: list[float], believed: int
) -> None:
    assert allowed_samples(claimed, known, streams=True, others=others) == believed


@pytest.mark.parametrize("claimed", [499, 501, 10_000_000])
def test_samples_that_do_not_change(claimed: int) -> None:
    assert allowed_samples(500, 500, streams=False, others=[1, 1]) == 500
    with pytest.raises(Implausible, match="but it had 500"):
        allowed_samples(claimed, 500, streams=False, others=[1, 1])


@given(HONEST, ANYTHING)
def test_a_figure_counts_for_no_more_than_ten_times_what_others_say(
    honest: list[float], lie: float
) -> None:
    result = bounded(np.array([*honest, lie]))
    assert abs(result[-1]) <= LARGEST_FIGURE * max(honest) * (1 + 1e-12)
    assert (np.abs(result) <= np.abs([*honest, lie])).all()


@given(HONEST)
def test_figures_of_like_nodes_are_believed_to_the_bit(figures: list[float]) -> None:
    alike = np.array([1.0 + figure / 1e3 for figure in figures])  # from 1 to 2
    assert (bounded(alike) == alike).all()
    assert not is_absurd(alike).any()
    assert not is_too_far(alike, np.full(alike.size, 8)).any()


def test_unknown_figures_and_signs_stay() -> None:
    result = bounded(np.array([np.nan, -1.0, 2.0, -1e9]))
    np.testing.assert_array_equal(result, [np.nan, -1.0, 2.0, -20.0])
    np.testing.assert_array_equal(bounded(np.array([1.0, 1e9])), [1.0, 1e9])
    np.testing.assert_array_equal(bounded(np.array([0.0, 0.0, 3.0, 1e9])), [0.0, 0.0, 3.0, 3.0])


def test_absurd_figures() -> None:
    figures = np.array([1.0, 1.0, 1.1 * LARGEST_FIGURE * ABSURD_FIGURE])
    assert is_absurd(figures).tolist() == [False, False, True]
    assert not is_absurd(figures[1:]).any()


@given(st.lists(st.floats(1.0, 100.0), min_size=2, max_size=9), st.floats(1e-6, 1e9))
def test_a_speed_stays_near_the_others(honest: list[float], lie: float) -> None:
    speeds = believed_speeds(np.array([*honest, lie]))
    assert min(honest) / MOST_SPEED_RATIO <= speeds[-1] * (1 + 1e-12)
    assert speeds[-1] <= 1.0000001 * MOST_SPEED_RATIO * max(honest)
    assert (speeds[:-1] == honest).all()


@given(HONEST, st.floats(0, 1e40))
def test_a_model_that_moved_too_far(honest: list[float], lie: float) -> None:
    """Whoever is let through is at most ten times as far as an honest node."""
    norms = np.array([*honest, lie])
    is_far = is_too_far(norms, np.full(norms.size, 8))
    assert is_far[-1] or lie <= LARGEST_MOVEMENT * max(honest)


def test_small_batches_may_move_further() -> None:
    norms = np.array([1.0, 1.0, 1.0, 15.0])
    assert is_too_far(norms, np.array([8, 8, 8, 8])).tolist() == [False, False, False, True]
    assert not is_too_far(norms, np.array([8, 8, 8, 2])).any()  # a quarter: twice the noise
    assert not is_too_far(np.array([1.0, 1.0, np.nan, 15.0])[1:], np.array([8, 8, 8])).any()


@given(st.integers(0, 10**6), st.integers(2, 6), st.floats(0, 1e30))
def test_a_path_counts_no_further_than_three_median_deviations(
    seed: int, nodes: int, size: float
) -> None:
    random = np.random.default_rng(seed)
    whole = random.normal(size=(nodes + 1, 17))
    first = whole * random.uniform(0.4, 0.7, (nodes + 1, 1)) + random.normal(size=(nodes + 1, 17))
    first[-1] = size * random.normal(size=17)
    believed, _ = believed_paths(first, whole)
    honest = np.linalg.norm(first[:-1], axis=1) + np.linalg.norm(whole[:-1], axis=1)
    own = np.linalg.norm(whole[-1])
    assert np.linalg.norm(believed[-1]) <= own + LARGEST_DEVIATION * honest.max() * (1 + 1e-9)


def test_paths_of_alike_nodes_are_believed_to_the_bit() -> None:
    random = np.random.default_rng(0)
    whole = random.normal(size=(5, 17))
    first = 0.6 * whole + 0.1 * random.normal(size=(5, 17))
    believed, is_path_absurd = believed_paths(first, whole)
    assert (believed == first).all()
    assert not is_path_absurd.any()
    lied = np.vstack([first, np.full(17, 1e14)])
    assert believed_paths(lied, np.vstack([whole, whole[0]]))[1].tolist() == [False] * 5 + [True]
