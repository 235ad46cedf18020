"""Algorithm 1, CoOptFL: the exact optimum of local steps and of every client's batch size."""

from functools import partial

from dynamite_fl.plan._predict import predict
from dynamite_fl.plan._problem import cases
from dynamite_fl.plan._search import Search
from dynamite_fl.plan._sizing import batch_sizes, least_noise
from dynamite_fl.plan.bounds import Bound, Objective, cumulative_bound, evaluate
from dynamite_fl.plan.feasibility import require_feasible
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, LossGeometry, Plan


def cooptimize(
    fleet: Fleet,
    limits: Limits,
    geometry: LossGeometry,
    objective: Bound = cumulative_bound,
) -> Plan:
    """Return the plan of least error bound that keeps the limits.

    Args:
        fleet: The clients.
        limits: Deadline, budget and prices. With ``rounds=None``, the rounds are chosen too.
        geometry: The constants of the loss.
        objective: The bound to minimise. Default: Theorem 1. It takes arrays. It must not fall
            when noise rises. If rounds are chosen, it must fall, rise, or fall and then rise in
            the rounds, at given noise and local steps.

    Raises:
        Infeasible: Even one local step on one sample per client exceeds the limits.

    Example:
        >>> fleet = Fleet(
        ...     samples=[400, 1600],
        ...     gradient_variance=[2, 8],
        ...     samples_per_second=[50, 200],
        ...     comm_seconds=0.1,
        ... )
        >>> limits = Limits(
        ...     rounds=100, deadline=100, budget=300, cost_per_sample=0.01, cost_per_round=1
        ... )
        >>> geometry = LossGeometry(
        ...     learning_rate=0.01,
        ...     quadratic_bound=5,
        ...     smoothness=2,
        ...     pl_constant=0.2,
        ...     divergence=2,
        ...     loss_gap=2.3,
        ... )
        >>> plan = cooptimize(fleet, limits, geometry)
        >>> plan.local_steps, plan.batch_sizes.tolist(), plan.binding
        (10, [2, 18], ('budget', 'deadline'))
    """
    return best_plan(fleet, limits, partial(objective, geometry))


def best_plan(fleet: Fleet, limits: Limits, objective: Objective) -> Plan:
    """Return the plan of least objective that keeps the limits.

    For given rounds and local steps, the batch sizes are those of least gradient noise
    (``_allocate.py``). All local steps are compared (``_search.py``). Among equal plans, the one
    with the fewest rounds and then the fewest local steps is returned.

    Args:
        fleet: The clients.
        limits: Deadline, budget and prices. With ``rounds=None``, the rounds are chosen too.
        objective: The function of rounds, local steps and gradient noise to minimise. The
            conditions of ``cooptimize`` apply.

    Raises:
        Infeasible: Even one local step on one sample per client exceeds the limits.
    """
    require_feasible(fleet, limits)
    rounds, local_steps = Search(fleet, limits, objective).best()
    case = cases(rounds, local_steps, limits.deadline, limits.budget)
    return predict(
        fleet,
        limits,
        objective,
        rounds=rounds,
        local_steps=local_steps,
        batch_sizes=batch_sizes(fleet, limits, case),
    )


def bound_by_steps(
    fleet: Fleet,
    limits: Limits,
    geometry: LossGeometry,
    objective: Bound = cumulative_bound,
    *,
    rounds: int,
    local_steps: IntArray,
) -> FloatArray:
    """Return the least bound for each number of local steps. It is infinite if they do not fit."""
    noise = least_noise(fleet, limits, cases(rounds, local_steps, limits.deadline, limits.budget))
    return evaluate(partial(objective, geometry), rounds, local_steps, noise)
