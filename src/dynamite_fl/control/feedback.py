"""DYNAMITE with feedback: what the rounds gained decides, not a bound on it.

The paper's bound counts every client's drift as harm and every gradient as progress, and is wrong
by factors that its constants hide. Here the gain of a round of any local steps comes from the path
that the model took (``course.py``), the harm of small batches from how much gradients vary, and
the exact planner weighs both against time and money.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.control.controller import Measure
from dynamite_fl.control.course import NO_COURSE, Course, follow, progress
from dynamite_fl.control.rounds import NOT_KNOWN, largest_batch, repeated, within
from dynamite_fl.control.settings import require_memory, require_positive
from dynamite_fl.control.system import MEMORY, System, as_fleet, filled, first_guess, update
from dynamite_fl.plan.cooptfl import cooptimize
from dynamite_fl.plan.infeasible import Infeasible
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, LossGeometry, Plan
from dynamite_fl.reports import PathReport, RoundReport

_FEWEST_STEPS = 4  # so that a head has two, in which what swings to and fro cancels
_LONGEST_STEP = 2.0  # how many times the usual local steps are looked at
_ENDING = 16  # rounds before the last in which local steps may halve
_FEWER = 0.85  # the rounds that are looked at next, as a part of the last
_LARGEST = 1e15  # of what can be a gradient: beyond it, training has failed, and the loop says so
_VARIANCE_MEMORY = 0.7


@dataclass(frozen=True, eq=False)
class FeedbackState:
    """What it has learned.

    Attributes:
        system: Of the clients' speeds.
        course: Of what local steps gain.
        gradient_variance: M_i of every client, NaN before it was measured, (n,).
        first_samples: How many samples all clients had at the start.
    """

    system: System
    course: Course
    gradient_variance: FloatArray
    first_samples: float

    @property
    def data_streams(self) -> bool:
        """Whether more samples may come: storage is limited, or more have come already."""
        limited = bool(np.isfinite(self.system.buffer_size).any())
        return limited or float(self.system.samples.sum()) > self.first_samples


@dataclass(frozen=True, kw_only=True)
class Feedback:
    """The local steps, batch sizes and rounds that gain most with what remains.

    The rest of the training is planned as if all its rounds were alike: n rounds gain n times what
    one of them does, and end with the noise of their batches in the model, which costs eta/4 sum_i
    (D_i/D)^2 M_i/s_i (docs/control.md). While many rounds remain, their gain weighs more; towards
    the end, noise does, and batches grow. Local steps at most double what they lately were, and are
    at least four, but where no more than fewer fit. The last round has those four, the one before
    it at most twice as many, and so on: how clients run apart in a round is put right by the rounds
    after it. Steps that ran away are halved for good. Given rounds are a limit: fewer are planned
    where that gains more, unless data streams in.

    Attributes:
        learning_rate: eta.
        memory: What a measured time counts one round later.
    """

    learning_rate: float
    memory: float = MEMORY

    def __post_init__(self) -> None:
        require_positive("learning_rate", self.learning_rate)
        require_memory(self.memory)

    @property
    def measures(self) -> Measure:
        """The path of the local steps."""
        return "path"

    def describe(self, state: FeedbackState) -> dict[str, float]:
        """The gain of a local step, and what it rests on."""
        if state.course.weight == 0:
            return {}
        learned = {
            "gain": self.learning_rate * state.course.slope,
            "persistence": state.course.persistence,
        }
        measured = state.gradient_variance[np.isfinite(state.gradient_variance)]
        if measured.size:
            learned["gradient_variance"] = float(measured.mean())
        return learned

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, FeedbackState]:
        """Few local steps."""
        unknown = np.full(len(fleet), np.nan)
        samples = float(fleet.samples.sum())
        state = FeedbackState(first_guess(fleet), NO_COURSE, unknown, samples)
        guess = as_fleet(state.system, cohort, name=fleet.name)
        return self._plan(guess, limits, state), state

    def adapt(
        self, report: RoundReport, remaining: Limits, cohort: IntArray, state: FeedbackState
    ) -> tuple[Plan, FeedbackState]:
        """The best next round by what is now known."""
        state = replace(state, system=update(state.system, report, self.memory))
        if report.path is not None and _is_sound(report.path):
            state = replace(
                state,
                course=follow(state.course, report.path, report.local_steps, self.learning_rate),
                gradient_variance=_varied(state.gradient_variance, report.clients, report.path),
            )
        measured = np.isfinite(state.gradient_variance)
        variance = filled(np.where(measured, state.gradient_variance, 1.0), measured)
        return self._plan(as_fleet(state.system, cohort, variance), remaining, state), state

    def _plan(self, fleet: Fleet, limits: Limits, state: FeedbackState) -> Plan:
        """The best of fewer and fewer rounds, as long as they get better.

        Where data streams in, as many as fit of the given rounds are played: what comes late should
        be learned too.
        """
        least = min(_FEWEST_STEPS, limits.max_local_steps)
        try:
            rounds = within(fleet, limits, least).rounds
        except Infeasible:  # a last round, for which even that is too much
            rounds = within(fleet, limits).rounds or 1
            return repeated(fleet, limits, 1, largest_batch(fleet, limits, rounds, 1))
        all_of_them = state.data_streams and rounds is not None
        if rounds is None:
            rounds = repeated(fleet, limits, least, 1).rounds
        best = self._best(fleet, limits, rounds, state.course)
        while rounds > 1 and not all_of_them:
            rounds = min(math.ceil(_FEWER * rounds), rounds - 1)
            plan = self._best(fleet, limits, rounds, state.course)
            if plan.bound >= best.bound or plan.local_steps <= best.local_steps:
                break  # fewer rounds are for longer ones, not for larger batches alone
            best = plan
        return best

    def _best(self, fleet: Fleet, limits: Limits, rounds: int, course: Course) -> Plan:
        """The plan for these rounds after which the loss is least."""
        unseen = course.weight == 0
        least = min(_FEWEST_STEPS, limits.max_local_steps)
        usual = max(course.local_steps, course.newest_steps)
        most: float = least if unseen else max(math.ceil(_LONGEST_STEP * usual), least)
        most = min(most, _most_before_the_end(least, rounds), max(course.most_steps, least))

        def loss_after(
            geometry: LossGeometry,  # noqa: ARG001  what an objective takes
            rounds: ArrayLike,
            local_steps: ArrayLike,
            gradient_noise: ArrayLike,
        ) -> FloatArray:
            steps = np.asarray(local_steps)
            gain = steps if unseen else self.learning_rate * progress(course, steps)
            left = self.learning_rate / 4 * np.asarray(gradient_noise)
            change = left - np.asarray(rounds) * gain
            return np.where((steps < least) | (steps > most), np.inf, change)

        return cooptimize(fleet, replace(limits, rounds=rounds), NOT_KNOWN, loss_after)


def _most_before_the_end(least: int, rounds: int) -> int:
    """In the last round the least, in the one before it twice as many, and so on."""
    return least << min(rounds - 1, _ENDING)


def _is_sound(path: PathReport) -> bool:
    """Whether it can be what steps of finite gradients led to."""
    ways = np.concatenate([path.head, path.tail])
    return bool(np.all(np.abs(ways) < _LARGEST))  # not so if NaN


def _varied(variance: FloatArray, clients: IntArray, path: PathReport) -> FloatArray:
    """M_i with what a round showed of it."""
    found = path.gradient_variance
    seen = found < _LARGEST**2  # not so if NaN
    rows = clients[seen]
    known = np.where(np.isfinite(variance[rows]), variance[rows], found[seen])
    changed = variance.copy()
    changed[rows] = _VARIANCE_MEMORY * known + (1 - _VARIANCE_MEMORY) * found[seen]
    return changed
