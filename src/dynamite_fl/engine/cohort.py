"""Who takes part in a round."""

from dataclasses import dataclass

import numpy as np

from dynamite_fl.records import FloatArray, IntArray

_COHORTS = 0x636F686F  # keeps these random numbers apart from others of the same seed


@dataclass(frozen=True)
class Selection:
    """How a cohort is drawn.

    Attributes:
        size: How many clients a round has; None for all.
        by: ``uniform``, or ``data`` for chances in proportion to clients' samples.
    """

    size: int | None = None
    by: str = "uniform"

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise ValueError(f"selection.size is {self.size}: it must be 1 or more")
        if self.by not in ("uniform", "data"):
            raise ValueError(f"selection.by is {self.by!r}: it must be 'uniform' or 'data'")


def draw_cohort(samples: FloatArray, selection: Selection, seed: int, round_index: int) -> IntArray:
    """A round's clients in rising order, the same for the same seed and round.

    Args:
        samples: D_i of every client, (n,).
        selection: How many are drawn, and by what.
        seed: Of the training.
        round_index: k.

    Example:
        >>> samples = np.array([1.0, 2, 3])
        >>> draw_cohort(samples, Selection(), seed=0, round_index=1)
        array([0, 1, 2])
        >>> draw_cohort(samples, Selection(size=2), seed=0, round_index=1).size
        2
    """
    n = samples.size
    if selection.size is None or selection.size >= n:
        return np.arange(n)
    random = np.random.default_rng([seed, _COHORTS, round_index])
    chances = samples / samples.sum() if selection.by == "data" else None
    return np.sort(random.choice(n, selection.size, replace=False, p=chances))
