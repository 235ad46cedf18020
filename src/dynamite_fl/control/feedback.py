"""DYNAMITE with feedback, our default: decide by the measured gain of local steps.

The paper's bound counts every client's drift as harm and every gradient as progress, and its
constants hide that it is wrong by large factors. Here, the gain of a round comes from the path that
the model took (``estimate/gain.py``), and the harm of small batches from the variance of gradients.
The exact planner weighs both against time and money. docs/control.md explains why.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl._validate import check_number
from dynamite_fl.control.controller import Measure
from dynamite_fl.control.estimate.gain import GainEstimate, expected_gain, update_gain
from dynamite_fl.control.estimate.speed import fill_with_median
from dynamite_fl.control.fitting import constant_plan, largest_batch
from dynamite_fl.plan.cooptfl import best_plan
from dynamite_fl.plan.feasibility import Infeasible, fit_rounds
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, Plan
from dynamite_fl.reports import PathReport, RoundReport

_LEAST_STEPS = 4  # so that a first half has two steps, in which oscillations cancel
_MOST_GROWTH = 2.0  # the largest local steps considered, relative to the recent ones
_SHORT_ENDING = 16  # the number of last rounds in which local steps may have to halve
_FEWER_ROUNDS = 0.85  # the next smaller number of rounds considered, relative to the last one
_LARGEST_GRADIENT = 1e15  # a larger one shows that training has diverged, which the loop reports
_VARIANCE_MEMORY = 0.7  # the weight of the earlier gradient variance beside a new measurement


@dataclass(frozen=True, eq=False)
class FeedbackState:
    """What the controller has learned.

    Attributes:
        gain: The gain of local steps.
        gradient_variance: M_i of every client, shape (n,). NaN if it was not measured yet.
        first_samples: The number of samples of all clients at the start.
    """

    gain: GainEstimate
    gradient_variance: FloatArray
    first_samples: float


@dataclass(frozen=True, kw_only=True)
class Feedback:
    """Chooses the local steps, batch sizes and rounds that gain most with what remains.

    The rest of the training is planned as if all its rounds were alike. Then n rounds gain n times
    as much as one round. They end with the noise of their batches in the model, which costs
    eta/4 sum_i (D_i/D)^2 M_i/s_i (docs/control.md). While many rounds remain, gain matters more.
    Towards the end, noise matters more and batches grow.

    Local steps are at least four, unless the limits allow fewer, and at most twice the recent ones.
    The last round has the least number of steps, the round before it at most twice as many, and so
    on, because only later rounds correct the drift of clients in a round. A number of local steps
    that diverged is never reached again. Given rounds are an upper limit: fewer rounds are planned
    if they gain more, unless data streams in.

    Attributes:
        learning_rate: eta, the step size of local steps.
    """

    learning_rate: float

    def __post_init__(self) -> None:
        check_number("learning_rate", self.learning_rate, positive=True)

    @property
    def measures(self) -> Measure:
        """The path of the local steps."""
        return "path"

    def describe(self, state: FeedbackState) -> dict[str, float]:
        """Return the gain of a local step, its persistence, and the mean gradient variance."""
        if state.gain.gain_weight == 0:
            return {}
        numbers = {
            "gain": self.learning_rate * state.gain.first_gain,
            "persistence": state.gain.persistence,
        }
        measured = state.gradient_variance[np.isfinite(state.gradient_variance)]
        if measured.size:
            numbers["gradient_variance"] = float(measured.mean())
        return numbers

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, FeedbackState]:
        """Plan the least number of local steps."""
        unknown = np.full(len(fleet), np.nan)
        state = FeedbackState(GainEstimate(), unknown, float(fleet.samples.sum()))
        return self._plan(fleet, limits, cohort, state), state

    def adapt(
        self,
        report: RoundReport,
        fleet: Fleet,
        remaining: Limits,
        cohort: IntArray,
        state: FeedbackState,
    ) -> tuple[Plan, FeedbackState]:
        """Plan the next round of the best plan for all that remains."""
        path = report.path
        if path is not None and _is_finite(path):
            state = replace(
                state,
                gain=update_gain(state.gain, path, report.local_steps, self.learning_rate),
                gradient_variance=_update_variance(state.gradient_variance, report.clients, path),
            )
        return self._plan(fleet, remaining, cohort, state), state

    def _plan(self, fleet: Fleet, limits: Limits, cohort: IntArray, state: FeedbackState) -> Plan:
        """Plan fewer and fewer rounds as long as the plan becomes better.

        If data streams in, all given rounds that fit are played, so that late data is learned too.
        """
        measured = np.isfinite(state.gradient_variance)
        variance = fill_with_median(np.where(measured, state.gradient_variance, 1.0), measured)
        clients = fleet.with_columns(gradient_variance=variance).subset(cohort)
        least = min(_LEAST_STEPS, limits.max_local_steps)
        try:
            rounds = fit_rounds(clients, limits, least).rounds
        except Infeasible:  # a last round in which even the least number of steps does not fit
            rounds = fit_rounds(clients, limits).rounds or 1
            return constant_plan(clients, limits, 1, largest_batch(clients, limits, rounds, 1))
        keep_rounds = rounds is not None and _data_streams(fleet, state)
        if rounds is None:
            rounds = constant_plan(clients, limits, least, 1).rounds
        best = self._best(clients, limits, rounds, state.gain)
        while rounds > 1 and not keep_rounds:
            rounds = min(math.ceil(_FEWER_ROUNDS * rounds), rounds - 1)
            plan = self._best(clients, limits, rounds, state.gain)
            if plan.bound >= best.bound or plan.local_steps <= best.local_steps:
                break  # fewer rounds must have more local steps, not only larger batches
            best = plan
        return best

    def _best(self, fleet: Fleet, limits: Limits, rounds: int, gain: GainEstimate) -> Plan:
        """Return the plan for this number of rounds after which the loss is least."""
        unknown = gain.gain_weight == 0
        least = min(_LEAST_STEPS, limits.max_local_steps)
        recent = max(gain.mean_steps, gain.newest_steps)
        most: float = least if unknown else max(math.ceil(_MOST_GROWTH * recent), least)
        most = min(most, _most_steps_before_end(least, rounds), max(gain.most_steps, least))

        def change_of_loss(
            rounds: ArrayLike, local_steps: ArrayLike, gradient_noise: ArrayLike
        ) -> FloatArray:
            steps = np.asarray(local_steps)
            round_gain = steps if unknown else self.learning_rate * expected_gain(gain, steps)
            noise = self.learning_rate / 4 * np.asarray(gradient_noise)
            change = noise - np.asarray(rounds) * round_gain
            return np.where((steps < least) | (steps > most), np.inf, change)

        return best_plan(fleet, replace(limits, rounds=rounds), change_of_loss)


def _data_streams(fleet: Fleet, state: FeedbackState) -> bool:
    """Return whether more samples may arrive: storage is limited, or some have arrived already."""
    return fleet.buffer_size is not None or float(fleet.samples.sum()) > state.first_samples


def _most_steps_before_end(least: int, rounds: int) -> int:
    """Return the least local steps for the last round, twice as many for the one before, etc."""
    return least << min(rounds - 1, _SHORT_ENDING)


def _is_finite(path: PathReport) -> bool:
    """Return whether the path can be that of steps with finite gradients."""
    movement = np.concatenate([path.first_half, path.second_half])
    return bool(np.all(np.abs(movement) < _LARGEST_GRADIENT))  # False for NaN


def _update_variance(variance: FloatArray, clients: IntArray, path: PathReport) -> FloatArray:
    """Return M_i of every client with the measurements of one more round."""
    measured = path.gradient_variance
    usable = measured < _LARGEST_GRADIENT**2  # False for NaN
    rows, new = clients[usable], measured[usable]
    old = np.where(np.isfinite(variance[rows]), variance[rows], new)
    changed = variance.copy()
    changed[rows] = _VARIANCE_MEMORY * old + (1 - _VARIANCE_MEMORY) * new
    return changed
