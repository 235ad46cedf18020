"""When samples reach a device: the paper's three patterns, and how clients differ in them.

All count samples since training began. What is said to arrive in a round is there before the
round's local steps.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dynamite_fl.chance import dice
from dynamite_fl.records import FloatArray, IntArray
from dynamite_fl.stream.checks import is_number, require_whole


class Arrivals(Protocol):
    """How many samples arrive, and when."""

    def arrived(self, clients: IntArray, round_index: int) -> IntArray:
        """How many samples have reached these clients up to and including a round, (m,)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Smooth:
    """Equally many at regular intervals.

    Attributes:
        initial: Samples at hand before training.
        size: Samples that arrive at once.
        every: In each round that is a multiple of this.

    Example:
        >>> Smooth(initial=5000, size=3000, every=100).arrived(np.array([0, 1]), 250)
        array([11000, 11000])
    """

    initial: int
    size: int
    every: int

    def __post_init__(self) -> None:
        _require(self, at_least_0=("initial", "size"), at_least_1=("every",))

    def arrived(self, clients: IntArray, round_index: int) -> IntArray:
        """See ``Arrivals``."""
        return np.full(clients.size, self.initial + self.size * (round_index // self.every))


@dataclass(frozen=True, kw_only=True)
class Burst:
    """All at once.

    Attributes:
        initial: Samples at hand before training.
        size: Samples that arrive in the burst.
        at: The round of the burst.

    Example:
        >>> burst = Burst(initial=10, size=50, at=500)
        >>> [int(burst.arrived(np.array([0]), k)[0]) for k in (499, 500)]
        [10, 60]
    """

    initial: int
    size: int
    at: int

    def __post_init__(self) -> None:
        _require(self, at_least_0=("initial", "size"), at_least_1=("at",))

    def arrived(self, clients: IntArray, round_index: int) -> IntArray:
        """See ``Arrivals``."""
        return np.full(clients.size, self.initial + self.size * (round_index >= self.at))


@dataclass(frozen=True, kw_only=True)
class Random:
    """At random rounds in random portions, others for each client.

    Attributes:
        initial: Samples at hand before training.
        size: Samples that arrive in all.
        times: How many portions they come in. Where one portion ends and the next begins is
            uniform.
        rounds: The rounds in which they may come, each alike, are 1 to this one.
        seed: Of what is drawn.

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

    def __post_init__(self) -> None:
        _require(self, at_least_0=("initial", "size"), at_least_1=("times", "rounds"))

    def arrived(self, clients: IntArray, round_index: int) -> IntArray:
        """See ``Arrivals``."""
        return np.array([self._arrived(int(client), round_index) for client in clients], np.int64)

    def _arrived(self, client: int, round_index: int) -> int:
        generator = dice(self.seed, "arrivals", client)
        when = generator.integers(1, self.rounds, self.times, endpoint=True)
        cuts = np.sort(generator.integers(0, self.size, self.times - 1, endpoint=True))
        sizes = np.diff(cuts, prepend=0, append=self.size)
        return self.initial + int(sizes[when <= round_index].sum())


@dataclass(frozen=True, eq=False)
class Uneven:
    """The same pattern for all, but not equally many samples.

    Attributes:
        pattern: Of a client of the usual rate.
        spread: Standard deviation of the logarithm of clients' rates, whose median is 1.
        seed: Of what is drawn.

    Example:
        >>> usual = Smooth(initial=100, size=100, every=10)
        >>> Uneven(usual, spread=1.0).arrived(np.array([0, 1, 2]), 10)
        array([808,  82, 885])
    """

    pattern: Arrivals
    spread: float
    seed: int = 0

    def __post_init__(self) -> None:
        if not is_number(self.spread) or not 0 <= self.spread < np.inf:
            raise ValueError(f"the stream's spread is {self.spread!r}: it must be 0 or more")

    def arrived(self, clients: IntArray, round_index: int) -> IntArray:
        """See ``Arrivals``; a client that is to have some samples has at least one."""
        usual = self.pattern.arrived(clients, round_index)
        scaled = np.rint(usual * self._rates(clients)).astype(np.int64)
        return np.maximum(scaled, np.minimum(usual, 1))

    def _rates(self, clients: IntArray) -> FloatArray:
        drawn = dice(self.seed, "rates").standard_normal(int(clients.max(initial=0)) + 1)
        return np.asarray(np.exp(self.spread * drawn[clients]))


def _require(
    pattern: Smooth | Burst | Random, *, at_least_0: tuple[str, ...], at_least_1: tuple[str, ...]
) -> None:
    for names, least in ((at_least_0, 0), (at_least_1, 1)):
        for name in names:
            require_whole(f"the stream's {name}", getattr(pattern, name), least)
