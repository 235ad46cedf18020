"""How many samples have reached a device by a round: the paper's three patterns.

All patterns count samples from the start of training. Samples that arrive in a round are there
before the local steps of that round. ``Stream`` checks the numbers.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dynamite_fl._random import random_stream
from dynamite_fl.records import FloatArray, IntArray


class Arrivals(Protocol):
    """A pattern that says when how many samples arrive."""

    def arrived(self, clients: IntArray, round_index: int) -> IntArray:
        """Return how many samples have reached each client by the end of a round, (m,)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Smooth:
    """Equally many samples at regular intervals.

    Attributes:
        initial: The number of samples that are there before training.
        size: The number of samples of each arrival.
        every: The number of rounds from one arrival to the next. The first arrival is in the
            round of this number.

    Example:
        >>> Smooth(initial=5000, size=3000, every=100).arrived(np.array([0, 1]), 250)
        array([11000, 11000])
    """

    initial: int
    size: int
    every: int

    def arrived(self, clients: IntArray, round_index: int) -> IntArray:
        """Return how many samples have reached each client; see ``Arrivals``."""
        return np.full(clients.size, self.initial + self.size * (round_index // self.every))


@dataclass(frozen=True, kw_only=True)
class Burst:
    """All samples in one round.

    Attributes:
        initial: The number of samples that are there before training.
        size: The number of samples that arrive in the burst.
        at: The round of the burst.

    Example:
        >>> burst = Burst(initial=10, size=50, at=500)
        >>> [int(burst.arrived(np.array([0]), k)[0]) for k in (499, 500)]
        [10, 60]
    """

    initial: int
    size: int
    at: int

    def arrived(self, clients: IntArray, round_index: int) -> IntArray:
        """Return how many samples have reached each client; see ``Arrivals``."""
        return np.full(clients.size, self.initial + self.size * (round_index >= self.at))


@dataclass(frozen=True, kw_only=True)
class Random:
    """Portions of random sizes in random rounds, drawn for each client.

    Attributes:
        initial: The number of samples that are there before training.
        size: The number of samples that arrive in all.
        times: The number of portions. The samples at which one portion ends and the next begins
            are drawn uniformly.
        rounds: The last round in which a portion may arrive. The round of each portion is drawn
            uniformly from 1 to this one.
        seed: The seed of the draws.

    Example:
        >>> random = Random(initial=10, size=40, times=5, rounds=100)
        >>> random.arrived(np.array([0, 1]), 0), random.arrived(np.array([0, 1]), 100)
        (array([10, 10]), array([50, 50]))
    """

    initial: int
    size: int
    times: int
    rounds: int
    seed: int = 0

    def arrived(self, clients: IntArray, round_index: int) -> IntArray:
        """Return how many samples have reached each client; see ``Arrivals``."""
        return np.array([self._arrived(int(client), round_index) for client in clients], np.int64)

    def _arrived(self, client: int, round_index: int) -> int:
        generator = random_stream(self.seed, "arrivals", client)
        when = generator.integers(1, self.rounds, self.times, endpoint=True)
        cuts = np.sort(generator.integers(0, self.size, self.times - 1, endpoint=True))
        sizes = np.diff(cuts, prepend=0, append=self.size)
        return self.initial + int(sizes[when <= round_index].sum())


@dataclass(frozen=True, eq=False)
class Uneven:
    """A pattern whose numbers of samples are scaled by a random rate of each client.

    Attributes:
        pattern: The arrivals of a client whose rate is 1.
        spread: The standard deviation of the logarithm of the rates, whose median is 1.
        seed: The seed of the rates.

    Example:
        >>> usual = Smooth(initial=100, size=100, every=10)
        >>> Uneven(usual, spread=1.0).arrived(np.array([0, 1, 2]), 10)
        array([808,  82, 885])
    """

    pattern: Arrivals
    spread: float
    seed: int = 0

    def arrived(self, clients: IntArray, round_index: int) -> IntArray:
        """Return how many samples have reached each client; see ``Arrivals``.

        A client has at least one sample as soon as the pattern has one.
        """
        unscaled = self.pattern.arrived(clients, round_index)
        scaled = np.rint(unscaled * self._rates(clients)).astype(np.int64)
        return np.maximum(scaled, np.minimum(unscaled, 1))

    def _rates(self, clients: IntArray) -> FloatArray:
        normals = random_stream(self.seed, "rates").standard_normal(int(clients.max(initial=0)) + 1)
        return np.asarray(np.exp(self.spread * normals[clients]))
