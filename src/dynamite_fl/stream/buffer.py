"""The samples that a device stores: Algorithm 4, corrected, and three other policies.

The place that a sample takes depends only on its number in the stream and on one random number
that belongs to that number. The buffer is therefore the same whether samples are stored one by one
or many at once, and whether a client stores them in this round or, after an absence, in a later
one.

J. S. Vitter: Random Sampling with a Reservoir. ACM Transactions on Mathematical Software 11(1),
1985.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from dynamite_fl._random import random_stream
from dynamite_fl._validate import check_name, check_whole
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import FloatArray, IntArray

Policy = Literal["reservoir", "random", "fifo", "unbounded"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
_WORDS = 4  # the number of random numbers that Philox generates at a time


@dataclass(frozen=True, eq=False)
class Buffer:
    """The samples that a client has stored.

    Attributes:
        rows: The rows of its samples in the data, (m,).
        seen: The number of samples that have arrived so far, stored or not (the paper's D_i^k).
    """

    rows: IntArray
    seen: int


NOTHING = Buffer(np.empty(0, dtype=np.int64), 0)


def check_buffer(policy: object, size: object) -> None:
    """Refuse an unknown policy, and a size that does not fit the policy.

    Example:
        >>> check_buffer("fifo", None)
        Traceback (most recent call last):
        dynamite_fl.errors.InvalidInput: stream.buffer 'fifo' needs stream.buffer_size
    """
    check_name("stream.buffer", policy, POLICIES)
    if policy == "unbounded":
        if size is not None:
            raise InvalidInput(
                "stream.buffer 'unbounded' takes no stream.buffer_size: leave it out"
            )
    elif size is None:
        raise InvalidInput(f"stream.buffer {policy!r} needs stream.buffer_size")
    else:
        check_whole("stream.buffer_size", size)


@dataclass(frozen=True)
class Storage:
    """The policy by which samples are stored.

    Attributes:
        policy: ``reservoir`` stores every sample that has arrived with the same probability.
            ``random`` stores each new sample in place of a random one, ``fifo`` in place of the
            oldest. ``unbounded`` stores all samples.
        size: The most samples that a client stores (the paper's B_i); None if unbounded.
        seed: The seed of the draws.

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
        check_buffer(self.policy, self.size)

    def take(self, client: int, buffer: Buffer, arrivals: IntArray) -> tuple[Buffer, IntArray]:
        """Return the buffer after these arrivals, and the places of the arrivals in it.

        Args:
            client: The client whose buffer it is.
            buffer: The buffer before the arrivals.
            arrivals: The rows of the new samples in the data, (m,).
        """
        if not arrivals.size:
            return buffer, NOTHING.rows
        where = self.places(client, buffer.seen, arrivals.size)
        kept = where >= 0
        seen = buffer.seen + arrivals.size
        rows = np.empty(seen if self.size is None else min(seen, self.size), dtype=np.int64)
        rows[: buffer.rows.size] = buffer.rows
        rows[where[kept]] = arrivals[kept]  # if several take one place, the last one stays
        is_new = np.zeros(rows.size, dtype=bool)
        is_new[where[kept]] = True
        return Buffer(rows, seen), np.flatnonzero(is_new)

    def places(self, client: int, first: int, count: int) -> IntArray:
        """Return the places of a client's samples number first, first + 1, ..., (count,).

        Samples and places are counted from 0. The place -1 means that a sample is not stored.
        """
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
    """Return the random numbers in [0, 1) of a client's samples number first, ..., (count,).

    Example:
        >>> bool((chances(0, 7, 0, 9)[5:] == chances(0, 7, 5, 4)).all())
        True
    """
    generator = random_stream(seed, "buffer", client)
    generator.bit_generator.advance(first // _WORDS)  # type: ignore[attr-defined]
    skipped = first % _WORDS
    return generator.random(skipped + count)[skipped:]
