"""Batches of a client's samples, drawn uniformly and the same on every machine."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from dynamite_fl.records import IntArray

# The purposes of a client's random streams, for ``client_stream``.
BATCHES, VARIANCE, LOSSES, MODEL, RACE = range(5)


def draw_batches(
    stream: np.random.Generator, population: int, sizes: Sequence[int]
) -> list[IntArray]:
    """Draw batches of these sizes from the numbers 0 to population - 1.

    No number is drawn again before all numbers have been drawn, so a batch of the population's
    size holds every number once.

    Example:
        >>> from dynamite_fl._random import client_stream
        >>> stream = client_stream(0, client=3, round_index=1, purpose=BATCHES)
        >>> first, second = draw_batches(stream, 5, [2, 3])
        >>> sorted([*first.tolist(), *second.tolist()])
        [0, 1, 2, 3, 4]
    """
    passes, rest = divmod(sum(sizes), population)
    parts = [stream.permutation(population) for _ in range(passes)]
    parts.append(stream.choice(population, rest, replace=False))
    drawn = np.concatenate(parts) if passes else parts[0]
    return [drawn[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]
