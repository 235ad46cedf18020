"""The batch sizes of least noise for given rounds and local steps."""

from collections.abc import Iterator

import numpy as np

from dynamite_fl.plan._allocate import allocate
from dynamite_fl.plan._problem import Cases, batch_ceilings, total_ceilings
from dynamite_fl.plan.bounds import gradient_noise
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits

_BLOCK = 1 << 16  # so many batch sizes fit into the processor's cache


def rows_at_once(fleet: Fleet) -> int:
    """Return how many cases are sized together."""
    return max(1, _BLOCK // len(fleet))


def least_noise(fleet: Fleet, limits: Limits, cases: Cases) -> FloatArray:
    """Return the least noise of each case, shape (m,). Infinite if the least batches do not fit."""
    noise = np.full(len(cases), np.inf)
    for rows, sizes in _sized(fleet, limits, cases):
        noise[rows] = gradient_noise(fleet, sizes)
    return noise


def batch_sizes(fleet: Fleet, limits: Limits, cases: Cases) -> IntArray:
    """Return the batch sizes of least noise for one feasible case, shape (n,)."""
    ((_, sizes),) = _sized(fleet, limits, cases)
    return np.asarray(sizes[0], dtype=np.int64)


def _sized(fleet: Fleet, limits: Limits, cases: Cases) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield the indices and the optimal batch sizes of the feasible cases, block by block."""
    weights = fleet.gradient_variance * fleet.share**2
    totals = total_ceilings(fleet, limits, cases)
    least = fleet.least_batches
    affordable = np.flatnonzero(totals >= least.sum())
    for start in range(0, affordable.size, rows_at_once(fleet)):
        block = affordable[start : start + rows_at_once(fleet)]
        ceilings = batch_ceilings(fleet, cases[block])
        in_time = (ceilings >= least).all(axis=1)
        rows = block[in_time]
        yield rows, allocate(weights, ceilings[in_time], totals[rows], least)
