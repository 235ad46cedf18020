"""DYNAMITE, Algorithm 2: after every round, estimate the loss and plan the next round.

The paper passes the remaining deadline and budget to CoOptFL. We also pass the number of remaining
rounds (docs/paper.md). Otherwise every round would be planned as if it could use all that is left.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

from dynamite_fl._validate import check_number, check_whole
from dynamite_fl.control.controller import Measure
from dynamite_fl.control.estimate.loss import (
    LossEstimates,
    gradient_norm,
    known_means,
    loss_geometry,
    nothing_measured,
    update_loss,
    with_measured_variance,
)
from dynamite_fl.control.fitting import constant_plan, largest_batch
from dynamite_fl.plan.bounds import Bound, cohort_bound, marginal_bound, tight_cumulative_bound
from dynamite_fl.plan.cooptfl import cooptimize
from dynamite_fl.plan.feasibility import fit_rounds
from dynamite_fl.records import Fleet, IntArray, Limits, LossGeometry, Plan
from dynamite_fl.reports import RoundReport

FIRST_BATCH = 60  # the batch size before the first probe
_CHOICE_LASTS = 0.1  # for how many rounds a choice lasts, relative to past or planned rounds


@dataclass(frozen=True, eq=False)
class DynamiteState:
    """What DYNAMITE has learned.

    Attributes:
        loss: The estimates of the loss.
        open_rounds: The number of rounds to play after the round ``chosen_at``, chosen by the
            controller if the limits give none. It is 0 before the first choice.
        chosen_at: The index of the round after which ``open_rounds`` was chosen.
    """

    loss: LossEstimates
    open_rounds: int = 0
    chosen_at: int = 0


@dataclass(frozen=True, kw_only=True)
class Dynamite:
    """Minimises the marginal bound (Lemma 1) over local steps and batch sizes, in every round.

    Before the first probe, it uses one local step and the same batch size for all clients. If the
    limits give no number of rounds, it chooses the number of the best plan for all that remains
    (Theorem 1, tight). It chooses again when a tenth of this number has passed, or a tenth of the
    rounds before the choice if that is less. If the remaining rounds no longer fit, it continues
    with as many as fit. If only a cohort of the clients takes part in a round, it minimises the
    appendix's bound for client selection instead of both other bounds.

    Attributes:
        first_batch: The batch size before the first probe, or less if it does not fit.
        most_quadratic_bound: The largest rho_i of a client; larger measurements are reduced to it.
            The default None stands for 1/eta, which is measured if the two models are one local
            step apart: then |w_i - w| = eta |g|, and rho_i = |g| |w_i - w| / |w_i - w|^2 = 1/eta.
            A larger measurement means only that the two models are closer than one step. It says
            nothing about the loss.

    Example:
        >>> import numpy as np
        >>> fleet = Fleet(
        ...     samples=[400, 1600],
        ...     gradient_variance=[2, 8],
        ...     samples_per_second=[50, 200],
        ...     comm_seconds=0.1,
        ... )
        >>> limits = Limits(
        ...     rounds=100, deadline=100, budget=300, cost_per_sample=0.01, cost_per_round=1
        ... )
        >>> plan, _ = Dynamite().start(fleet, limits, np.array([0, 1]))
        >>> plan.rounds, plan.local_steps, plan.batch_sizes
        (100, 1, array([45, 45]))
    """

    first_batch: int = FIRST_BATCH
    most_quadratic_bound: float | None = None

    def __post_init__(self) -> None:
        check_whole("first_batch", self.first_batch)
        if self.most_quadratic_bound is not None:
            check_number("most_quadratic_bound", self.most_quadratic_bound, positive=True)

    @property
    def measures(self) -> Measure:
        """The loss."""
        return "loss"

    def describe(self, state: DynamiteState) -> dict[str, float]:
        """Return the estimates of the loss that the last plan is based on."""
        return known_means(state.loss)

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, DynamiteState]:
        """Plan the same batch size for all clients, and few local steps."""
        steps = self._least_steps(limits)
        plan = _plan_before_probe(fleet.subset(cohort), limits, steps, self.first_batch)
        return plan, DynamiteState(nothing_measured(len(fleet)))

    def adapt(
        self,
        report: RoundReport,
        fleet: Fleet,
        remaining: Limits,
        cohort: IntArray,
        state: DynamiteState,
    ) -> tuple[Plan, DynamiteState]:
        """Plan the next round of least marginal bound."""
        most = self.most_quadratic_bound or 1 / report.learning_rate
        state = replace(state, loss=update_loss(state.loss, report, most))
        clients = len(fleet)
        fleet = with_measured_variance(fleet, state.loss).subset(cohort)
        geometry = loss_geometry(known_means(state.loss), report.learning_rate)
        steps = self._least_steps(remaining)
        if geometry is None:
            return _plan_before_probe(fleet, remaining, steps, self.first_batch), state
        of_round, of_training = _bounds(state.loss, geometry, cohort.size, clients)
        state, remaining = _choose_rounds(
            state,
            report.round_index,
            fleet,
            remaining,
            geometry,
            self._restricted(of_training, remaining),
        )
        fitting = fit_rounds(fleet, remaining, steps)
        return self._best_plan(fleet, fitting, geometry, of_round), state

    # What the ablations (ablations.py) replace

    def _least_steps(self, limits: Limits) -> int:  # noqa: ARG002  an ablation needs them
        """Return the fewest local steps that a plan may have."""
        return 1

    def _restricted(self, bound: Bound, limits: Limits) -> Bound:  # noqa: ARG002
        """Return the bound, infinite for local steps that a plan may not have."""
        return bound

    def _best_plan(
        self, fleet: Fleet, limits: Limits, geometry: LossGeometry, bound: Bound
    ) -> Plan:
        """Return the plan of least bound."""
        return cooptimize(fleet, limits, geometry, self._restricted(bound, limits))


def _bounds(
    loss: LossEstimates, geometry: LossGeometry, cohort: int, clients: int
) -> tuple[Bound, Bound]:
    """Return the bounds by which a round and a whole training are planned.

    Args:
        loss: The estimates of the loss.
        geometry: The constants of the loss.
        cohort: The number of clients in a round.
        clients: The number of all clients.
    """
    norm = gradient_norm(loss)
    if cohort == clients or geometry.pl_constant == 0 or not math.isfinite(norm):
        return marginal_bound, tight_cumulative_bound
    bound = partial(cohort_bound, cohort=cohort, gradient_norm=norm)
    return bound, bound


def _plan_before_probe(fleet: Fleet, limits: Limits, local_steps: int, batch_size: int) -> Plan:
    """Plan the given batch size for all clients, or the largest with which the rounds fit."""
    fitting = fit_rounds(fleet, limits, local_steps)
    largest = largest_batch(fleet, fitting, fitting.rounds or 1, local_steps)
    return constant_plan(fleet, fitting, local_steps, min(batch_size, largest))


def _choose_rounds(
    state: DynamiteState,
    round_index: int,
    fleet: Fleet,
    remaining: Limits,
    geometry: LossGeometry,
    bound: Bound,
) -> tuple[DynamiteState, Limits]:
    """Return the remaining limits with a number of rounds, and the state with the choice.

    Limits that already have a number of rounds stay as they are.
    """
    if remaining.rounds is not None:
        return state, remaining
    passed = round_index - state.chosen_at
    if passed >= _CHOICE_LASTS * min(state.chosen_at, state.open_rounds):
        rounds = cooptimize(fleet, remaining, geometry, bound).rounds
        state = replace(state, open_rounds=rounds, chosen_at=round_index)
    rounds_left = state.open_rounds - (round_index - state.chosen_at)
    return state, replace(remaining, rounds=rounds_left)
