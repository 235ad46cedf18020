"""The clients that take part in a round."""

from dataclasses import dataclass

import numpy as np

from dynamite_fl._validate import check_name, check_whole
from dynamite_fl.records import FloatArray, IntArray

_COHORTS = 0x636F686F  # keeps these random numbers apart from others of the same seed


@dataclass(frozen=True)
class Selection:
    """How a cohort is drawn.

    Attributes:
        size: The number of clients in a round; None for all.
        by: ``uniform``, or ``data`` for chances in proportion to clients' samples.
    """

    size: int | None = None
    by: str = "uniform"

    def __post_init__(self) -> None:
        if self.size is not None:
            check_whole("training.cohort", self.size)
        check_name("training.select_by", self.by, ("uniform", "data"))


def draw_cohort(samples: FloatArray, selection: Selection, seed: int, round_index: int) -> IntArray:
    """Return the places of a round's clients, in rising order.

    Args:
        samples: The number of samples of every client, D_i, (n,).
        selection: How many clients are drawn, and with which chances.
        seed: The training's seed.
        round_index: The round's number k.

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
