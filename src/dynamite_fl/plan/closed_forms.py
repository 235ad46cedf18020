"""One batch size for all (Theorem 2) and constant step time (Corollary 1).

Both take the rounds as given and compute the batch sizes for each tau in closed form. The paper
solves df/dtau = 0 and rounds tau. We compare all whole tau: they are few, and a tau that is
rounded before the batch sizes are rounded down can miss the optimum (docs/paper.md).
"""

from functools import partial

import numpy as np

from dynamite_fl.errors import InvalidInput
from dynamite_fl.plan._predict import predict
from dynamite_fl.plan._problem import batch_ceilings, cases, round_seconds, total_ceilings
from dynamite_fl.plan._sizing import rows_at_once
from dynamite_fl.plan.bounds import Bound, cumulative_bound, evaluate
from dynamite_fl.plan.feasibility import require_feasible
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, LossGeometry, Plan


def uniform_plan(
    fleet: Fleet,
    limits: Limits,
    geometry: LossGeometry,
    objective: Bound = cumulative_bound,
) -> Plan:
    """Return the best plan with the same batch size for every client: Theorem 2.

    s(tau) = floor(min{(R - K b)/(K a tau n), min_i p_i ((theta/K - t_ui)/tau - overhead_i)}), and
    at most the number of samples of the client that has the fewest. If the fleet has a least batch,
    s(tau) is not below it, unless that client has fewer samples.

    Raises:
        Infeasible: Even one local step on one sample per client exceeds the limits.

    Example:
        The paper's defaults are K = 3000 rounds, a budget of 10,000 and 2 per round.

        >>> fleet = Fleet(
        ...     samples=[2500] * 20,
        ...     gradient_variance=9,
        ...     samples_per_second=1000,
        ...     comm_seconds=0.1,
        ... )
        >>> limits = Limits(
        ...     rounds=3000,
        ...     deadline=5000,
        ...     budget=10_000,
        ...     cost_per_sample=0.0005,
        ...     cost_per_round=2,
        ...     max_local_steps=2,
        ... )
        >>> geometry = LossGeometry(
        ...     learning_rate=0.005,
        ...     quadratic_bound=1,
        ...     smoothness=1,
        ...     pl_constant=0.05,
        ...     divergence=1,
        ...     loss_gap=2.3,
        ... )
        >>> plan = uniform_plan(fleet, limits, geometry)
        >>> plan.local_steps, int(plan.batch_sizes[0])  # 66.7, rounded down
        (2, 66)
    """
    minimised = partial(objective, geometry)
    rounds, steps = _rounds_and_steps(fleet, limits)
    case = cases(rounds, steps, limits.deadline, limits.budget)
    sizes = np.floor(total_ceilings(fleet, limits, case) / len(fleet))  # (tau_max,)
    for start in range(0, steps.size, rows_at_once(fleet)):
        rows = np.arange(start, min(start + rows_at_once(fleet), steps.size))
        sizes[rows] = np.minimum(sizes[rows], batch_ceilings(fleet, case[rows]).min(axis=1))
    weight = (fleet.gradient_variance * fleet.share**2).sum()
    fits = sizes >= fleet.least_batches.min()
    noise = np.divide(weight, sizes, out=np.full(steps.size, np.inf), where=fits)
    best = int(np.argmin(evaluate(minimised, rounds, steps, noise)))
    return predict(
        fleet,
        limits,
        minimised,
        rounds=rounds,
        local_steps=best + 1,
        batch_sizes=np.full(len(fleet), int(sizes[best])),
        grain=len(fleet),
    )


def constant_time_plan(
    fleet: Fleet,
    limits: Limits,
    geometry: LossGeometry,
    objective: Bound = cumulative_bound,
) -> Plan:
    """Return the best plan when a step takes the same time for any batch size: Corollary 1.

    s_i(tau) = floor(s_tot(tau) sqrt(M_i) D_i / sum_j sqrt(M_j) D_j). Every client has at least its
    least batch and at most its own data, and the other clients share the rest in proportion. Up to
    n samples stay unused because of rounding. ``cooptimize`` distributes them.

    Args:
        fleet: Clients with ``samples_per_second=math.inf`` and t_ci as ``step_overhead``.
        limits: Deadline, budget, prices and rounds.
        geometry: The constants of the loss.
        objective: The bound to minimise. Default: Theorem 1.

    Raises:
        Infeasible: Even one local step on one sample per client exceeds the limits.
    """
    if np.isfinite(fleet.samples_per_second).any():
        raise InvalidInput(
            "Fleet.samples_per_second must be infinite for a constant step time; "
            "use cooptimize for a fleet whose steps take longer on larger batches"
        )
    minimised = partial(objective, geometry)
    rounds, steps = _rounds_and_steps(fleet, limits)
    span = fleet.least_batches, fleet.at_hand
    in_time = np.array(
        [(rounds * round_seconds(fleet, tau, span[0])).max() <= limits.deadline for tau in steps]
    )
    totals = total_ceilings(fleet, limits, cases(rounds, steps, limits.deadline, limits.budget))
    affordable = totals >= span[0].sum()
    roots = np.sqrt(fleet.gradient_variance) * fleet.share
    scales = _scales(roots, *span, totals)
    noise = np.full(steps.size, np.inf)
    for row in np.flatnonzero(in_time & affordable):
        noise[row] = (roots**2 / _shares(roots, *span, scales[row], totals[row])).sum()
    best = int(np.argmin(evaluate(minimised, rounds, steps, noise)))
    return predict(
        fleet,
        limits,
        minimised,
        rounds=rounds,
        local_steps=best + 1,
        batch_sizes=_shares(roots, *span, scales[best], totals[best]).astype(np.int64),
        grain=len(fleet),
    )


def _rounds_and_steps(fleet: Fleet, limits: Limits) -> tuple[int, IntArray]:
    if limits.rounds is None:
        raise InvalidInput("Limits.rounds is needed: the closed forms take the rounds as given")
    require_feasible(fleet, limits)
    return limits.rounds, np.arange(1, limits.max_local_steps + 1)


def _shares(
    roots: FloatArray, least: FloatArray, most: FloatArray, scale: float, total: float
) -> FloatArray:
    """Return shares in proportion to roots, rounded down and limited to [least, most], (n,)."""
    while True:
        # The 1e-9 keeps a share whole that is below a whole number by a rounding error only.
        shares = np.asarray(np.clip(np.floor(scale * roots + 1e-9), least, most))
        if shares.sum() <= total:
            return shares
        scale *= total / shares.sum() * (1 - 1e-12)  # the scale was inexact: roots differ widely


def _scales(
    roots: FloatArray, least: FloatArray, most: FloatArray, totals: FloatArray
) -> FloatArray:
    """Return the x at which sum_i clip(x root_i, least_i, most_i) equals each total.

    It is the largest x that matters if a total is above the maximum of the sum. The sum is
    piecewise linear in x. It is tabulated at the x where a client leaves its least or reaches its
    most, and the table is inverted.
    """
    able = roots > 0
    if not able.any():
        return np.zeros(totals.shape)
    knots = np.concatenate([least[able] / roots[able], most[able] / roots[able]])
    change = np.concatenate([roots[able], -roots[able]])  # of the slope at each knot
    order = np.argsort(knots, kind="stable")
    slopes = np.maximum(np.cumsum(change[order]), 0.0)[:-1]
    x = knots[order]
    sums = least.sum() + np.concatenate([[0.0], np.cumsum(slopes * np.diff(x))])
    return np.asarray(np.interp(totals, sums, x))
