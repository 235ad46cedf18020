"""DYNAMITE's decisions, Algorithm 2: estimate, then plan one round ahead, every round.

The paper passes CoOptFL what remains of deadline and budget; the rounds that remain belong to
them (docs/paper.md), else every round would be planned as if it had all that is left.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.control.controller import Measure
from dynamite_fl.control.estimate import (
    LossEstimates,
    gradient_variance,
    known_means,
    loss_geometry,
    nothing_measured,
    observe,
)
from dynamite_fl.control.rounds import capped, largest_batch, repeated, within
from dynamite_fl.control.settings import require_memory, require_positive, require_whole
from dynamite_fl.control.system import MEMORY, System, as_fleet, first_guess, update
from dynamite_fl.plan.bound import Objective, marginal_bound, tight_cumulative_bound
from dynamite_fl.plan.cooptfl import cooptimize
from dynamite_fl.plan.predict import predict
from dynamite_fl.plan.uniform import uniform_plan
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, LossGeometry, Plan
from dynamite_fl.reports import RoundReport

_CHOICE_LASTS = 0.1  # of the rounds behind and ahead, until open rounds are chosen anew

Variant = Literal["full", "static-tau", "uniform"]


@dataclass(frozen=True, eq=False)
class DynamiteState:
    """What DYNAMITE has learned: of the clients' speeds and of the loss.

    Attributes:
        system: The clients.
        loss: The loss.
        open_rounds: Where the rounds are open, how many it wants still to do; 0 before that
            is known.
        chosen_at: After which round it chose them.
    """

    system: System
    loss: LossEstimates
    open_rounds: int = 0
    chosen_at: int = 0


@dataclass(frozen=True, kw_only=True)
class Dynamite:
    """Local steps and batch sizes of the least marginal bound (Lemma 1), anew each round.

    Until the loss was probed: one local step, and one batch size for all. Where the rounds are
    open, those of the best plan for all that remains (Theorem 1, tight) are taken, and chosen anew
    when a tenth of them or of those behind is over. Where the rounds that remain no longer fit, it
    goes on with as many as do.

    Attributes:
        learning_rate: eta.
        first_batch: The batch size until the loss was probed, less where that does not fit.
        variant: ``full``; ``static-tau`` keeps the local steps fixed and ``uniform`` has one
            batch size for all, the paper's two ablations.
        local_steps: The local steps of ``static-tau``.
        memory: What a measured time counts one round later.
        most_quadratic_bound: The cap of a client's rho. If None, 1/eta: models one local step
            apart, |w_i - w| = eta |g|, show |g| |w_i - w| / |w_i - w|^2 = 1/eta; more says that
            models met, and nothing about the loss.

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
        >>> plan, _ = Dynamite(learning_rate=0.01).start(fleet, limits, np.array([0, 1]))
        >>> plan.rounds, plan.local_steps, plan.batch_sizes
        (100, 1, array([45, 45]))
    """

    learning_rate: float
    first_batch: int = 60
    variant: Variant = "full"
    local_steps: int = 2
    memory: float = MEMORY
    most_quadratic_bound: float | None = None

    def __post_init__(self) -> None:
        require_positive("learning_rate", self.learning_rate)
        require_whole("first_batch", self.first_batch)
        require_whole("local_steps", self.local_steps)
        require_memory(self.memory)
        if self.most_quadratic_bound is not None:
            require_positive("most_quadratic_bound", self.most_quadratic_bound)
        if self.variant not in get_args(Variant):
            raise ValueError(f"variant is {self.variant!r}: use one of {get_args(Variant)}")

    @property
    def measures(self) -> Measure:
        """The loss: all estimates of the loss come from probes."""
        return "loss"

    def describe(self, state: DynamiteState) -> dict[str, float]:
        """The estimates of the loss that the last plan rests on."""
        return known_means(state.loss)

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, DynamiteState]:
        """One local step and one batch size for all."""
        state = DynamiteState(first_guess(fleet), nothing_measured(fleet))
        guess = as_fleet(state.system, cohort, fleet.gradient_variance, fleet.name)
        return self._before_probe(guess, limits), state

    def adapt(
        self, report: RoundReport, remaining: Limits, cohort: IntArray, state: DynamiteState
    ) -> tuple[Plan, DynamiteState]:
        """The best next round by what is now known."""
        cap = self.most_quadratic_bound or 1 / self.learning_rate
        state = replace(
            state,
            system=update(state.system, report, self.memory),
            loss=observe(state.loss, report, cap),
        )
        fleet = as_fleet(state.system, cohort, gradient_variance(state.loss))
        geometry = loss_geometry(state.loss, self.learning_rate)
        if geometry is None:
            return self._before_probe(fleet, remaining), state
        fixed = self._fixed_steps(remaining)
        if remaining.rounds is None:
            state = self._with_rounds(state, fleet, remaining, geometry, report.round_index)
            passed = report.round_index - state.chosen_at
            remaining = replace(remaining, rounds=state.open_rounds - passed)
        limits = within(fleet, remaining, fixed or 1)
        if self.variant == "uniform":
            return _uniform(fleet, limits, geometry), state
        return cooptimize(fleet, limits, geometry, _only(fixed, marginal_bound)), state

    def _before_probe(self, fleet: Fleet, limits: Limits) -> Plan:
        steps = self._fixed_steps(limits) or 1
        fitting = within(fleet, limits, steps)
        size = largest_batch(fleet, fitting, fitting.rounds or 1, steps)
        return repeated(fleet, fitting, steps, min(self.first_batch, size))

    def _with_rounds(
        self,
        state: DynamiteState,
        fleet: Fleet,
        limits: Limits,
        geometry: LossGeometry,
        round_index: int,
    ) -> DynamiteState:
        """The state with the rounds of the best plan, chosen anew if that is due."""
        passed = round_index - state.chosen_at
        if passed < _CHOICE_LASTS * min(state.chosen_at, state.open_rounds):
            return state
        fixed = self._fixed_steps(limits)
        plan = cooptimize(fleet, limits, geometry, _only(fixed, tight_cumulative_bound))
        return replace(state, open_rounds=plan.rounds, chosen_at=round_index)

    def _fixed_steps(self, limits: Limits) -> int | None:
        if self.variant != "static-tau":
            return None
        return min(self.local_steps, limits.max_local_steps)


def _only(local_steps: int | None, objective: Objective) -> Objective:
    """The objective, infinite for all other local steps; as it is if None."""
    if local_steps is None:
        return objective

    def limited(
        geometry: LossGeometry, rounds: ArrayLike, steps: ArrayLike, noise: ArrayLike
    ) -> FloatArray:
        values = objective(geometry, rounds, steps, noise)
        return np.where(np.asarray(steps) == local_steps, values, np.inf)

    return limited


def _uniform(fleet: Fleet, limits: Limits, geometry: LossGeometry) -> Plan:
    """Theorem 2's local steps by Lemma 1, and the largest batch size that fits with them.

    Theorem 2 gives everyone as few samples as the client with the least data; here only that
    client has so few.
    """
    plan = uniform_plan(fleet, limits, geometry, marginal_bound)
    size = largest_batch(fleet, limits, plan.rounds, plan.local_steps)
    return predict(
        fleet,
        limits,
        geometry,
        marginal_bound,
        rounds=plan.rounds,
        local_steps=plan.local_steps,
        batch_sizes=capped(fleet, size),
        grain=len(fleet),
    )
