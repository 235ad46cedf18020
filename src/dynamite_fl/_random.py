"""Stateless random streams, keyed by seed, purpose and place.

What is drawn depends on the key alone and not on what was drawn before. A client's numbers are
therefore the same in any cohort, in any order, in any process and after a resume, and more clients
do not change the numbers of the first ones.
"""

import zlib
from functools import lru_cache
from math import sqrt
from typing import cast

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import DTypeLike, NDArray

from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import FloatArray, IntArray

_ALL = slice(None)


def random_stream(seed: int, purpose: str, *place: int) -> np.random.Generator:
    """Return the random stream of a seed, a purpose and a place, such as a round or a client.

    Example:
        >>> random_stream(0, "jitter", 7).random() == random_stream(0, "jitter", 7).random()
        True
        >>> random_stream(0, "jitter", 7).random() == random_stream(0, "dropout", 7).random()
        False
    """
    key = (zlib.crc32(purpose.encode()), *place)
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=key)))


def client_stream(seed: int, client: int, round_index: int, purpose: int) -> np.random.Generator:
    """Return the random stream of one client in one round.

    It is much faster to make than a ``random_stream``: a round makes one for each client.

    Args:
        seed: The seed of the training.
        client: The client's place in the fleet.
        round_index: The number of the round, below 2^32.
        purpose: What the numbers are for: 0, 1, 2 or 3.
    """
    key = np.array([seed, (client << 34) | (round_index << 2) | purpose], dtype=np.uint64)
    seeds = cast(np.random.SeedSequence, _PhiloxKey(key))  # numpy's types know of no other class
    return np.random.Generator(np.random.Philox(seeds))


class _PhiloxKey(ISeedSequence):
    """A Philox key in the form of a seed sequence.

    ``Philox(key=...)`` would do the same, but it first asks the system for random numbers.
    """

    def __init__(self, key: NDArray[np.uint64]) -> None:
        self._key = key

    def generate_state(self, n_words: int, dtype: DTypeLike = np.uint64) -> NDArray[np.uint64]:
        """Return the key, for which Philox asks as two words of 64 bits."""
        if n_words != self._key.size or dtype is not np.uint64:
            raise InvalidInput(f"a key is {self._key.size} words of 64 bits, and no more")
        return self._key


def random_walk(
    seed: int, purpose: str, steps: int, n: int, clients: IntArray | slice = _ALL
) -> FloatArray:
    """Return the places of n random walks, or of some clients' walks, after some steps.

    The steps are independent and standard normal, but they are not replayed one by one. The walk
    is first drawn at the powers of two, and then between two of them by halves, as a Brownian
    bridge. This takes about 2 log2(steps) draws, each of which belongs to one place of the walk,
    so that all calls with the same seed and purpose describe the same walk.

    Example:
        >>> walk = [random_walk(0, "drift", steps, 3) for steps in range(9)]
        >>> walk[0].tolist(), bool((walk[5] == random_walk(0, "drift", 5, 3)).all())
        ([0.0, 0.0, 0.0], True)
    """

    def draw(place: int) -> FloatArray:
        return _normal_numbers(seed, purpose, place, n)[clients]

    if steps == 0:
        return np.zeros(n)[clients]
    low, at_low = 1, draw(1)
    high, at_high = 2, at_low + draw(2)
    while high <= steps:
        low, at_low = high, at_high
        high, at_high = 2 * low, at_low + sqrt(low) * draw(2 * low)
    while low < steps:
        middle = (low + high) // 2
        at_middle = (at_low + at_high) / 2 + sqrt(high - low) / 2 * draw(middle)
        if middle <= steps:
            low, at_low = middle, at_middle
        else:
            high, at_high = middle, at_middle
    return np.asarray(at_low)


@lru_cache(maxsize=32)  # one round's draws are nearly all those of the round before
def _normal_numbers(seed: int, purpose: str, place: int, n: int) -> FloatArray:
    numbers = random_stream(seed, purpose, place).standard_normal(n)
    numbers.setflags(write=False)
    return numbers
