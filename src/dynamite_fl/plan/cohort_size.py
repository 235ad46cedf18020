"""The best size of a cohort, by the appendix's bound for client selection."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from dynamite_fl._validate import check_number, check_whole
from dynamite_fl.errors import InvalidInput
from dynamite_fl.plan.bounds import cohort_bound
from dynamite_fl.plan.cooptfl import cooptimize
from dynamite_fl.plan.feasibility import Infeasible
from dynamite_fl.records import Fleet, Limits, LossGeometry, Plan


@dataclass(frozen=True, eq=False)
class CohortPlan:
    """A cohort size and the plan for it.

    Attributes:
        size: The number of clients in a round.
        plan: The plan. It has a batch size for every client, which it uses in rounds for which it
            is drawn. ``cost`` is the expected cost of all rounds.
    """

    size: int
    plan: Plan


def choose_cohort(
    fleet: Fleet,
    limits: Limits,
    geometry: LossGeometry,
    *,
    gradient_norm: float,
    cost_per_client: float = 0.0,
    sizes: Sequence[int] | None = None,
) -> CohortPlan:
    """Return the cohort size, local steps and batch sizes of least ``cohort_bound``.

    A small cohort costs less, so its clients can compute more. A large one represents all clients
    better: the appendix's bound has a term 4 tau^2 G^2 / m. Clients are drawn with equal chances,
    so a round of m out of n clients computes on m/n of all batches on average. The deadline holds
    for every client that may be drawn.

    Args:
        fleet: All clients.
        limits: Deadline, budget and prices. ``cost_per_round`` is what a round costs whatever its
            cohort.
        geometry: The constants of the loss.
        gradient_norm: G, the largest norm of a stochastic gradient.
        cost_per_client: What a round costs for each client of its cohort. The paper's price of a
            round, b = N/10, is 0.1 for each client.
        sizes: The sizes to choose from. Default: powers of two, and all clients.

    Raises:
        Infeasible: The limits allow no size.
        InvalidInput: The PL constant is 0, or a size is above the number of clients.

    Example:
        >>> fleet = Fleet(
        ...     samples=[100] * 64, gradient_variance=5, samples_per_second=50, comm_seconds=0.1
        ... )
        >>> limits = Limits(
        ...     rounds=100, deadline=900, budget=300, cost_per_sample=0.005, cost_per_round=0.2
        ... )
        >>> geometry = LossGeometry(
        ...     learning_rate=0.01,
        ...     quadratic_bound=5,
        ...     smoothness=2,
        ...     pl_constant=0.5,
        ...     divergence=2,
        ...     loss_gap=2.3,
        ... )
        >>> best = choose_cohort(fleet, limits, geometry, gradient_norm=1, cost_per_client=0.1)
        >>> best.size, best.plan.local_steps, best.plan.cost <= 300
        (16, 3, True)
    """
    check_number("gradient_norm", gradient_norm)
    check_number("cost_per_client", cost_per_client)
    if geometry.pl_constant == 0:
        raise InvalidInput("LossGeometry.pl_constant is 0: the bound for cohorts needs more")
    n = len(fleet)
    candidates = [2**power for power in range(n.bit_length()) if 2**power < n] + [n]
    plans, failure = [], None
    for size in candidates if sizes is None else sizes:
        check_whole("sizes", size, most=n)
        prices = replace(
            limits,
            cost_per_sample=limits.cost_per_sample * size / n,
            cost_per_round=limits.cost_per_round + cost_per_client * size,
        )
        bound = partial(cohort_bound, cohort=size, gradient_norm=gradient_norm)
        try:
            plans.append(CohortPlan(size, cooptimize(fleet, prices, geometry, bound)))
        except Infeasible as error:
            failure = failure or error
    if not plans:
        raise failure or InvalidInput("sizes is empty: give at least one")
    return min(plans, key=lambda candidate: candidate.plan.bound)
