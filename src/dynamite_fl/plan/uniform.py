"""One batch size for all (Theorem 2) and constant step time (Corollary 1).

Both take the rounds as given and have batch sizes in closed form for each tau. Where the paper
solves df/dtau = 0 and rounds tau, we compare all whole tau: there are few, and rounding tau
before batch sizes are rounded down can miss the best (docs/paper.md).
"""

import numpy as np

from dynamite_fl.plan.bound import Objective, cumulative_bound, evaluate
from dynamite_fl.plan.infeasible import require_feasible
from dynamite_fl.plan.predict import predict
from dynamite_fl.plan.problem import batch_ceilings, cases, round_seconds, total_ceilings
from dynamite_fl.plan.sizing import rows_at_once
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, LossGeometry, Plan


def uniform_plan(
    fleet: Fleet,
    limits: Limits,
    geometry: LossGeometry,
    objective: Objective = cumulative_bound,
) -> Plan:
    """Theorem 2: the best plan with one batch size for every client.

    s(tau) = floor(min{(R - K b)/(K a tau n), min_i p_i ((theta/K - t_ui)/tau - overhead_i)}),
    and no client has fewer samples than that.

    Raises:
        Infeasible: Not even one local step on one sample a client keeps the limits.

    Example:
        The paper's defaults: K=3000 rounds cost R=10,000, of which b=2 a round.

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
    rounds, steps = _rounds_and_steps(fleet, limits)
    case = cases(rounds, steps, limits.deadline, limits.budget)
    sizes = np.floor(total_ceilings(fleet, limits, case) / len(fleet))  # (tau_max,)
    for start in range(0, steps.size, rows_at_once(fleet)):
        rows = np.arange(start, min(start + rows_at_once(fleet), steps.size))
        sizes[rows] = np.minimum(sizes[rows], batch_ceilings(fleet, case[rows]).min(axis=1))
    weight = (fleet.gradient_variance * fleet.share**2).sum()
    noise = np.divide(weight, sizes, out=np.full(steps.size, np.inf), where=sizes >= 1)
    best = int(np.argmin(evaluate(objective, geometry, rounds, steps, noise)))
    return predict(
        fleet,
        limits,
        geometry,
        objective,
        rounds=rounds,
        local_steps=best + 1,
        batch_sizes=np.full(len(fleet), int(sizes[best])),
        grain=len(fleet),
    )


def constant_time_plan(
    fleet: Fleet,
    limits: Limits,
    geometry: LossGeometry,
    objective: Objective = cumulative_bound,
) -> Plan:
    """Corollary 1: the best shares when a step takes as long whatever its batch size.

    s_i(tau) = floor(s_tot(tau) sqrt(M_i) D_i / sum_j sqrt(M_j) D_j), where a client has at
    least one sample and at most all of its own and the others share the rest in proportion.
    Rounding down leaves up to n samples unused, which ``cooptimize`` hands out.

    Args:
        fleet: Devices of ``samples_per_second=math.inf``, with t_ci as ``step_overhead``.
        limits: Deadline, budget, prices and rounds.
        geometry: How the loss behaves.
        objective: What to minimise, Theorem 1 unless another is given.

    Raises:
        Infeasible: Not even one local step on one sample a client keeps the limits.
    """
    if np.isfinite(fleet.samples_per_second).any():
        raise ValueError(
            "Fleet.samples_per_second must be infinite for a constant step time; "
            "use cooptimize for a fleet whose steps take longer on larger batches"
        )
    rounds, steps = _rounds_and_steps(fleet, limits)
    ones = np.ones(len(fleet))
    in_time = np.array(
        [(rounds * round_seconds(fleet, tau, ones)).max() <= limits.deadline for tau in steps]
    )
    totals = total_ceilings(fleet, limits, cases(rounds, steps, limits.deadline, limits.budget))
    affordable = totals >= len(fleet)
    roots = np.sqrt(fleet.gradient_variance) * fleet.share
    scales = _scales(roots, fleet.at_hand, totals)
    noise = np.full(steps.size, np.inf)
    for row in np.flatnonzero(in_time & affordable):
        noise[row] = (roots**2 / _shares(roots, fleet.at_hand, scales[row], totals[row])).sum()
    best = int(np.argmin(evaluate(objective, geometry, rounds, steps, noise)))
    return predict(
        fleet,
        limits,
        geometry,
        objective,
        rounds=rounds,
        local_steps=best + 1,
        batch_sizes=_shares(roots, fleet.at_hand, scales[best], totals[best]).astype(np.int64),
        grain=len(fleet),
    )


def _rounds_and_steps(fleet: Fleet, limits: Limits) -> tuple[int, IntArray]:
    if limits.rounds is None:
        raise ValueError("Limits.rounds is needed: the closed forms take the rounds as given")
    require_feasible(fleet, limits)
    return limits.rounds, np.arange(1, limits.max_local_steps + 1)


def _shares(roots: FloatArray, most: FloatArray, scale: float, total: float) -> FloatArray:
    """Shares in proportion to roots, rounded down, from one sample to the most, (n,)."""
    while True:
        # A share that is whole but for a rounding error stays whole.
        shares = np.asarray(np.clip(np.floor(scale * roots + 1e-9), 1.0, most))
        if shares.sum() <= total:
            return shares
        scale *= total / shares.sum() * (1 - 1e-12)  # roots so far apart that the scale was off


def _scales(roots: FloatArray, most: FloatArray, totals: FloatArray) -> FloatArray:
    """The x at which clip(x root_i, 1, most_i) sums to each total, at most to what there is.

    The sum is piecewise linear in x: it is tabulated where a client leaves 1 or reaches its
    most, and read backwards.
    """
    able = roots > 0
    if not able.any():
        return np.zeros(totals.shape)
    knots = np.concatenate([1 / roots[able], most[able] / roots[able]])
    change = np.concatenate([roots[able], -roots[able]])  # of the slope
    order = np.argsort(knots, kind="stable")
    slopes = np.maximum(np.cumsum(change[order]), 0.0)[:-1]
    x = knots[order]
    sums = roots.size + np.concatenate([[0.0], np.cumsum(slopes * np.diff(x))])
    return np.asarray(np.interp(totals, sums, x))
