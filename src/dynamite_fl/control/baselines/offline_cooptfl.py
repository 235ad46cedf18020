"""CoOptFL: Algorithm 1 once before training, with what a pilot run measured.

The paper uses it as a baseline in Section VII.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl._validate import check_whole
from dynamite_fl.control.ablations import at_steps
from dynamite_fl.control.controller import Measure
from dynamite_fl.control.fitting import constant_plan
from dynamite_fl.plan.bounds import Bound, cumulative_bound
from dynamite_fl.plan.cooptfl import cooptimize
from dynamite_fl.plan.feasibility import fit_rounds
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, LossGeometry, Plan
from dynamite_fl.reports import RoundReport


@dataclass(frozen=True, eq=False)
class CoOptFLState:
    """What was known at the start.

    Attributes:
        fleet: All clients as the pilot run measured them, without names.
        limits: The limits of the whole training, with the planned rounds.
    """

    fleet: Fleet
    limits: Limits


@dataclass(frozen=True, kw_only=True, eq=False)
class CoOptFL:
    """Keeps the plan of least bound for the whole training (Theorem 1).

    The plan of a cohort depends on its clients and on what was known at the start only. Whenever
    the same clients take part, they do the same.

    Attributes:
        geometry: The constants of the loss, from the pilot run.
        gradient_variance: M_i from the pilot run, shape (n,) or one number. If None, the fleet's.
        samples_per_second: The clients' speeds (p_i), likewise.
        step_overhead: The overhead of a local step in seconds, likewise.
        comm_seconds: The seconds of communication in a round (t_ui), likewise.
        objective: The bound to minimise.
        local_steps: The local steps of every round (tau). If None, the plan chooses them too.
    """

    geometry: LossGeometry
    gradient_variance: ArrayLike | None = None
    samples_per_second: ArrayLike | None = None
    step_overhead: ArrayLike | None = None
    comm_seconds: ArrayLike | None = None
    objective: Bound = cumulative_bound
    local_steps: int | None = None

    def __post_init__(self) -> None:
        if self.local_steps is not None:
            check_whole("local_steps", self.local_steps)

    @property
    def measures(self) -> Measure:
        """Nothing, because the pilot run has measured the loss."""
        return "nothing"

    def describe(self, _state: CoOptFLState) -> dict[str, float]:
        """Return no numbers, because nothing is learned during training."""
        return {}

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, CoOptFLState]:
        """Run Algorithm 1 for the first cohort."""
        measured = self._measured(fleet)
        plan = self._offline_plan(measured.subset(cohort), limits)
        planned = replace(limits, rounds=plan.rounds)
        return plan, CoOptFLState(measured.with_columns(name=None), planned)

    def adapt(
        self,
        _report: RoundReport,
        fleet: Fleet,
        remaining: Limits,
        cohort: IntArray,
        state: CoOptFLState,
    ) -> tuple[Plan, CoOptFLState]:
        """Return the offline plan of the next cohort, for as many rounds as fit now."""
        plan = self._offline_plan(state.fleet.subset(cohort), state.limits)
        clients = fleet.subset(cohort)
        fitting = constant_plan(clients, remaining, plan.local_steps, plan.batch_sizes)
        return replace(fitting, bound=plan.bound), state

    def _offline_plan(self, fleet: Fleet, limits: Limits) -> Plan:
        if self.local_steps is None:
            return cooptimize(fleet, fit_rounds(fleet, limits), self.geometry, self.objective)
        steps = min(self.local_steps, limits.max_local_steps)
        fitting = fit_rounds(fleet, limits, steps)
        return cooptimize(fleet, fitting, self.geometry, at_steps(steps, self.objective))

    def _measured(self, fleet: Fleet) -> Fleet:
        """Return the fleet as the pilot run measured it."""

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
            least_batch=fleet.least_batch,
            name=fleet.name,
        )
