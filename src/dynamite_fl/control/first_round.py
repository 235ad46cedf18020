"""The first round, when nothing is known yet about what rounds gain."""

import math
from dataclasses import replace

from dynamite_fl.control.fitting import constant_plan, largest_batch
from dynamite_fl.records import Fleet, Limits, Plan

_STEPS = 64  # the local steps, if the limits allow
_FEW_ROUNDS = 20  # a training of fewer rounds has a longer first round
_LARGEST_BATCH, _SMALLEST_BATCH = 16, 4  # with smaller batches, fewer steps are better
_SHARE = 0.02  # the share of the limits that the round may use, unless fewer rounds are planned


def long_first_plan(fleet: Fleet, limits: Limits, least_steps: int) -> Plan | None:
    """Return a plan of many local steps that uses a fair share of the limits.

    A long first round gains most of what can be gained without knowing anything, and its two
    halves show what shorter and longer rounds gain.

    Args:
        fleet: The clients of the round.
        limits: The limits of the whole training.
        least_steps: The least number of local steps of such a plan.

    Returns:
        The plan; None if the limits do not allow more than the least steps.

    Example:
        >>> fleet = Fleet(
        ...     samples=[300, 900], gradient_variance=1, samples_per_second=100, comm_seconds=0.2
        ... )
        >>> limits = Limits(
        ...     rounds=20, deadline=300, budget=1e3, cost_per_sample=0.01, cost_per_round=1
        ... )
        >>> plan = long_first_plan(fleet, limits, 4)
        >>> plan.local_steps, plan.batch_sizes
        (64, array([16, 16]))
    """
    rounds = limits.rounds or _FEW_ROUNDS
    share = max(1 / rounds, _SHARE)
    fair = replace(limits, deadline=share * limits.deadline, budget=share * limits.budget)
    steps = min(math.ceil(_STEPS * max(_FEW_ROUNDS / rounds, 1)), limits.max_local_steps)
    least = max(_SMALLEST_BATCH, int(fleet.least_batches.max()))
    while steps > least_steps:
        batch = largest_batch(fleet, fair, 1, steps)
        if batch >= least:
            return constant_plan(fleet, limits, steps, min(batch, max(_LARGEST_BATCH, least)))
        steps //= 2
    return None
