"""Batch sizes that fit the limits, for controllers that do not optimise a bound."""

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.plan._problem import round_cost, round_seconds
from dynamite_fl.plan.fixed import fixed_plan
from dynamite_fl.records import Fleet, IntArray, Limits, Plan


def clip_batches(fleet: Fleet, batch_sizes: ArrayLike) -> IntArray:
    """Limit batch sizes to at least one sample and at most the client's data, shape (n,)."""
    return np.clip(batch_sizes, 1.0, fleet.at_hand).astype(np.int64)


def constant_plan(fleet: Fleet, limits: Limits, local_steps: int, batch_sizes: ArrayLike) -> Plan:
    """Return a plan of these local steps and batch sizes for as many rounds as the limits allow.

    Local steps are limited by ``max_local_steps``, and batch sizes by ``clip_batches``. The plan's
    bound is NaN.

    Raises:
        Infeasible: The limits do not allow one such round.

    Example:
        >>> fleet = Fleet(
        ...     samples=[30, 90], gradient_variance=1, samples_per_second=100, comm_seconds=0.8
        ... )
        >>> limits = Limits(deadline=99, budget=100, cost_per_sample=0.01, cost_per_round=0.2)
        >>> plan = constant_plan(fleet, limits, 2, 60)  # a round takes 2 s and costs 2
        >>> plan.rounds, plan.batch_sizes
        (49, array([30, 60]))
    """
    return fixed_plan(
        fleet,
        limits,
        local_steps=min(local_steps, limits.max_local_steps),
        batch_size=clip_batches(fleet, batch_sizes),
    )


def largest_batch(fleet: Fleet, limits: Limits, rounds: int, local_steps: int) -> int:
    """Return the largest common batch size with which so many rounds fit.

    It is s(tau) of Theorem 2, except that clients with less data use all they have and do not limit
    the others. It is 0 if not even one sample per client fits.

    Example:
        >>> fleet = Fleet(
        ...     samples=[5, 90], gradient_variance=1, samples_per_second=100, comm_seconds=0
        ... )
        >>> limits = Limits(deadline=1000, budget=100, cost_per_sample=0.01, cost_per_round=0)
        >>> largest_batch(fleet, limits, 100, 2)  # 50 samples per step, 5 of the first client
        45
    """

    def fits(size: int) -> bool:
        sizes = clip_batches(fleet, size)
        seconds = rounds * round_seconds(fleet, local_steps, sizes).max()
        cost = rounds * round_cost(limits, local_steps, sizes.sum())
        return bool(seconds <= limits.deadline and cost <= limits.budget)

    low, high = 0, int(fleet.at_hand.max())
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
