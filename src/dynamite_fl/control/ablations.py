"""The paper's two ablations of DYNAMITE: fixed local steps, and one batch size for all clients."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl._validate import check_whole
from dynamite_fl.control.controller import Measure
from dynamite_fl.control.dynamite import (
    FIRST_BATCH,
    DynamiteState,
    check_settings,
    choose_rounds,
    learn,
    plan_before_probe,
)
from dynamite_fl.control.estimate.loss import (
    known_means,
    loss_geometry,
    nothing_measured,
    with_measured_variance,
)
from dynamite_fl.control.fitting import clip_batches, largest_batch
from dynamite_fl.plan._predict import predict
from dynamite_fl.plan.bounds import Bound, marginal_bound, tight_cumulative_bound
from dynamite_fl.plan.closed_forms import uniform_plan
from dynamite_fl.plan.cooptfl import cooptimize
from dynamite_fl.plan.feasibility import fit_rounds
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, LossGeometry, Plan
from dynamite_fl.reports import RoundReport


@dataclass(frozen=True, kw_only=True)
class StaticTau:
    """DYNAMITE with fixed local steps. Batch sizes minimise the marginal bound.

    Attributes:
        learning_rate: eta, the step size of local steps.
        local_steps: The local steps of every round.
        first_batch: The batch size before the first probe, or less if it does not fit.
        most_quadratic_bound: The largest rho of a client. If None, 1/eta.
    """

    learning_rate: float
    local_steps: int = 2
    first_batch: int = FIRST_BATCH
    most_quadratic_bound: float | None = None

    def __post_init__(self) -> None:
        check_settings(self.learning_rate, self.first_batch, self.most_quadratic_bound)
        check_whole("local_steps", self.local_steps)

    @property
    def measures(self) -> Measure:
        """The loss."""
        return "loss"

    def describe(self, state: DynamiteState) -> dict[str, float]:
        """Return the estimates of the loss that the last plan is based on."""
        return known_means(state.loss)

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, DynamiteState]:
        """Plan the fixed local steps and the same batch size for all clients."""
        steps = min(self.local_steps, limits.max_local_steps)
        plan = plan_before_probe(fleet.subset(cohort), limits, steps, self.first_batch)
        return plan, DynamiteState(nothing_measured(len(fleet)))

    def adapt(
        self,
        report: RoundReport,
        fleet: Fleet,
        remaining: Limits,
        cohort: IntArray,
        state: DynamiteState,
    ) -> tuple[Plan, DynamiteState]:
        """Plan the batch sizes of least marginal bound at the fixed local steps."""
        steps = min(self.local_steps, remaining.max_local_steps)
        state = learn(state, report, self.learning_rate, self.most_quadratic_bound)
        fleet = with_measured_variance(fleet, state.loss).subset(cohort)
        geometry = loss_geometry(known_means(state.loss), self.learning_rate)
        if geometry is None:
            return plan_before_probe(fleet, remaining, steps, self.first_batch), state
        outlook = _at_steps(steps, tight_cumulative_bound)
        state, remaining = choose_rounds(
            state, report.round_index, fleet, remaining, geometry, outlook
        )
        limits = fit_rounds(fleet, remaining, steps)
        return cooptimize(fleet, limits, geometry, _at_steps(steps, marginal_bound)), state


def _at_steps(local_steps: int, bound: Bound) -> Bound:
    """Return the bound with infinity at all other local steps."""

    def limited(
        geometry: LossGeometry, rounds: ArrayLike, steps: ArrayLike, noise: ArrayLike
    ) -> FloatArray:
        values = bound(geometry, rounds, steps, noise)
        return np.where(np.asarray(steps) == local_steps, values, np.inf)

    return limited


@dataclass(frozen=True, kw_only=True)
class UniformBatches:
    """DYNAMITE with the same batch size for all clients.

    Attributes:
        learning_rate: eta, the step size of local steps.
        first_batch: The batch size before the first probe, or less if it does not fit.
        most_quadratic_bound: The largest rho of a client. If None, 1/eta.
    """

    learning_rate: float
    first_batch: int = FIRST_BATCH
    most_quadratic_bound: float | None = None

    def __post_init__(self) -> None:
        check_settings(self.learning_rate, self.first_batch, self.most_quadratic_bound)

    @property
    def measures(self) -> Measure:
        """The loss."""
        return "loss"

    def describe(self, state: DynamiteState) -> dict[str, float]:
        """Return the estimates of the loss that the last plan is based on."""
        return known_means(state.loss)

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, DynamiteState]:
        """Plan one local step and the same batch size for all clients."""
        plan = plan_before_probe(fleet.subset(cohort), limits, 1, self.first_batch)
        return plan, DynamiteState(nothing_measured(len(fleet)))

    def adapt(
        self,
        report: RoundReport,
        fleet: Fleet,
        remaining: Limits,
        cohort: IntArray,
        state: DynamiteState,
    ) -> tuple[Plan, DynamiteState]:
        """Plan the local steps of least marginal bound and the largest batch size that fits."""
        state = learn(state, report, self.learning_rate, self.most_quadratic_bound)
        fleet = with_measured_variance(fleet, state.loss).subset(cohort)
        geometry = loss_geometry(known_means(state.loss), self.learning_rate)
        if geometry is None:
            return plan_before_probe(fleet, remaining, 1, self.first_batch), state
        state, remaining = choose_rounds(state, report.round_index, fleet, remaining, geometry)
        return _uniform(fleet, fit_rounds(fleet, remaining), geometry), state


def _uniform(fleet: Fleet, limits: Limits, geometry: LossGeometry) -> Plan:
    """Plan the local steps of Theorem 2 for Lemma 1, with the largest batch size that fits.

    In Theorem 2, no client has more samples than the client with the least data. Here, only that
    client has so few.
    """
    plan = uniform_plan(fleet, limits, geometry, marginal_bound)
    size = largest_batch(fleet, limits, plan.rounds, plan.local_steps)
    return predict(
        fleet,
        limits,
        partial(marginal_bound, geometry),
        rounds=plan.rounds,
        local_steps=plan.local_steps,
        batch_sizes=clip_batches(fleet, size),
        grain=len(fleet),
    )
