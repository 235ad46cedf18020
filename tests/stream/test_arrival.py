import numpy as np
import pytest

from dynamite_fl.stream.arrival import Arrivals, Burst, Random, Smooth, Uneven
from dynamite_fl.stream.presets import PRESETS, preset

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


def test_random_arrivals_come_to_their_total_in_as_many_portions_and_differ() -> None:
    pattern = Random(initial=10, size=400, times=5, rounds=50, seed=3)
    courses = [arrived(pattern, range(51), client) for client in range(6)]
    for course in courses:
        portions = np.diff(course)
        assert course[0] == 10  # nothing more before the first round
        assert course[-1] == 410
        assert (portions >= 0).all()
        assert 1 <= (portions > 0).sum() <= 5
    assert len({tuple(course) for course in courses}) == len(courses)
    assert arrived(pattern, range(51), client=2) == courses[2]


def test_random_rounds_and_portions_are_uniform() -> None:
    """Of a portion, half of the rounds and a fifth of the samples are expected, if uniform.

    For 2000 clients the mean share that has come by half time is 1/2, with a variance below
    1/4 each: within 4 deviations, 4 sqrt(1/4/2000).
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


TABLE = {  # initial, buffer, arrivals, when: paper-notes, Streams
    ("smooth-i", "mnist"): (5000, 10000, 5000, ("every", 100)),
    ("smooth-c", "emnist"): (5000, 10000, 5000, ("every", 100)),
    ("burst", "mnist"): (10000, 25000, 50000, ("at", 500)),
    ("random", "emnist-balanced"): (10000, 10000, 40000, ("times", 5)),
    ("smooth-i", "cifar10"): (5000, 10000, 3000, ("every", 100)),
    ("smooth-c", "cifar10"): (5000, 10000, 3000, ("every", 100)),
    ("burst", "cifar10"): (25000, 25000, 25000, ("at", 1000)),
    ("random", "cifar10"): (10000, 10000, 40000, ("times", 5)),
}


@pytest.mark.parametrize(("name", "dataset"), TABLE)
def test_presets_are_the_papers(name: str, dataset: str) -> None:
    initial, buffer, size, (key, when) = TABLE[name, dataset]
    found = preset(name, dataset)
    assert (found["initial"], found["buffer_size"], found["size"]) == (initial, buffer, size)
    assert found[key] == when
    assert found["order"] == ("iid" if name == "smooth-i" else "continuous")
    assert found["most"] == (50000 if dataset == "cifar10" else 60000)


@pytest.mark.parametrize("name", PRESETS)
def test_a_scaled_preset_is_as_late_and_as_much_in_proportion(name: str) -> None:
    whole, small = preset(name, "mnist"), preset(name, "mnist", scale=0.02)
    for key in ("initial", "size", "buffer_size", "every", "at", "most"):
        if key in whole:
            assert small[key] == whole[key] // 50
    assert small.get("times") == whole.get("times")


def test_what_is_no_preset() -> None:
    with pytest.raises(ValueError, match="use one of smooth-i, smooth-c, burst, random"):
        preset("steady", "mnist")
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        preset("burst", "mnist", scale=0)
