"""A constant plan: the given local steps and batch sizes in every round, without optimisation."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.errors import InvalidInput
from dynamite_fl.plan._predict import predict
from dynamite_fl.plan._problem import round_cost, round_seconds
from dynamite_fl.plan.bounds import Bound, cumulative_bound
from dynamite_fl.plan.feasibility import most_rounds, require_room
from dynamite_fl.records import Fleet, FloatArray, Limits, LossGeometry, Plan


def fixed_plan(
    fleet: Fleet,
    limits: Limits,
    geometry: LossGeometry | None = None,
    objective: Bound = cumulative_bound,
    *,
    local_steps: int = 2,
    batch_size: ArrayLike = 60,
) -> Plan:
    """Return a plan of given local steps and batch sizes for as many rounds as the limits allow.

    Args:
        fleet: The clients. A client with fewer samples than its batch size uses all it has.
        limits: Deadline, budget and prices.
        geometry: The constants of the loss. If None, the plan's bound is NaN.
        objective: The bound to compute. Default: Theorem 1.
        local_steps: The local steps of a round. The default is the paper's for FedAvg.
        batch_size: One batch size for all clients, or one for each.

    Raises:
        Infeasible: The limits do not allow one such round.
        InvalidInput: A value is below 1, or no limit ends the training.
    """
    if local_steps < 1 or np.min(np.asarray(batch_size)) < 1:
        raise InvalidInput("local_steps and batch_size must be 1 or more")
    sizes = np.minimum(batch_size, fleet.at_hand).astype(np.int64)
    require_room(fleet, replace(limits, rounds=1), local_steps, sizes)
    seconds = float(round_seconds(fleet, local_steps, sizes).max())
    rounds = most_rounds(limits, seconds, float(round_cost(limits, local_steps, sizes.sum())))
    if math.isinf(rounds):
        raise InvalidInput("Limits.rounds is needed: neither deadline nor budget ends training")
    return predict(
        fleet,
        limits,
        _no_objective if geometry is None else partial(objective, geometry),
        rounds=int(rounds),
        local_steps=local_steps,
        batch_sizes=sizes,
    )


def _no_objective(_rounds: ArrayLike, _local_steps: ArrayLike, _noise: ArrayLike) -> FloatArray:
    return np.asarray(np.nan)
