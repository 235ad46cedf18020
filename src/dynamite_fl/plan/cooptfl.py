"""Algorithm 1, CoOptFL: the best number of local steps and the best batch size of every client.

The result is the exact optimum. ``cooptfl_as_printed.py`` has the algorithm as the paper prints it.
"""

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
    """Return the plan with the smallest error bound that keeps the limits.

    Args:
        fleet: The clients.
        limits: Deadline, budget and prices. With ``rounds=None``, the planner chooses the number of
            rounds too.
        geometry: The constants of the loss.
        objective: The bound to minimise. Default: Theorem 1. A bound of your own must accept
            arrays, and it must not fall if the noise rises. If the planner chooses the rounds, the
            bound must have only one valley as a function of the rounds: it may fall at first and
            rise later, but not fall again.

    Raises:
        Infeasible: Even one local step on the least batch of every client exceeds the limits.

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
    """Return the plan with the smallest objective that keeps the limits.

    For given rounds and local steps, the best batch sizes are those of least gradient noise
    (``_sizing.py``). So the search (``_search.py``) only has to compare numbers of local steps, and
    numbers of rounds if they are not given. Of equally good plans, it returns the one with the
    fewest rounds, and of these the one with the fewest local steps.

    Args:
        fleet: The clients.
        limits: Deadline, budget and prices. With ``rounds=None``, the planner chooses the number of
            rounds too.
        objective: The function of rounds, local steps and gradient noise to minimise. It must meet
            the same conditions as the bound of ``cooptimize``.

    Raises:
        Infeasible: Even one local step on the least batch of every client exceeds the limits.
    """
    require_feasible(fleet, limits)
    rounds, local_steps = Search(fleet, limits, objective).best()
    best_case = cases(rounds, local_steps, limits.deadline, limits.budget)
    return predict(
        fleet,
        limits,
        objective,
        rounds=rounds,
        local_steps=local_steps,
        batch_sizes=batch_sizes(fleet, limits, best_case),
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
    """Return the smallest bound for each number of local steps, or infinity if it does not fit."""
    all_cases = cases(rounds, local_steps, limits.deadline, limits.budget)
    noise = least_noise(fleet, limits, all_cases)
    return evaluate(partial(objective, geometry), rounds, local_steps, noise)
