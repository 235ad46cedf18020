"""What a device keeps of what it has received: Algorithm 4, corrected, and its rivals.

The place that a sample takes depends on its number in the stream and on one random number that
belongs to that number alone. So arrivals can be taken in at once or one by one, in this round or,
by a client that was away, in a later one: the buffer comes out the same.

J. S. Vitter: Random Sampling with a Reservoir. ACM Transactions on Mathematical Software 11(1),
1985.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from dynamite_fl.chance import dice
from dynamite_fl.records import FloatArray, IntArray
from dynamite_fl.stream.checks import require_whole

Policy = Literal["reservoir", "random", "fifo", "unbounded"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
_WORDS = 4  # random numbers that Philox makes at once


@dataclass(frozen=True, eq=False)
class Buffer:
    """What a client has stored.

    Attributes:
        rows: Where its samples are in the data, (m,).
        seen: D_i^k, how many samples have arrived so far, stored or not.
    """

    rows: IntArray
    seen: int


NOTHING = Buffer(np.empty(0, dtype=np.int64), 0)


@dataclass(frozen=True)
class Storage:
    """How samples are stored.

    Attributes:
        policy: ``reservoir`` lets every sample that has arrived be in the buffer with the same
            chance. ``random`` always stores the newest in place of any other, ``fifo`` in place
            of the oldest. ``unbounded`` stores all.
        size: B_i, the most samples that a client stores; None if unbounded.
        seed: Of what is drawn.

    Example:
        >>> storage = Storage("fifo", size=3)
        >>> buffer, places = storage.take(0, NOTHING, np.array([10, 11, 12, 13]))
        >>> buffer.rows, buffer.seen, places
        (array([13, 11, 12]), 4, array([0, 1, 2]))
    """

    policy: Policy = "reservoir"
    size: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"the buffer is {self.policy!r}: use one of {', '.join(POLICIES)}")
        if (self.size is None) != (self.policy == "unbounded"):
            raise ValueError(
                f"the buffer {self.policy!r} has "
                + ("no size: say how many samples it holds" if self.size is None else "no size")
            )
        if self.size is not None:
            require_whole("the buffer's size", self.size, least=1)

    def take(self, client: int, buffer: Buffer, arrivals: IntArray) -> tuple[Buffer, IntArray]:
        """The buffer after these arrivals, and the places in it where they are.

        Args:
            client: Whose buffer it is.
            buffer: As it was.
            arrivals: Where the new samples are in the data, (m,).
        """
        if not arrivals.size:
            return buffer, NOTHING.rows
        where = self.places(client, buffer.seen, arrivals.size)
        kept = where >= 0
        seen = buffer.seen + arrivals.size
        rows = np.empty(seen if self.size is None else min(seen, self.size), dtype=np.int64)
        rows[: buffer.rows.size] = buffer.rows
        rows[where[kept]] = arrivals[kept]  # of several for one place the last one stays
        is_new = np.zeros(rows.size, dtype=bool)
        is_new[where[kept]] = True
        return Buffer(rows, seen), np.flatnonzero(is_new)

    def places(self, client: int, first: int, count: int) -> IntArray:
        """Where samples number first, first + 1, ... of a client go, from 0; -1 for nowhere."""
        number = np.arange(first, first + count)
        if self.size is None:
            return number
        if self.policy == "fifo":
            return number % self.size
        chance = chances(self.seed, client, first, count)
        if self.policy == "random":
            place = (chance * self.size).astype(np.int64)
        else:
            drawn = (chance * (number + 1)).astype(np.int64)  # uniform in 0 ... number
            place = np.where(drawn < self.size, drawn, -1)
        return np.where(number < self.size, number, place)


def chances(seed: int, client: int, first: int, count: int) -> FloatArray:
    """Random numbers in [0, 1) that belong to a client's samples of these numbers, (count,).

    Example:
        >>> bool((chances(0, 7, 0, 9)[5:] == chances(0, 7, 5, 4)).all())
        True
    """
    generator = dice(seed, "buffer", client)
    generator.bit_generator.advance(first // _WORDS)  # type: ignore[attr-defined]
    skipped = first % _WORDS
    return generator.random(skipped + count)[skipped:]
