"""CoOptFL: Algorithm 1 once, before training, from what a pilot run measured."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.control.controller import Measure
from dynamite_fl.control.rounds import repeated, within
from dynamite_fl.control.settings import require_memory
from dynamite_fl.control.system import MEMORY, System, as_fleet, first_guess, update
from dynamite_fl.plan.bound import Objective, cumulative_bound
from dynamite_fl.plan.cooptfl import cooptimize
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, LossGeometry, Plan
from dynamite_fl.reports import RoundReport


@dataclass(frozen=True, eq=False)
class CoOptFLState:
    """What was known at the start, and the system to foresee whether a round fits.

    Attributes:
        offline: The clients as the plan takes them to be.
        variance: M_i as the plan takes it to be, (n,).
        limits: The limits of the whole training, with the rounds that were planned.
        system: The clients as measured since.
    """

    offline: System
    variance: FloatArray
    limits: Limits
    system: System


@dataclass(frozen=True, kw_only=True, eq=False)
class CoOptFL:
    """The plan of the least bound for the whole training (Theorem 1), then kept.

    A cohort's plan depends on the cohort and on what was known at the start, on nothing that
    happens: whenever the same clients take part, they do the same.

    Attributes:
        geometry: How the loss behaves, as the pilot run showed.
        gradient_variance: M_i from the pilot run, (n,) or one number; the fleet's if None.
        samples_per_second: p_i from the pilot run; the fleet's if None.
        step_overhead: The same for the overhead.
        comm_seconds: The same for t_ui.
        objective: What to minimise.
        memory: What a measured time counts one round later.
    """

    geometry: LossGeometry
    gradient_variance: ArrayLike | None = None
    samples_per_second: ArrayLike | None = None
    step_overhead: ArrayLike | None = None
    comm_seconds: ArrayLike | None = None
    objective: Objective = cumulative_bound
    memory: float = MEMORY

    def __post_init__(self) -> None:
        require_memory(self.memory)

    @property
    def measures(self) -> Measure:
        """No: the pilot run has measured the loss."""
        return "nothing"

    def describe(self, state: CoOptFLState) -> dict[str, float]:  # noqa: ARG002  a controller takes it
        """Nothing: it learns nothing of the loss."""
        return {}

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, CoOptFLState]:
        """Algorithm 1, for the first cohort."""
        pilot = self._piloted(fleet)
        offline = first_guess(pilot)
        cohort_fleet = as_fleet(offline, cohort, pilot.gradient_variance, fleet.name)
        plan = self._offline_plan(cohort_fleet, limits)
        planned = replace(limits, rounds=plan.rounds)
        return plan, CoOptFLState(offline, pilot.gradient_variance, planned, first_guess(fleet))

    def adapt(
        self, report: RoundReport, remaining: Limits, cohort: IntArray, state: CoOptFLState
    ) -> tuple[Plan, CoOptFLState]:
        """The offline plan of the next cohort."""
        state = replace(state, system=update(state.system, report, self.memory))
        plan = self._offline_plan(as_fleet(state.offline, cohort, state.variance), state.limits)
        fleet = as_fleet(state.system, cohort, state.variance)
        kept = repeated(fleet, remaining, plan.local_steps, plan.batch_sizes)
        return replace(kept, bound=plan.bound), state

    def _offline_plan(self, fleet: Fleet, limits: Limits) -> Plan:
        return cooptimize(fleet, within(fleet, limits), self.geometry, self.objective)

    def _piloted(self, fleet: Fleet) -> Fleet:
        """The fleet, with what the pilot run measured of it."""

        def either(name: str) -> ArrayLike:
            measured: ArrayLike | None = getattr(self, name)
            given: FloatArray = getattr(fleet, name)
            return given if measured is None else np.asarray(measured, dtype=np.float64)

        return Fleet(
            samples=fleet.samples,
            gradient_variance=either("gradient_variance"),
            samples_per_second=either("samples_per_second"),
            step_overhead=either("step_overhead"),
            comm_seconds=either("comm_seconds"),
            buffer_size=fleet.buffer_size,
            name=fleet.name,
        )
