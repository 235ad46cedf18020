"""Dynamic-tau: the local steps of least error by Wang et al.'s bound, with one batch size.

S. Wang, T. Tuor, T. Salonidis, K. K. Leung, C. Makaya, T. He, K. Chan: Adaptive Federated
Learning in Resource Constrained Edge Computing Systems. IEEE Journal on Selected Areas in
Communications 37(6), 2019.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dynamite_fl._validate import check_number, check_whole
from dynamite_fl.control.controller import Measure
from dynamite_fl.control.estimate.loss import (
    LossEstimates,
    known_means,
    loss_geometry,
    nothing_measured,
    update_loss,
)
from dynamite_fl.control.fitting import clip_batches, constant_plan
from dynamite_fl.plan.bounds import local_bias
from dynamite_fl.plan.feasibility import Infeasible
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, Plan
from dynamite_fl.reports import RoundReport

_FASTEST_RISE = 10  # gamma, the largest local steps considered, relative to the last ones


@dataclass(frozen=True)
class Resource:
    """Something that training uses up, such as time or money.

    Attributes:
        total: R, the amount at the start.
        step: c, the amount that a local step uses.
        rest: b, the amount that a round uses in addition to its local steps.
    """

    total: float
    step: float
    rest: float

    def steps(self, tau: IntArray) -> FloatArray:
        """Compute the sufficient local steps T = (R - c - b) tau / (c tau + b), at least one.

        Example:
            >>> Resource(total=103.0, step=1.0, rest=2.0).steps(np.array([1, 2, 8]))
            array([33.33333333, 50.        , 80.        ])
        """
        left = self.total - self.step - self.rest
        with np.errstate(divide="ignore", invalid="ignore"):
            sufficient = left * tau / (self.step * tau + self.rest)
        return np.where(self.step * tau + self.rest > 0, np.maximum(sufficient, 1.0), np.inf)


def wang_bound(
    tau: IntArray,
    steps: FloatArray,
    bias: FloatArray,
    *,
    learning_rate: float,
    lipschitz: float,
    phi: float,
) -> FloatArray:
    """Compute (1 + sqrt(1 + 4 T^2 phi rho eta h / tau)) / (2 T eta phi) + rho h.

    Example:
        >>> one = np.array([1])  # (1 + sqrt(25)) / 2 + 3
        >>> wang_bound(one, one * 2.0, one * 1.5, learning_rate=0.5, lipschitz=2.0, phi=1.0)
        array([6.])
    """
    eta, rho, h = learning_rate, lipschitz, np.maximum(bias, 0.0)
    root = np.sqrt(1 + 4 * steps**2 * phi * rho * eta * h / tau)
    return np.asarray((1 + root) / (2 * steps * eta * phi) + rho * h)


@dataclass(frozen=True, eq=False)
class DynamicTauState:
    """What Dynamic-tau has learned.

    Attributes:
        loss: The estimates of the loss.
        local_steps: The local steps of the last plan.
        deadline: The deadline at the start, in seconds.
        budget: The budget at the start, in cost units.
        rounds: The rounds at the start. Infinite if they were not given.
    """

    loss: LossEstimates
    local_steps: int
    deadline: float
    budget: float
    rounds: float


@dataclass(frozen=True, kw_only=True)
class DynamicTau:
    """Chooses the local steps of least ``wang_bound``, at a fixed batch size.

    The bound uses the resource, time or money, that is sufficient for fewer local steps. Training
    begins with one local step, and local steps rise at most tenfold from round to round. If the
    limits do not allow a round of these local steps, they are reduced until one fits.

    Attributes:
        phi: The authors' control parameter. They use 0.025 for the SVM and 5e-5 for the CNN.
        batch_size: s, the samples of each client in a local step.
        count_rounds: Whether given rounds count as a third resource. The authors limit no rounds.
    """

    phi: float = 0.025
    batch_size: int = 60
    count_rounds: bool = False

    def __post_init__(self) -> None:
        check_number("phi", self.phi, positive=True)
        check_whole("batch_size", self.batch_size)

    @property
    def measures(self) -> Measure:
        """The loss."""
        return "loss"

    def describe(self, state: DynamicTauState) -> dict[str, float]:
        """Return the estimates of the loss that the last plan is based on."""
        return known_means(state.loss)

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, DynamicTauState]:
        """Plan one local step."""
        state = DynamicTauState(
            loss=nothing_measured(len(fleet)),
            local_steps=1,
            deadline=limits.deadline,
            budget=limits.budget,
            rounds=math.inf if limits.rounds is None else limits.rounds,
        )
        return constant_plan(fleet.subset(cohort), limits, 1, self.batch_size), state

    def adapt(
        self,
        report: RoundReport,
        fleet: Fleet,
        remaining: Limits,
        cohort: IntArray,
        state: DynamicTauState,
    ) -> tuple[Plan, DynamicTauState]:
        """Plan the local steps of least bound."""
        state = replace(state, loss=update_loss(state.loss, report))
        clients = fleet.subset(cohort)
        steps = self._best_steps(clients, remaining, state, report.learning_rate)
        plan = _reduce_to_fit(clients, remaining, steps, self.batch_size)
        return plan, replace(state, local_steps=plan.local_steps)

    def _best_steps(
        self, fleet: Fleet, limits: Limits, state: DynamicTauState, learning_rate: float
    ) -> int:
        geometry = loss_geometry(known_means(state.loss), learning_rate)
        if geometry is None or math.isnan(state.loss.lipschitz):
            return state.local_steps
        most = min(_FASTEST_RISE * state.local_steps, limits.max_local_steps)
        tau = np.arange(1, most + 1)
        resources = self._resources(fleet, limits, state)
        value = wang_bound(
            tau,
            np.min([resource.steps(tau) for resource in resources], axis=0),
            local_bias(geometry, tau),
            learning_rate=learning_rate,
            lipschitz=state.loss.lipschitz,
            phi=self.phi,
        )
        return int(tau[np.argmin(value)])

    def _resources(self, fleet: Fleet, limits: Limits, state: DynamicTauState) -> list[Resource]:
        sizes = clip_batches(fleet, self.batch_size)
        step_seconds = float((fleet.step_overhead + sizes / fleet.samples_per_second).max())
        step_cost = limits.cost_per_sample * int(sizes.sum())
        time = Resource(state.deadline, step_seconds, float(fleet.comm_seconds.max()))
        money = Resource(state.budget, step_cost, limits.cost_per_round)
        resources = [resource for resource in (time, money) if math.isfinite(resource.total)]
        if self.count_rounds or not resources:
            resources.append(Resource(state.rounds + 1, 0.0, 1.0))
        return resources


def _reduce_to_fit(fleet: Fleet, limits: Limits, local_steps: int, batch_size: int) -> Plan:
    """Plan the largest number of local steps, up to the given one, with which a round fits."""
    for steps in range(local_steps, 1, -1):
        try:
            return constant_plan(fleet, limits, steps, batch_size)
        except Infeasible:
            continue
    return constant_plan(fleet, limits, 1, batch_size)
