"""Who takes part in a round."""

from dataclasses import dataclass

import numpy as np

from dynamite_fl.records import Fleet, IntArray

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


def draw_cohort(fleet: Fleet, selection: Selection, seed: int, round_index: int) -> IntArray:
    """A round's clients in rising order, the same for the same seed and round.

    Example:
        >>> fleet = Fleet(
        ...     samples=[1, 2, 3], gradient_variance=1, samples_per_second=1, comm_seconds=0
        ... )
        >>> draw_cohort(fleet, Selection(), seed=0, round_index=1)
        array([0, 1, 2])
        >>> draw_cohort(fleet, Selection(size=2), seed=0, round_index=1).size
        2
    """
    n = len(fleet)
    if selection.size is None or selection.size >= n:
        return np.arange(n)
    random = np.random.default_rng([seed, _COHORTS, round_index])
    chances = fleet.share if selection.by == "data" else None
    return np.sort(random.choice(n, selection.size, replace=False, p=chances))
