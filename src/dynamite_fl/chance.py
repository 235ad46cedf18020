"""Chance that needs no memory: what is drawn depends on where, not on what was drawn before.

Every draw is a vector with one entry a client from a stream of its own, named by the seed, a
purpose and a round. A client's number is therefore the same in any cohort, any order, any
process and after a resume; more clients do not change those of the first ones.
"""

import zlib
from functools import lru_cache
from math import sqrt

import numpy as np

from dynamite_fl.records import FloatArray, IntArray

_ALL = slice(None)


def dice(seed: int, purpose: str, *where: int) -> np.random.Generator:
    """A generator of its own for every seed, purpose and place.

    Example:
        >>> dice(0, "jitter", 7).random() == dice(0, "jitter", 7).random()
        True
        >>> dice(0, "jitter", 7).random() == dice(0, "dropout", 7).random()
        False
    """
    key = (zlib.crc32(purpose.encode()), *where)
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=key)))


def random_walk(
    seed: int, purpose: str, steps: int, n: int, clients: IntArray | slice = _ALL
) -> FloatArray:
    """Where n random walks, or those of some clients, are after so many standard normal steps.

    The steps are not replayed. The walk is first drawn at the powers of two, and then between
    two of them by halves, as a Brownian bridge: about 2 log2(steps) draws, each of which belongs
    to one place of the walk. All places asked for, in any order, lie on one and the same walk,
    whose steps are independent and standard normal.

    Example:
        >>> walk = [random_walk(0, "drift", steps, 3) for steps in range(9)]
        >>> walk[0].tolist(), bool((walk[5] == random_walk(0, "drift", 5, 3)).all())
        ([0.0, 0.0, 0.0], True)
    """

    def draw(place: int) -> FloatArray:
        return _draw(seed, purpose, place, n)[clients]

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
def _draw(seed: int, purpose: str, place: int, n: int) -> FloatArray:
    drawn = dice(seed, purpose, place).standard_normal(n)
    drawn.setflags(write=False)
    return drawn
