"""What most people do: one number of local steps and one batch size, guessed, for everyone."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.plan.bound import Objective, cumulative_bound
from dynamite_fl.plan.infeasible import require_room
from dynamite_fl.plan.predict import predict
from dynamite_fl.plan.problem import most_rounds, round_cost, round_seconds
from dynamite_fl.records import Fleet, Limits, LossGeometry, Plan


def fixed_plan(
    fleet: Fleet,
    limits: Limits,
    geometry: LossGeometry,
    objective: Objective = cumulative_bound,
    *,
    local_steps: int = 2,
    batch_size: ArrayLike = 60,
) -> Plan:
    """Given local steps and batch sizes for as many rounds as the limits allow.

    The defaults are FedAvg's in the paper. A batch size is for all, or one for each. A client
    with fewer samples uses all it has.

    Raises:
        Infeasible: Not one such round keeps the limits.
    """
    if local_steps < 1 or np.min(np.asarray(batch_size)) < 1:
        raise ValueError("local_steps and batch_size must be 1 or more")
    sizes = np.minimum(batch_size, fleet.at_hand).astype(np.int64)
    require_room(fleet, replace(limits, rounds=1), local_steps, sizes)
    seconds = float(round_seconds(fleet, local_steps, sizes).max())
    rounds = most_rounds(limits, seconds, float(round_cost(limits, local_steps, sizes.sum())))
    if math.isinf(rounds):
        raise ValueError("Limits.rounds is needed: neither deadline nor budget ends training")
    return predict(
        fleet,
        limits,
        geometry,
        objective,
        rounds=int(rounds),
        local_steps=local_steps,
        batch_sizes=sizes,
    )
