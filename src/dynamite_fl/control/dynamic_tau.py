"""Dynamic-tau: local steps by an error bound of their own, one batch size.

S. Wang, T. Tuor, T. Salonidis, K. K. Leung, C. Makaya, T. He, K. Chan: Adaptive Federated
Learning in Resource Constrained Edge Computing Systems. IEEE Journal on Selected Areas in
Communications 37(6), 2019.
"""

import math
from dataclasses import dataclass

import numpy as np

from dynamite_fl.control.controller import Measure
from dynamite_fl.control.estimate import (
    LossEstimates,
    known_means,
    loss_geometry,
    nothing_measured,
    observe,
)
from dynamite_fl.control.rounds import capped, repeated
from dynamite_fl.control.settings import require_memory, require_positive, require_whole
from dynamite_fl.control.system import MEMORY, System, as_fleet, first_guess, update
from dynamite_fl.plan.bound import local_bias
from dynamite_fl.plan.infeasible import Infeasible
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, Plan
from dynamite_fl.reports import RoundReport

_FASTEST_RISE = 10  # gamma: how many times the last local steps are looked at


@dataclass(frozen=True)
class Resource:
    """Something that training uses up.

    Attributes:
        total: R, what there was at the start.
        step: c, what a local step takes.
        rest: b, what the rest of a round takes.
    """

    total: float
    step: float
    rest: float

    def steps(self, tau: IntArray) -> FloatArray:
        """T = (R - c - b) tau / (c tau + b): the local steps it is enough for, at least one.

        Example:
            >>> Resource(total=103.0, step=1.0, rest=2.0).steps(np.array([1, 2, 8]))
            array([33.33333333, 50.        , 80.        ])
        """
        left = self.total - self.step - self.rest
        with np.errstate(divide="ignore", invalid="ignore"):
            enough = left * tau / (self.step * tau + self.rest)
        return np.where(self.step * tau + self.rest > 0, np.maximum(enough, 1.0), np.inf)


def wang_bound(
    tau: IntArray,
    steps: FloatArray,
    bias: FloatArray,
    *,
    learning_rate: float,
    lipschitz: float,
    phi: float,
) -> FloatArray:
    """(1 + sqrt(1 + 4 T^2 phi rho eta h / tau)) / (2 T eta phi) + rho h, of which least is best.

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
    """What Dynamic-tau has learned, its last local steps, and the limits it began with."""

    system: System
    loss: LossEstimates
    local_steps: int
    deadline: float
    budget: float
    rounds: float


@dataclass(frozen=True, kw_only=True)
class DynamicTau:
    """The local steps of the least Wang bound; the batch size stays.

    Of time and money, the one that is enough for fewer local steps counts. Training begins
    with one local step, and the local steps rise at most tenfold from round to round. When
    what is left is too little for a round, its local steps are cut to what fits.

    Attributes:
        learning_rate: eta.
        phi: Their control parameter; 0.025 for the SVM and 5e-5 for the CNN.
        batch_size: s.
        count_rounds: Whether given rounds count as a third resource. Theirs have no end.
        memory: What a measured time counts one round later.
    """

    learning_rate: float
    phi: float = 0.025
    batch_size: int = 60
    count_rounds: bool = False
    memory: float = MEMORY

    def __post_init__(self) -> None:
        require_positive("learning_rate", self.learning_rate)
        require_positive("phi", self.phi)
        require_whole("batch_size", self.batch_size)
        require_memory(self.memory)

    @property
    def measures(self) -> Measure:
        """The loss: smoothness, divergence and slope of the loss are measured."""
        return "loss"

    def describe(self, state: DynamicTauState) -> dict[str, float]:
        """The estimates of the loss that the last plan rests on."""
        return known_means(state.loss)

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, DynamicTauState]:
        """One local step."""
        state = DynamicTauState(
            system=first_guess(fleet),
            loss=nothing_measured(fleet),
            local_steps=1,
            deadline=limits.deadline,
            budget=limits.budget,
            rounds=math.inf if limits.rounds is None else limits.rounds,
        )
        guess = as_fleet(state.system, cohort, name=fleet.name)
        return repeated(guess, limits, 1, self.batch_size), state

    def adapt(
        self, report: RoundReport, remaining: Limits, cohort: IntArray, state: DynamicTauState
    ) -> tuple[Plan, DynamicTauState]:
        """The best local steps by what is now known."""
        system = update(state.system, report, self.memory)
        loss = observe(state.loss, report)
        fleet = as_fleet(system, cohort)
        steps = self._best_steps(fleet, remaining, loss, state)
        plan = _cut_to_fit(fleet, remaining, steps, self.batch_size)
        state = DynamicTauState(
            system, loss, plan.local_steps, state.deadline, state.budget, state.rounds
        )
        return plan, state

    def _best_steps(
        self, fleet: Fleet, limits: Limits, loss: LossEstimates, state: DynamicTauState
    ) -> int:
        geometry = loss_geometry(loss, self.learning_rate)
        if geometry is None or math.isnan(loss.lipschitz):
            return state.local_steps
        most = min(_FASTEST_RISE * state.local_steps, limits.max_local_steps)
        tau = np.arange(1, most + 1)
        resources = self._resources(fleet, limits, state)
        value = wang_bound(
            tau,
            np.min([resource.steps(tau) for resource in resources], axis=0),
            local_bias(geometry, tau),
            learning_rate=self.learning_rate,
            lipschitz=loss.lipschitz,
            phi=self.phi,
        )
        return int(tau[np.argmin(value)])

    def _resources(self, fleet: Fleet, limits: Limits, state: DynamicTauState) -> list[Resource]:
        sizes = capped(fleet, self.batch_size)
        slowest = float((fleet.step_overhead + sizes / fleet.samples_per_second).max())
        dearest = limits.cost_per_sample * int(sizes.sum())
        time = Resource(state.deadline, slowest, float(fleet.comm_seconds.max()))
        money = Resource(state.budget, dearest, limits.cost_per_round)
        found = [each for each in (time, money) if math.isfinite(each.total)]
        if self.count_rounds or not found:
            found.append(Resource(state.rounds + 1, 0.0, 1.0))
        return found


def _cut_to_fit(fleet: Fleet, limits: Limits, local_steps: int, batch_size: int) -> Plan:
    """A plan of the most local steps, up to these, of which one round fits."""
    for steps in range(local_steps, 1, -1):
        try:
            return repeated(fleet, limits, steps, batch_size)
        except Infeasible:
            continue
    return repeated(fleet, limits, 1, batch_size)
