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


@dataclass(frozen=True, eq=False)
class Cohort:
    """The clients of a round.

    Attributes:
        clients: The places of the clients in the fleet, in rising order, (m,).
        draws: How often each of them was drawn, (m,).
    """

    clients: IntArray
    draws: IntArray


def draw_cohort(samples: FloatArray, selection: Selection, seed: int, round_index: int) -> Cohort:
    """Draw the clients of a round.

    ``uniform`` draws different clients. ``data`` draws with replacement, as in the paper's
    appendix: a client that is drawn twice trains once and counts twice.

    Args:
        samples: The number of samples of every client, D_i, (n,).
        selection: How many clients are drawn, and with which chances.
        seed: The training's seed.
        round_index: The round's number k.

    Example:
        >>> samples = np.array([1.0, 2, 30])
        >>> draw_cohort(samples, Selection(), seed=0, round_index=1).clients
        array([0, 1, 2])
        >>> cohort = draw_cohort(samples, Selection(size=2, by="data"), seed=0, round_index=1)
        >>> cohort.clients, cohort.draws
        (array([2]), array([2]))
    """
    n = samples.size
    if selection.size is None or selection.size >= n:
        return Cohort(np.arange(n), np.ones(n, dtype=np.int64))
    random = np.random.default_rng([seed, _COHORTS, round_index])
    if selection.by == "data":
        drawn = random.choice(n, selection.size, p=samples / samples.sum())
        return Cohort(*np.unique(drawn, return_counts=True))
    clients = np.sort(random.choice(n, selection.size, replace=False))
    return Cohort(clients, np.ones(selection.size, dtype=np.int64))


def averaging_weights(
    cohort: Cohort, selection: Selection, reported: FloatArray, samples: FloatArray
) -> tuple[FloatArray, float]:
    """Return the weights of the clients' updates, and the factor of the mean movement.

    With them, the expected movement is that of the average over all clients, sum_i D_i/D (w_i - w),
    for both ways to draw. ``data`` draws client i with chance D_i/D, so every draw counts alike.
    ``uniform`` draws it with chance m/n, so it counts n/m D_i/D. These weights do not sum to 1: a
    cohort with much data moves the model farther than one with little.

    Args:
        cohort: The clients.
        selection: How they were drawn.
        reported: The number of samples that each of them reports, (m,).
        samples: The number of samples of every client as last known, D_i, (n,).

    Example:
        >>> samples, drawn = np.array([1.0, 1, 8]), np.array([1, 1])
        >>> uniform = Selection(size=2)
        >>> pair = Cohort(np.array([0, 2]), drawn)
        >>> weights, factor = averaging_weights(pair, uniform, samples[[0, 2]], samples)
        >>> weights / weights.sum(), factor  # the large client counts 8/9 * 1.35 = 3/2 * 0.8
        (array([0.11111111, 0.88888889]), 1.35)
    """
    m, n = cohort.clients.size, samples.size
    if m == n:
        return reported, 1.0
    if selection.by == "data":
        return cohort.draws.astype(np.float64), 1.0
    return reported, float(n / m * samples[cohort.clients].sum() / samples.sum())
