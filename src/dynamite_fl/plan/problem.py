"""The limits of Section III as a problem: what fits, what binds, what is out of reach.

Time and cost have one formula each, ``round_seconds`` and ``round_cost``. Ceilings are the
largest whole numbers that those formulas admit as computed, so no plan exceeds a limit by
even a rounding error.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits

BoolArray = NDArray[np.bool_]

_PRECISE = 2.0**48  # doubles of this size are off by far less than one
_UNCOUNTABLE = 2.0**53  # from here on, doubles are no longer all whole numbers
_CACHED = 1 << 14  # numbers of which a few arrays fit into a core's cache


@dataclass(frozen=True)
class Cases:
    """Plans to be sized, one an entry: columns of shape (m,)."""

    rounds: FloatArray
    local_steps: FloatArray
    deadline: FloatArray
    budget: FloatArray

    def __len__(self) -> int:
        return self.rounds.size

    def __getitem__(self, rows: IntArray) -> "Cases":
        return Cases(
            self.rounds[rows], self.local_steps[rows], self.deadline[rows], self.budget[rows]
        )


def cases(
    rounds: ArrayLike, local_steps: ArrayLike, deadline: ArrayLike, budget: ArrayLike
) -> Cases:
    """Cases from numbers or arrays that broadcast to one column."""
    columns = np.broadcast_arrays(rounds, local_steps, deadline, budget)
    return Cases(*(column.astype(np.float64).ravel() for column in columns))


def pieces(rows: int, columns: int) -> Iterator[slice]:
    """Columns of a table, so many at a time that what is computed of them stays in the cache."""
    width = max(1, _CACHED // max(1, rows))
    return (slice(start, start + width) for start in range(0, columns, width))


def round_seconds(fleet: Fleet, local_steps: ArrayLike, batch_sizes: ArrayLike) -> FloatArray:
    """Each client's seconds in a round, tau (overhead_i + s_i / p_i) + t_ui, (..., n)."""
    step = fleet.step_overhead + np.asarray(batch_sizes) / fleet.samples_per_second
    return np.asarray(np.asarray(local_steps) * step + fleet.comm_seconds)


def round_cost(limits: Limits, local_steps: ArrayLike, total_batch: ArrayLike) -> FloatArray:
    """What a round costs, a tau s_tot + b."""
    samples = np.asarray(local_steps) * np.asarray(total_batch)
    return np.asarray(limits.cost_per_sample * samples + limits.cost_per_round)


def batch_ceilings(fleet: Fleet, cases: Cases) -> FloatArray:
    """The most samples each client can take in a step, by deadline and data, (m, n).

    s_i(theta) = floor(p_i ((theta/K - t_ui)/tau - overhead_i)); 0 where not one sample fits.
    """
    ceilings = np.empty((len(cases), len(fleet)))
    for some in pieces(len(cases), len(fleet)):
        ceilings[:, some] = _batch_ceilings(fleet.subset(some), cases)
    return ceilings


def _batch_ceilings(fleet: Fleet, cases: Cases) -> FloatArray:
    rounds, steps = cases.rounds[:, None], cases.local_steps[:, None]
    deadline = cases.deadline[:, None]

    def fits(sizes: FloatArray) -> BoolArray:
        return rounds * round_seconds(fleet, steps, sizes) <= deadline

    step_seconds = (deadline / rounds - fleet.comm_seconds) / steps - fleet.step_overhead
    with np.errstate(invalid="ignore"):  # no time at infinite speed: 0 times infinity
        guess = step_seconds * fleet.samples_per_second
    constant = np.isinf(fleet.samples_per_second)
    fastest = fleet.samples_per_second.max(where=~constant, initial=0.0)
    scale = _largest_finite(cases.deadline / cases.rounds / cases.local_steps) * float(fastest)
    return _largest_fitting(guess, fits, fleet.at_hand, constant, scale)


def total_ceilings(fleet: Fleet, limits: Limits, cases: Cases) -> FloatArray:
    """The most samples all clients can take in a step together, by budget and data, (m,).

    s_tot(R) = floor((R/K - b) / (a tau)): the paper's K(a tau s_tot + b) <= R, solved.
    """

    def fits(totals: FloatArray) -> BoolArray:
        return cases.rounds * round_cost(limits, cases.local_steps, totals) <= cases.budget

    with np.errstate(divide="ignore", invalid="ignore"):  # samples that cost nothing
        spare = cases.budget / cases.rounds - limits.cost_per_round
        guess = spare / (limits.cost_per_sample * cases.local_steps)
        scale = _largest_finite(cases.budget / cases.rounds / limits.cost_per_sample)
    return _largest_fitting(guess, fits, fleet.at_hand.sum(), limits.cost_per_sample == 0, scale)


def _largest_fitting(
    guess: FloatArray,
    fits: Callable[[FloatArray], BoolArray],
    most: ArrayLike,
    constant: ArrayLike,
    scale: float,
) -> FloatArray:
    """The largest whole number up to ``most`` that fits, 0 where none does.

    The guess is the real-valued solution. It is a difference of numbers as large as
    ``scale``, so it is off by rounding errors, and by less than one unless the scale is
    extreme. Where ``constant``, a larger size takes no more, so all fits or nothing.
    """
    if scale > _PRECISE:
        return _bisected(fits, np.broadcast_to(most, guess.shape))
    size = np.clip(np.floor(np.where(constant, np.inf, guess)), 0.0, most)
    size = np.where(fits(size + 1), size + 1, size)
    size = np.where(fits(size), size, np.where(constant, 0.0, size - 1))
    return np.asarray(np.clip(size, 0.0, most))


def _largest_finite(values: FloatArray) -> float:
    return float(values.max(where=np.isfinite(values), initial=0.0))


def _bisected(fits: Callable[[FloatArray], BoolArray], most: FloatArray) -> FloatArray:
    """As ``_largest_fitting``, slowly but whatever the numbers."""
    low, high = np.zeros(most.shape), most.astype(np.float64)
    while (low < high).any():
        middle = np.ceil((low + high) / 2)
        fine = fits(middle)
        low, high = np.where(fine, middle, low), np.where(fine, high, np.minimum(high, middle - 1))
        low = np.minimum(low, high)
    return low


def most_rounds(limits: Limits, seconds: float, cost: float) -> float:
    """How many rounds of these seconds and this cost fit; infinity if no limit ends them."""
    wanted = math.inf if limits.rounds is None else limits.rounds
    return min(_times(seconds, limits.deadline), _times(cost, limits.budget), wanted)


def _times(part: float, whole: float) -> float:
    """How often part fits into whole, as computed in floating point."""
    if part == 0 or whole / part >= _UNCOUNTABLE:
        return math.inf
    times = math.floor(whole / part)
    times += (times + 1) * part <= whole
    return times - (times * part > whole)
