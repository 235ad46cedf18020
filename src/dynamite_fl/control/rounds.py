"""What every controller needs: batch sizes that fit, and how many rounds of them do."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.plan.fixed import fixed_plan
from dynamite_fl.plan.infeasible import Infeasible, require_room
from dynamite_fl.plan.problem import round_cost, round_seconds
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, LossGeometry, Plan

NOT_KNOWN = LossGeometry(
    learning_rate=1.0,
    quadratic_bound=0.0,
    smoothness=0.0,
    pl_constant=0.0,
    divergence=0.0,
    loss_gap=0.0,
)


def capped(fleet: Fleet, batch_sizes: ArrayLike) -> IntArray:
    """These batch sizes, at least one sample and at most what a client has, (n,)."""
    return np.clip(batch_sizes, 1.0, fleet.at_hand).astype(np.int64)


def repeated(fleet: Fleet, limits: Limits, local_steps: int, batch_sizes: ArrayLike) -> Plan:
    """These local steps and batch sizes, capped, for as many rounds as the limits allow.

    Nothing is said of the loss: the plan's bound is NaN.

    Raises:
        Infeasible: Not one such round keeps the limits.

    Example:
        >>> fleet = Fleet(
        ...     samples=[30, 90], gradient_variance=1, samples_per_second=100, comm_seconds=0.8
        ... )
        >>> limits = Limits(deadline=99, budget=100, cost_per_sample=0.01, cost_per_round=0.2)
        >>> plan = repeated(fleet, limits, 2, 60)  # a round takes 2 s and costs 2
        >>> plan.rounds, plan.batch_sizes
        (49, array([30, 60]))
    """
    return fixed_plan(
        fleet,
        limits,
        NOT_KNOWN,
        _no_bound,
        local_steps=min(local_steps, limits.max_local_steps),
        batch_size=capped(fleet, batch_sizes),
    )


def largest_batch(fleet: Fleet, limits: Limits, rounds: int, local_steps: int) -> int:
    """The largest batch size for all, capped by each client's data, that so many rounds fit.

    Theorem 2's s(tau), except that a client of little data does not hold the others back.
    0 if not even one sample a client fits.

    Example:
        >>> fleet = Fleet(
        ...     samples=[5, 90], gradient_variance=1, samples_per_second=100, comm_seconds=0
        ... )
        >>> limits = Limits(deadline=1000, budget=100, cost_per_sample=0.01, cost_per_round=0)
        >>> largest_batch(fleet, limits, 100, 2)  # 50 samples a step, 5 of them the first's
        45
    """

    def fits(size: int) -> bool:
        sizes = capped(fleet, size)
        seconds = rounds * round_seconds(fleet, local_steps, sizes).max()
        cost = rounds * round_cost(limits, local_steps, sizes.sum())
        return bool(seconds <= limits.deadline and cost <= limits.budget)

    low, high = 0, int(fleet.at_hand.max())
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def within(fleet: Fleet, limits: Limits, local_steps: int = 1) -> Limits:
    """The limits, with fewer rounds where not all fit with one sample a client.

    Raises:
        Infeasible: Not one round fits.
    """
    try:
        require_room(fleet, limits, local_steps, np.ones(len(fleet), dtype=np.int64))
    except Infeasible as error:
        if error.rounds == 0:
            raise
        return replace(limits, rounds=error.rounds)
    return limits


def _no_bound(
    geometry: LossGeometry,  # noqa: ARG001  what an objective takes
    rounds: ArrayLike,  # noqa: ARG001
    local_steps: ArrayLike,  # noqa: ARG001
    gradient_noise: ArrayLike,  # noqa: ARG001
) -> FloatArray:
    return np.asarray(np.nan)
