"""The constraints of Section III: the time and cost of a round, and the largest batches that fit.

Time and cost have one formula each, ``round_seconds`` and ``round_cost``. A ceiling is the largest
whole number for which these formulas, as computed in floating point, keep the limit. So no plan
exceeds a limit by even a rounding error.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.records import BoolArray, Fleet, FloatArray, IntArray, Limits

_PRECISE = 2.0**48  # the rounding error of doubles up to this size is far below 1
_CACHED = 1 << 14  # a few arrays of so many numbers fit into a core's cache


@dataclass(frozen=True)
class Cases:
    """Plans without batch sizes, in columns of shape (m,) with one entry for each plan."""

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
    """Return cases from numbers or arrays that broadcast to one column."""
    columns = np.broadcast_arrays(rounds, local_steps, deadline, budget)
    return Cases(*(column.astype(np.float64).ravel() for column in columns))


def pieces(rows: int, columns: int) -> Iterator[slice]:
    """Split the columns of a table so that each part of the table fits into the cache."""
    width = max(1, _CACHED // max(1, rows))
    return (slice(start, start + width) for start in range(0, columns, width))


def round_seconds(fleet: Fleet, local_steps: ArrayLike, batch_sizes: ArrayLike) -> FloatArray:
    """Compute each client's seconds in a round, tau (overhead_i + s_i / p_i) + t_ui, (..., n)."""
    step = fleet.step_overhead + np.asarray(batch_sizes) / fleet.samples_per_second
    return np.asarray(np.asarray(local_steps) * step + fleet.comm_seconds)


def round_cost(limits: Limits, local_steps: ArrayLike, total_batch: ArrayLike) -> FloatArray:
    """Compute the cost of a round, a tau s_tot + b."""
    samples = np.asarray(local_steps) * np.asarray(total_batch)
    return np.asarray(limits.cost_per_sample * samples + limits.cost_per_round)


def batch_ceilings(fleet: Fleet, cases: Cases) -> FloatArray:
    """Return the largest batch size of each client within the deadline and its data, (m, n).

    s_i(theta) = floor(p_i ((theta/K - t_ui)/tau - overhead_i)); 0 where not one sample fits.
    """
    ceilings = np.empty((len(cases), len(fleet)))
    for some in pieces(len(cases), len(fleet)):
        ceilings[:, some] = _batch_ceilings(fleet.section(some), cases)
    return ceilings


def _batch_ceilings(fleet: Fleet, cases: Cases) -> FloatArray:
    rounds, steps = cases.rounds[:, None], cases.local_steps[:, None]
    deadline = cases.deadline[:, None]

    def fits(sizes: FloatArray) -> BoolArray:
        return rounds * round_seconds(fleet, steps, sizes) <= deadline

    step_seconds = (deadline / rounds - fleet.comm_seconds) / steps - fleet.step_overhead
    with np.errstate(invalid="ignore"):  # zero seconds at infinite speed
        guess = step_seconds * fleet.samples_per_second
    constant = np.isinf(fleet.samples_per_second)
    fastest = fleet.samples_per_second.max(where=~constant, initial=0.0)
    scale = _largest_finite(cases.deadline / cases.rounds / cases.local_steps) * float(fastest)
    return _largest_fitting(guess, fits, fleet.at_hand, constant, scale)


def total_ceilings(fleet: Fleet, limits: Limits, cases: Cases) -> FloatArray:
    """Return the largest total batch of all clients within the budget and their data, (m,).

    s_tot(R) = floor((R/K - b) / (a tau)), from the constraint K (a tau s_tot + b) <= R.
    """

    def fits(totals: FloatArray) -> BoolArray:
        return cases.rounds * round_cost(limits, cases.local_steps, totals) <= cases.budget

    with np.errstate(divide="ignore", invalid="ignore"):  # samples may cost nothing
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
    """Return the largest whole number up to ``most`` that fits, or 0 if none does.

    Args:
        guess: The real-valued solution. It is a difference of numbers as large as ``scale``, so
            it has a rounding error, which is below 1 unless the scale is extreme.
        fits: Whether sizes keep the limit.
        most: The largest size allowed.
        constant: Whether all sizes use the same amount, so that all of them fit or none.
        scale: The magnitude of the numbers in the guess.
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
    """Return the same as ``_largest_fitting``, by bisection: slower, but right for any scale."""
    low, high = np.zeros(most.shape), most.astype(np.float64)
    while (low < high).any():
        middle = np.ceil((low + high) / 2)
        fit = fits(middle)
        low, high = np.where(fit, middle, low), np.where(fit, high, np.minimum(high, middle - 1))
        low = np.minimum(low, high)
    return low
