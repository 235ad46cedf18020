"""Which samples a client uses: drawn uniformly, the same on every machine."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import cast

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import DTypeLike, NDArray

from dynamite_fl.records import IntArray

# What random numbers are for: streams of one seed that do not overlap.
BATCHES, VARIANCE, DRIFT = range(3)


class _Key(ISeedSequence):
    """A key as Philox asks a seed for one; ``Philox(key=...)`` asks the system for chance first."""

    def __init__(self, key: NDArray[np.uint64]) -> None:
        self._key = key

    def generate_state(self, n_words: int, dtype: DTypeLike = np.uint64) -> NDArray[np.uint64]:
        """The key, for which Philox asks as two words of 64 bits."""
        if n_words != self._key.size or dtype is not np.uint64:
            raise ValueError(f"a key is {self._key.size} words of 64 bits, and no more")
        return self._key


def generator(seed: int, client: int, round_index: int, purpose: int) -> np.random.Generator:
    """Random numbers of one client in one round, whoever else takes part."""
    key = np.array([seed, (client << 34) | (round_index << 2) | purpose], dtype=np.uint64)
    seeds = cast(np.random.SeedSequence, _Key(key))  # numpy's types know of no other
    return np.random.Generator(np.random.Philox(seeds))


def draw(random: np.random.Generator, population: int, sizes: Sequence[int]) -> list[IntArray]:
    """Batches of these sizes from 0 ... population - 1.

    No sample comes again before all have been used, so a batch of all samples is just that.

    Example:
        >>> a, b = draw(generator(0, client=3, round_index=1, purpose=BATCHES), 5, [2, 3])
        >>> sorted([*a.tolist(), *b.tolist()])
        [0, 1, 2, 3, 4]
    """
    rounds, rest = divmod(sum(sizes), population)
    parts = [random.permutation(population) for _ in range(rounds)]
    parts.append(random.choice(population, rest, replace=False))
    drawn = np.concatenate(parts) if rounds else parts[0]
    return [drawn[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]
