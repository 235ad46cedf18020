"""The paper's own Algorithm 1, line by line, for comparison.

Only slips that would make it meaningless are corrected (docs/paper.md): the K missing from
s_tot; the M_i missing from the fill step, which the paper's text and proof have; and the test of
the fill step, which here comes before its body so that it does not overshoot. The ceilings and
the total are the whole numbers of our own planner, and the gain of a client's first sample is
infinite.

The paper claims that this algorithm is exact. It is not: it can miss the optimum, and it can leave
a client without a sample. Use ``cooptimize``.
"""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from dynamite_fl.errors import InvalidInput
from dynamite_fl.plan._predict import predict
from dynamite_fl.plan._problem import batch_ceilings, cases, total_ceilings
from dynamite_fl.plan.bounds import Bound, cumulative_bound
from dynamite_fl.plan.feasibility import require_feasible
from dynamite_fl.records import Fleet, Limits, LossGeometry, Plan


def printed_cooptfl(
    fleet: Fleet,
    limits: Limits,
    geometry: LossGeometry,
    objective: Bound = cumulative_bound,
) -> Plan:
    """Return the best plan that the printed Algorithm 1 finds.

    Local steps at which it leaves a client without a sample, or below its least batch, are skipped.

    Raises:
        Infeasible: Even one local step on one sample per client exceeds the limits.
        InvalidInput: The rounds are not given, or a client has no sample at any local steps.
    """
    if limits.rounds is None:
        raise InvalidInput("Limits.rounds is needed: the printed algorithm takes them as given")
    require_feasible(fleet, limits)
    plans = []
    for tau in range(1, limits.max_local_steps + 1):
        case = cases(limits.rounds, tau, limits.deadline, limits.budget)
        sizes = printed_split(
            fleet.gradient_variance.tolist(),
            fleet.samples.tolist(),
            batch_ceilings(fleet, case)[0].tolist(),
            float(total_ceilings(fleet, limits, case)[0]),
        )
        if (np.array(sizes) >= fleet.least_batches).all():
            plan = predict(
                fleet,
                limits,
                partial(objective, geometry),
                rounds=limits.rounds,
                local_steps=tau,
                batch_sizes=np.array(sizes, dtype=np.int64),
            )
            plans.append(plan)
    if not plans:
        raise InvalidInput(
            "the printed algorithm leaves a client without a sample, whatever the local steps"
        )
    return min(plans, key=lambda plan: plan.bound)


def printed_split(
    variance: Sequence[float], samples: Sequence[float], ceilings: Sequence[float], total: float
) -> list[int]:
    """Return the batch sizes of the paper's lines 2 to 17 for one number of local steps.

    Example:
        Five samples are split among four clients, and one of them gets none:

        >>> printed_split([100, 1, 1, 1], [1, 1, 1, 1], [9, 9, 9, 9], 5)
        [3, 1, 1, 0]
    """
    weight = [math.sqrt(m) * d for m, d in zip(variance, samples, strict=True)]
    size = [0] * len(weight)
    open_ = list(range(len(weight)))  # C
    remaining = total  # s_r
    flag = True
    while flag and open_:
        flag = False
        open_weight = sum(weight[i] for i in open_)
        for i in list(open_):
            size[i] = math.floor(remaining * weight[i] / open_weight) if open_weight > 0 else 0
            if size[i] >= ceilings[i]:
                size[i] = int(ceilings[i])
                remaining -= size[i]
                open_.remove(i)
                open_weight -= weight[i]
                flag = True
    spare = total - sum(size)
    while spare > 0 and open_:
        i = max(open_, key=lambda i: _gain(variance[i] * samples[i] ** 2, size[i]))
        size[i] += 1
        spare -= 1
        if size[i] >= ceilings[i]:
            open_.remove(i)
    return size


def _gain(weight: float, size: int) -> float:
    """Return by how much one more sample lowers the noise: infinitely for the first sample."""
    return weight / (size * (size + 1)) if size else math.inf
