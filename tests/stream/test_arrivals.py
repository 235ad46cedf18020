import numpy as np
import pytest

from dynamite_fl.stream.arrivals import Arrivals, Burst, Random, Smooth, Uneven

CLIENTS = np.arange(6)


def arrived(pattern: Arrivals, rounds: range, client: int = 0) -> list[int]:
    return [int(pattern.arrived(np.array([client]), k)[0]) for k in rounds]


def test_smooth_by_hand() -> None:
    assert arrived(Smooth(initial=5, size=3, every=4), range(1, 10)) == [
        5,
        5,
        5,
        8,
        8,
        8,
        8,
        11,
        11,
    ]


def test_burst_by_hand() -> None:
    assert arrived(Burst(initial=2, size=30, at=3), range(1, 6)) == [2, 2, 32, 32, 32]


def test_random_arrivals_differ_by_client_and_reach_their_total_in_portions() -> None:
    pattern = Random(initial=10, size=400, times=5, rounds=50, seed=3)
    counts = [arrived(pattern, range(51), client) for client in range(6)]
    for count in counts:
        portions = np.diff(count)
        assert count[0] == 10  # nothing arrives before the first round
        assert count[-1] == 410
        assert (portions >= 0).all()
        assert 1 <= (portions > 0).sum() <= 5
    assert len({tuple(count) for count in counts}) == len(counts)
    assert arrived(pattern, range(51), client=2) == counts[2]


def test_random_rounds_and_portions_are_uniform() -> None:
    """Check that half of the samples have arrived after half of the rounds, in the mean.

    The share of each client has a variance below 1/4, so that the mean over 2000 clients is
    within 4 deviations, 4 sqrt(1/4/2000), of 1/2.
    """
    pattern = Random(initial=0, size=1000, times=5, rounds=100, seed=1)
    by_half_time = pattern.arrived(np.arange(2000), 50).mean() / 1000
    assert by_half_time == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / 2000))


def test_uneven_rates_scale_all_that_a_client_receives() -> None:
    usual = Smooth(initial=1000, size=500, every=2)
    uneven = Uneven(usual, spread=0.7, seed=4)
    first, later = uneven.arrived(CLIENTS, 1), uneven.arrived(CLIENTS, 10)
    assert np.allclose(later / first, 3500 / 1000, rtol=0.01)
    assert np.unique(first).size == CLIENTS.size
    assert (uneven.arrived(CLIENTS[[4, 1]], 1) == first[[4, 1]]).all()
    assert (Uneven(usual, 0.0).arrived(CLIENTS, 3) == usual.arrived(CLIENTS, 3)).all()
    assert (Uneven(Smooth(initial=1, size=0, every=1), 3.0).arrived(CLIENTS, 1) >= 1).all()
