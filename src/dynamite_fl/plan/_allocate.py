"""The exact split of samples among clients that makes the averaged gradient least noisy.

This is the problem inside Algorithm 1: minimise sum_i w_i / s_i over whole s_i with
l_i <= s_i <= u_i and sum_i s_i <= S, where l_i is 1 or more. It is separable and convex. The s-th
sample of client i gains w_i / (s (s - 1)), which falls in s. So it is optimal to take samples in
the order of their gain, after the first l_i of every client. The samples of client i that gain at
least 1/x^2 are its first floor(1/2 + sqrt(1/4 + w_i x^2)).
We search x by Newton steps until at most n samples are undecided, and take the best of them.
"""

import numpy as np

from dynamite_fl.plan._problem import pieces
from dynamite_fl.records import FloatArray

_MOST_STEPS = 100  # about 4 are usual; stopping early costs time but no exactness
_NEGLIGIBLE = 1e-30  # a relative weight that is lost in a sum of a million doubles


def allocate(
    weights: FloatArray, ceilings: FloatArray, totals: FloatArray, least: FloatArray | None = None
) -> FloatArray:
    """Return the optimal batch sizes of m problems over the same clients.

    Args:
        weights: w_i, shape (n,), 0 or more. A client with weight 0 gets its least.
        ceilings: u_i, shape (m, n), whole and at least l_i.
        totals: S, shape (m,), whole and at least the sum of l_i.
        least: l_i, shape (n,), whole and at least 1. Default: 1.

    Returns:
        The batch sizes, whole numbers of shape (m, n).

    Example:
        >>> allocate(np.array([100.0, 1, 1, 1]), np.full((1, 4), 9.0), np.array([8.0]))
        array([[5., 1., 1., 1.]])
    """
    least = np.ones(weights.size) if least is None else least
    useful = weights > _NEGLIGIBLE * weights.max()
    sizes = np.where(useful, ceilings, least)  # (m, n)
    scarce = sizes.sum(axis=1) > totals  # not every client can have its ceiling
    if scarce.any():
        relative = np.where(useful, weights / weights.max(), 0.0)
        sizes[scarce] = _split(np.sqrt(relative), least, sizes[scarce], totals[scarce])
    return sizes


def _split(
    roots: FloatArray, least: FloatArray, ceilings: FloatArray, totals: FloatArray
) -> FloatArray:
    """Split a total that is below the sum of the ceilings. The roots are sqrt(w_i)."""
    low, high = _bracket(roots, least, ceilings, totals)
    sizes = _sizes_at(low, roots, least, ceilings)
    most = _sizes_at(high, roots, least, ceilings)
    left = totals - sizes.sum(axis=1)
    for row in np.flatnonzero(left > 0):
        sizes[row] += _best_of(sizes[row], most[row], roots, int(left[row]))
    return sizes


def _bracket(
    roots: FloatArray, least: FloatArray, ceilings: FloatArray, totals: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return two x per row: with at most the total of samples, and with at most n samples more."""
    m, n = ceilings.shape
    # At x = 1 no client has more than its least, because the largest root is 1.
    low, low_total = np.ones(m), np.full(m, float(least.sum()))
    high = ceilings.max(axis=1) / roots[roots > 0].min()  # every client is at its ceiling
    high_total = ceilings.sum(axis=1)
    x = np.clip(totals / roots.sum(), low, high)  # optimal without ceilings and rounding
    for step in range(_MOST_STEPS):
        total, slope = _total_at(x, roots, least, ceilings)
        few = total <= totals
        low, low_total = np.where(few, x, low), np.where(few, total, low_total)
        high, high_total = np.where(few, high, x), np.where(few, high_total, total)
        done = (low_total == totals) | (high_total - low_total <= n)
        if done.all():
            break
        # Aim a little beyond the total, so that the bracket closes from both sides.
        aim = totals + np.where(few, n / 16, -n / 16)
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = x + (aim - total) / slope
        usable = (newton > low) & (newton < high) & (step % 4 < 3)
        x = np.where(usable, newton, np.sqrt(low * high))
    return low, high


def _total_at(
    x: FloatArray, roots: FloatArray, least: FloatArray, ceilings: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the sum of ``_sizes_at`` in each row, and roughly its derivative in x."""
    total, slope = np.zeros(x.size), np.zeros(x.size)
    for some in pieces(*ceilings.shape):
        sizes = _sizes_at(x, roots[some], least[some], ceilings[:, some])
        total += sizes.sum(axis=1)
        grows = (sizes < ceilings[:, some]) & ((sizes > least[some]) | (least[some] == 1))
        slope += np.where(grows, roots[some], 0.0).sum(axis=1)
    return total, slope


def _sizes_at(
    x: FloatArray, roots: FloatArray, least: FloatArray, ceilings: FloatArray
) -> FloatArray:
    """Return how many samples of each client gain at least 1/x^2, from its least to its ceiling."""
    sizes = x[:, None] * roots  # (m, n)
    sizes *= sizes
    sizes += 0.25
    np.sqrt(sizes, out=sizes)
    sizes += 0.5
    np.floor(sizes, out=sizes)
    np.maximum(sizes, least, out=sizes)
    return np.minimum(sizes, ceilings, out=sizes)


def _best_of(least: FloatArray, most: FloatArray, roots: FloatArray, count: int) -> FloatArray:
    """Return how many of the ``count`` best undecided samples each client gets, shape (n,)."""
    undecided = (most - least).astype(np.int64)
    owner = np.repeat(np.arange(roots.size), undecided)
    first = np.cumsum(undecided) - undecided  # the position of each owner's first sample
    size = least[owner] + 1 + np.arange(owner.size) - first[owner]
    gain = roots[owner] ** 2 / (size * (size - 1))
    chosen = np.argpartition(gain, owner.size - count)[owner.size - count :]
    return np.bincount(owner[chosen], minlength=roots.size).astype(np.float64)
