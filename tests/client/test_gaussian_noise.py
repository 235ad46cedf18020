"""Both sources of noise are standard normal; one repeats itself and the other never does."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from dynamite_fl.client.gaussian_noise import KeyedNoise, Noise, SecretNoise

COUNT = 200_000


@pytest.mark.parametrize("noise", [KeyedNoise(seed=3), SecretNoise()])
def test_noise_is_standard_normal(noise: Noise) -> None:
    drawn = noise.draw(COUNT, "update", 1)
    # The mean has the deviation 1/sqrt(n) and the variance has sqrt(2/n). Six deviations happen
    # by chance once in 10^9 runs, which matters because secret noise has no seed.
    assert abs(drawn.mean()) < 6 / math.sqrt(COUNT)
    assert abs(drawn.var() - 1) < 6 * math.sqrt(2 / COUNT)
    # Kolmogorov: sqrt(n) D exceeds 3.3 with probability 2 exp(-2 * 3.3^2) < 10^-9.
    assert math.sqrt(COUNT) * kstest(drawn, "norm").statistic < 3.3


@pytest.mark.parametrize("noise", [KeyedNoise(seed=3), SecretNoise()])
def test_neighbours_are_independent(noise: Noise) -> None:
    drawn = noise.draw(COUNT, "update", 2)
    for lag in (1, COUNT // 2):  # the second is the distance of the two results of a transform
        products = drawn[:-lag] * drawn[lag:]
        assert abs(products.mean()) < 6 / math.sqrt(products.size)


@pytest.mark.parametrize("count", [0, 1, 7, 2**16 + 3])
def test_any_count_can_be_drawn(count: int) -> None:
    assert SecretNoise().draw(count, "update").shape == (count,)


def test_keyed_noise_depends_on_seed_purpose_and_place_alone() -> None:
    first = KeyedNoise(seed=1).draw(5, "server", 4)
    assert np.array_equal(first, KeyedNoise(seed=1).draw(5, "server", 4))
    for other in (
        KeyedNoise(seed=2).draw(5, "server", 4),
        KeyedNoise(seed=1).draw(5, "node", 4),
        KeyedNoise(seed=1).draw(5, "server", 5),
    ):
        assert not np.isclose(first, other).any()


def test_secret_noise_never_repeats() -> None:
    noise = SecretNoise()
    assert not np.isclose(noise.draw(50, "server", 4), noise.draw(50, "server", 4)).all()
