"""Algorithm 1, CoOptFL: local steps and every client's own batch size, exactly."""

from dynamite_fl.plan.bound import Objective, cumulative_bound, evaluate
from dynamite_fl.plan.infeasible import require_feasible
from dynamite_fl.plan.predict import predict
from dynamite_fl.plan.problem import cases
from dynamite_fl.plan.search import Search
from dynamite_fl.plan.sizing import batch_sizes, least_noise
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, LossGeometry, Plan


def cooptimize(
    fleet: Fleet,
    limits: Limits,
    geometry: LossGeometry,
    objective: Objective = cumulative_bound,
) -> Plan:
    """The plan of least objective that keeps the limits.

    For given rounds and local steps, batch sizes are those of least gradient noise
    (``allocate.py``); all local steps compete (``search.py``). Of equal plans it is the one
    with the fewest rounds, then steps.

    Args:
        fleet: The devices.
        limits: Deadline, budget and prices. ``rounds=None`` has the rounds chosen too.
        geometry: How the loss behaves.
        objective: What to minimise, Theorem 1 unless another is given. It takes arrays, must
            not fall when noise rises, and, where rounds are chosen, must in the rounds (at given
            noise and local steps) only fall, only rise, or fall and then rise.

    Raises:
        Infeasible: Not even one local step on one sample a client keeps the limits.

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
    require_feasible(fleet, limits)
    rounds, local_steps = Search(fleet, limits, geometry, objective).best()
    case = cases(rounds, local_steps, limits.deadline, limits.budget)
    return predict(
        fleet,
        limits,
        geometry,
        objective,
        rounds=rounds,
        local_steps=local_steps,
        batch_sizes=batch_sizes(fleet, limits, case),
    )


def bound_by_steps(
    fleet: Fleet,
    limits: Limits,
    geometry: LossGeometry,
    objective: Objective = cumulative_bound,
    *,
    rounds: int,
    local_steps: IntArray,
) -> FloatArray:
    """The least objective for each of these local steps, infinite where they do not fit."""
    noise = least_noise(fleet, limits, cases(rounds, local_steps, limits.deadline, limits.budget))
    return evaluate(objective, geometry, rounds, local_steps, noise)
